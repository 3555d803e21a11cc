//! Scans: the live tree (or a snapshot's) and the transaction's own changes as one ordered sequence of rows.
//!
//! A scan holds no borrow between calls. It sees the statement's own changes as far as they lie ahead of it, so a statement
//! that changes what it scans collects the rows first and changes them afterwards.

use std::borrow::Cow;
use std::sync::Arc;

use base::TreeId;
use btree::{Cursor, Seek};

use crate::catalog::{Index, Table};
use crate::interrupt::Step;
use crate::overlay::{Change, first_in, last_in};
use crate::row::RowRef;
use crate::row::keys::{Key, KeyRange, table_key_of_entry};
use crate::trees::Pages;
use crate::view::{Access, State, View, disagreement, source};

/// In which order keys are visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    #[default]
    Forward,
    Backward,
}

/// A scan under way; move it with [`View::next`].
#[derive(Clone, Debug)]
pub struct Scan<'t> {
    of: Scanned<'t>,
    /// The table key of the index entry last visited.
    table_key: Key,
    walk: Walk,
}

/// What is scanned: the table, and the index if it is not the table's own tree.
#[derive(Clone, Debug)]
enum Scanned<'t> {
    Borrowed(&'t Table, Option<&'t Index>),
    Shared(Arc<Table>, Option<Box<Index>>),
}

impl Scanned<'_> {
    #[inline]
    fn table(&self) -> &Table {
        match self {
            Scanned::Borrowed(table, _) => table,
            Scanned::Shared(table, _) => table,
        }
    }

    #[inline]
    fn index(&self) -> Option<&Index> {
        match self {
            Scanned::Borrowed(_, index) => *index,
            Scanned::Shared(_, index) => index.as_deref(),
        }
    }
}

/// The entries of one tree with the transaction's changes.
#[derive(Clone, Debug)]
struct Walk {
    tree: TreeId,
    /// What is still to be visited; shrinks from the side the scan comes from.
    range: KeyRange,
    direction: Direction,
    cursor: Cursor,
    state: State,
    /// An entry of the tree the cursor has passed but the scan has not: own changes came before it.
    ahead: Option<(Key, Vec<u8>)>,
    started: bool,
    /// Bytes of values in pages of their own that were gathered since the session was last asked because of them.
    long_read: usize,
}

/// Bytes of such values after which the session is asked whether the statement is to end: to gather them takes as long as the rows after which it is asked
/// otherwise.
const LONG_UNASKED_MAX: usize = 256 << 10;

impl Scan<'_> {
    pub fn table(&self) -> &Table {
        self.of.table()
    }

    /// The key, in the tree that is scanned, of the entry last visited, where the transaction has changed nothing of that tree.
    ///
    /// # Panics
    /// Before the first.
    pub fn passed(&self) -> &[u8] {
        match self.walk.cursor.position() {
            Seek::After(key) | Seek::Before(key) => key,
            Seek::Start | Seek::End => panic!("nothing was visited yet"),
        }
    }
}

/// Where the next entry is.
enum Found {
    /// In `Walk::ahead`.
    Ahead,
    /// In the transaction's changes, under this key.
    Own(Key),
}

impl View<'_> {
    /// A scan over `range`, in the order of `access`'s keys or against it. Touches no page yet.
    pub fn scan(
        &mut self,
        table: &Arc<Table>,
        access: Access<'_>,
        range: KeyRange,
        direction: Direction,
    ) -> Scan<'static> {
        self.scan_state(table, access, range, direction, State::Statement)
    }

    /// As [`View::scan`], of definitions that stay as long as the scan. Those in a plan belong to all sessions that have an equal one, on whichever worker:
    /// to count a reference to them is to take a cache line away from the others, and an index is copied in parts.
    pub fn scan_borrowed<'t>(
        &mut self,
        table: &'t Table,
        access: Access<'t>,
        range: KeyRange,
        direction: Direction,
    ) -> Scan<'t> {
        let of = Scanned::Borrowed(table, index_beside(table, access));
        self.begin_scan(of, range, direction, State::Statement)
    }

    /// About how many rows a scan over `range` would come by: of what is committed, without changes of transactions under way. Looks at the pages on the
    /// ways to the two ends only.
    pub fn estimate(&self, table: &Table, access: Access<'_>, range: &KeyRange) -> Step<f64> {
        let tree = match access {
            Access::Index(index) if !table.is_primary(index) => index.tree,
            _ => table.tree,
        };
        let (pages, root) = source(&self.tenant, self.txn, tree, State::Statement)?;
        Ok(btree::estimate(&pages, root, &range.from, range.to.as_deref())?)
    }

    /// As [`View::scan`], over the newest committed rows with the transaction's own, whatever its isolation: for checking
    /// what must hold of all rows.
    ///
    /// Errors: 40001 in a snapshot transaction whose definition of the table is not the newest, which is the rows'.
    pub fn scan_newest(
        &mut self,
        table: &Arc<Table>,
        access: Access<'_>,
        range: KeyRange,
        direction: Direction,
    ) -> Step<Scan<'static>> {
        self.tenant.require_definition_of_snapshot(self.txn, table.oid)?;
        Ok(self.scan_state(table, access, range, direction, State::Newest))
    }

    pub(crate) fn scan_state(
        &mut self,
        table: &Arc<Table>,
        access: Access<'_>,
        range: KeyRange,
        direction: Direction,
        state: State,
    ) -> Scan<'static> {
        let index = index_beside(table, access).map(|index| Box::new(index.clone()));
        self.begin_scan(Scanned::Shared(Arc::clone(table), index), range, direction, state)
    }

    fn begin_scan<'t>(
        &mut self,
        of: Scanned<'t>,
        range: KeyRange,
        direction: Direction,
        state: State,
    ) -> Scan<'t> {
        let tree = of.index().map_or(of.table().tree, |index| index.tree);
        if state == State::Statement {
            self.note_read(tree, || range.clone());
        }
        let pending = self.tenant.pending.of_tree(tree);
        self.txn.observe(pending);
        // The first step finds the root, and whether the snapshot is still there.
        let root = btree::TreeRoot::default();
        Scan {
            of,
            table_key: Key::new(),
            walk: Walk {
                tree,
                range,
                direction,
                cursor: Cursor::new(root, Seek::Start),
                state,
                ahead: None,
                started: false,
                long_read: 0,
            },
        }
    }

    /// The scan's next row; `None` at its end. After an interrupt the statement starts anew, and so do its scans.
    pub fn next<'v>(&'v mut self, scan: &'v mut Scan<'_>) -> Step<Option<RowRef<'v>>> {
        self.step()?;
        if scan.walk.long_read >= LONG_UNASKED_MAX {
            scan.walk.long_read = 0;
            self.look()?;
        }
        let table = scan.of.table();
        let Some(index) = scan.of.index() else {
            let Some((key, value)) = next_entry(self, &mut scan.walk)? else { return Ok(None) };
            return Ok(Some(RowRef::new(table, key, value)));
        };
        let Some((key, value)) = next_entry(self, &mut scan.walk)? else { return Ok(None) };
        let table_key = table_key_of_entry(&key, &value).ok_or_else(|| disagreement(table, index))?;
        scan.table_key = Key::from_slice(table_key);
        self.note_point_read(table.tree, &scan.table_key);
        match self.read(table.tree, &scan.table_key, scan.walk.state)? {
            Some(bytes) => {
                if let Cow::Owned(long) = &bytes {
                    scan.walk.long_read += long.len();
                }
                Ok(Some(RowRef::new(table, Cow::Borrowed(&scan.table_key), bytes)))
            }
            None => Err(disagreement(table, index).into()),
        }
    }

    /// The scan's next row as values of `columns` and its key; `None` at its end.
    pub fn next_columns(
        &mut self,
        scan: &mut Scan<'_>,
        columns: &[usize],
        out: &mut Vec<types::Datum>,
    ) -> Step<Option<Key>> {
        match self.next(scan)? {
            None => Ok(None),
            Some(row) => {
                row.columns_into(columns, out)?;
                Ok(Some(Key::from_slice(row.key())))
            }
        }
    }
}

/// The index that is scanned, if it is not the table's own tree.
fn index_beside<'t>(table: &Table, access: Access<'t>) -> Option<&'t Index> {
    match access {
        Access::Index(index) if !table.is_primary(index) => Some(index),
        _ => None,
    }
}

type EntryBytes<'v> = (Cow<'v, [u8]>, Cow<'v, [u8]>);

fn next_entry<'v>(view: &'v View<'_>, scan: &'v mut Walk) -> Step<Option<EntryBytes<'v>>> {
    let (pages, root) = source(&view.tenant, view.txn, scan.tree, scan.state)?;
    scan.start(root);
    let Some(changes) = view.txn.changes(scan.state).of(scan.tree) else {
        return scan.next_in_tree(pages);
    };
    let found = loop {
        let in_tree = scan.peek_tree(pages)?;
        let own = match scan.direction {
            Direction::Forward => first_in(changes, &scan.range),
            Direction::Backward => last_in(changes, &scan.range),
        };
        let Some((own_key, change)) = own else {
            match in_tree {
                false => return Ok(None),
                true => break Found::Ahead,
            }
        };
        let order = match &scan.ahead {
            None => std::cmp::Ordering::Greater,
            Some((key, _)) if scan.direction == Direction::Forward => key[..].cmp(&own_key[..]),
            Some((key, _)) => own_key[..].cmp(&key[..]),
        };
        if order.is_lt() {
            break Found::Ahead;
        }
        if order.is_eq() {
            scan.ahead = None;
        }
        scan.pass(own_key.clone());
        if matches!(change, Change::Put(_)) {
            break Found::Own(own_key.clone());
        }
    };
    match found {
        Found::Own(key) => match changes.get(&key) {
            Some(Change::Put(value)) => Ok(Some((Cow::Owned(key.to_vec()), Cow::Borrowed(value)))),
            _ => unreachable!("found a moment ago"),
        },
        Found::Ahead => {
            let (key, value) = scan.ahead.take().expect("looked at above");
            scan.pass(key.clone());
            Ok(Some((Cow::Owned(key.to_vec()), Cow::Owned(value))))
        }
    }
}

impl Walk {
    fn start(&mut self, root: btree::TreeRoot) {
        self.cursor.set_root(root);
        if !self.started {
            self.started = true;
            self.cursor.seek(match (self.direction, &self.range.to) {
                (Direction::Forward, _) => Seek::Before(&self.range.from),
                (Direction::Backward, Some(to)) => Seek::Before(to),
                (Direction::Backward, None) => Seek::End,
            });
        }
    }

    /// The next entry of the tree alone.
    #[inline]
    fn next_in_tree<'v>(&'v mut self, pages: Pages<'v>) -> Step<Option<EntryBytes<'v>>> {
        if let Some((key, value)) = self.ahead.take() {
            return Ok(Some((Cow::Owned(key.to_vec()), Cow::Owned(value))));
        }
        // Each arm reads its own pages, so that values are borrowed from them and not from `pages`.
        let value = match pages {
            Pages::Live(pages) => match step(&mut self.cursor, pages, self.direction)? {
                Some(value) => value.read(pages)?,
                None => return Ok(None),
            },
            Pages::Frozen(pages) => match step(&mut self.cursor, pages, self.direction)? {
                Some(value) => value.read(pages)?,
                None => return Ok(None),
            },
        };
        if let Cow::Owned(long) = &value {
            self.long_read += long.len();
        }
        let (Seek::After(key) | Seek::Before(key)) = self.cursor.position() else {
            unreachable!("the cursor stands at an entry")
        };
        let within = match self.direction {
            Direction::Forward => self.range.to.as_ref().is_none_or(|to| key < &to[..]),
            Direction::Backward => key >= &self.range.from[..],
        };
        Ok(within.then_some((Cow::Borrowed(key), value)))
    }

    /// Fills `ahead` with the tree's next entry; false if it has none left in the range.
    fn peek_tree(&mut self, pages: Pages<'_>) -> Step<bool> {
        if self.ahead.is_none() {
            self.ahead =
                self.next_in_tree(pages)?.map(|(key, value)| (Key::from_slice(&key), value.into_owned()));
        }
        Ok(self.ahead.is_some())
    }

    /// Takes a key and what lies before it out of the range.
    fn pass(&mut self, key: Key) {
        match self.direction {
            Direction::Forward => {
                self.range.from = key;
                self.range.from.push(0);
            }
            Direction::Backward => self.range.to = Some(key),
        }
    }
}

#[inline]
fn step<'p, P: storage::ReadPages>(
    cursor: &mut Cursor,
    pages: &'p P,
    direction: Direction,
) -> Result<Option<btree::Value<'p>>, storage::PageFault> {
    let entry = match direction {
        Direction::Forward => cursor.next(pages)?,
        Direction::Backward => cursor.prev(pages)?,
    };
    Ok(entry.map(|entry| entry.value))
}
