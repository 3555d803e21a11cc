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
use crate::poured::Poured;
use crate::row::RowRef;
use crate::row::keys::{Key, KeyRange, table_key_of_entry};
use crate::trees::Pages;
use crate::view::{Access, State, View, disagreement, poured_over, source};

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
    /// What was poured, over a snapshot's tree; `None` where nothing was.
    beside: Option<Box<Beside>>,
    started: bool,
    /// Bytes of values in pages of their own that were gathered since the session was last asked because of them.
    long_read: usize,
}

/// How far a walk over a snapshot has come with what its transaction has poured.
#[derive(Clone, Debug)]
struct Beside {
    /// Over the keys that were poured.
    keys: Cursor,
    /// The next of them with its value, unless it was deleted.
    own: Option<(Key, Option<Vec<u8>>)>,
    /// The next entry of the snapshot's tree.
    entry: Option<(Key, Vec<u8>)>,
    /// There are no more of either.
    keys_ended: bool,
    tree_ended: bool,
    /// The key of the entry that was given last.
    passed: Key,
}

impl Beside {
    fn new(keys: Cursor) -> Beside {
        Beside { keys, own: None, entry: None, keys_ended: false, tree_ended: false, passed: Key::new() }
    }

    /// Whether what was poured comes before the next entry of the snapshot, or in its place.
    fn is_own_next(&self, direction: Direction) -> bool {
        match (&self.own, &self.entry) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((own, _)), Some((entry, _))) => match direction {
                Direction::Forward => own <= entry,
                Direction::Backward => own >= entry,
            },
        }
    }

    /// The next one that was poured, in the place of the snapshot's if that is of the same key.
    fn take_own(&mut self) -> Option<(Key, Option<Vec<u8>>)> {
        let own = self.own.take()?;
        if self.entry.as_ref().is_some_and(|(key, _)| *key == own.0) {
            self.entry = None;
        }
        Some(own)
    }
}

/// Bytes of such values after which the session is asked whether the statement is to end: to gather them takes as long as the rows after which it is asked
/// otherwise.
const LONG_UNASKED_MAX: usize = 256 << 10;

impl Scan<'_> {
    pub fn table(&self) -> &Table {
        self.of.table()
    }

    /// The index that is scanned, if it is not the table's own tree.
    pub(crate) fn index(&self) -> Option<&Index> {
        self.of.index()
    }

    /// The key, in the tree that is scanned, of the entry last visited, where the transaction has changed nothing of that tree.
    ///
    /// # Panics
    /// Before the first.
    pub fn passed(&self) -> &[u8] {
        if let Some(beside) = &self.walk.beside {
            return &beside.passed;
        }
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
                beside: None,
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
        if self.txn.branched {
            while pass_deleted(self, &mut scan.walk)? {
                self.step()?;
            }
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

/// Goes past a row that was deleted by what the transaction poured, if that is next; false if it is not. There may be very many of them in a row.
fn pass_deleted(view: &View<'_>, scan: &mut Walk) -> Step<bool> {
    let Some(poured) = poured_over(&view.tenant, view.txn, scan.tree, scan.state) else { return Ok(false) };
    let (pages, root) = source(&view.tenant, view.txn, scan.tree, scan.state)?;
    scan.start(root);
    scan.with_beside(&poured, |scan, beside| scan.pass_deleted(pages, &poured, beside))
}

fn next_entry<'v>(view: &'v View<'_>, scan: &'v mut Walk) -> Step<Option<EntryBytes<'v>>> {
    let (pages, root) = source(&view.tenant, view.txn, scan.tree, scan.state)?;
    let poured = poured_over(&view.tenant, view.txn, scan.tree, scan.state);
    scan.start(root);
    let Some(changes) = view.txn.changes(scan.state).of(scan.tree) else {
        return scan.next_below(pages, poured.as_ref());
    };
    let found = loop {
        let in_tree = scan.peek_tree(pages, poured.as_ref())?;
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
            self.cursor.seek(start_of(&self.range, self.direction));
        }
    }

    /// The next entry of the tree, with what was poured over it and without the changes since.
    #[inline]
    fn next_below<'v>(
        &'v mut self,
        pages: Pages<'v>,
        poured: Option<&Poured<'_>>,
    ) -> Step<Option<EntryBytes<'v>>> {
        if let Some((key, value)) = self.ahead.take() {
            return Ok(Some((Cow::Owned(key.to_vec()), Cow::Owned(value))));
        }
        match poured {
            None => self.next_in_tree(pages),
            Some(poured) => self.next_with_poured(pages, poured),
        }
    }

    #[cold]
    fn next_with_poured(
        &mut self,
        pages: Pages<'_>,
        poured: &Poured<'_>,
    ) -> Step<Option<EntryBytes<'static>>> {
        self.with_beside(poured, |walk, beside| {
            while walk.pass_deleted(pages, poured, beside)? {}
            let next = match beside.is_own_next(walk.direction) {
                true => beside.take_own().and_then(|(key, value)| Some((key, value?))),
                false => beside.entry.take(),
            };
            let Some((key, value)) = next else { return Ok(None) };
            let entry = (Cow::Owned(key.to_vec()), Cow::Owned(value));
            beside.passed = key;
            Ok(Some(entry))
        })
    }

    /// Has `work` go on with what was poured, from the walk's start the first time.
    fn with_beside<T>(
        &mut self,
        poured: &Poured<'_>,
        work: impl FnOnce(&mut Walk, &mut Beside) -> Step<T>,
    ) -> Step<T> {
        let mut beside = match self.beside.take() {
            Some(beside) => beside,
            None => Box::new(Beside::new(poured.cursor(start_of(&self.range, self.direction)))),
        };
        let done = work(self, beside.as_mut());
        self.beside = Some(beside);
        done
    }

    /// Looks for what is next on both sides, and goes past what was poured if that says that a row was deleted; whether it did.
    fn pass_deleted(&mut self, pages: Pages<'_>, poured: &Poured<'_>, beside: &mut Beside) -> Step<bool> {
        if beside.entry.is_none() && !beside.tree_ended {
            let entry = self.next_in_tree(pages)?;
            beside.entry = entry.map(|(key, value)| (Key::from_slice(&key), value.into_owned()));
            beside.tree_ended = beside.entry.is_none();
        }
        if beside.own.is_none() && !beside.keys_ended {
            let key = poured.step(&mut beside.keys, self.direction)?;
            let key = key.filter(|key| is_within(&self.range, self.direction, key));
            beside.keys_ended = key.is_none();
            if let Some(key) = key {
                let value = poured.value(&key)?;
                if let Some(Cow::Owned(long)) = &value {
                    self.long_read += long.len();
                }
                beside.own = Some((key, value.map(Cow::into_owned)));
            }
        }
        let is_deleted = matches!(beside.own, Some((_, None))) && beside.is_own_next(self.direction);
        if is_deleted {
            beside.take_own();
        }
        Ok(is_deleted)
    }

    /// The next entry of the tree alone.
    #[inline]
    fn next_in_tree<'v>(&'v mut self, pages: Pages<'v>) -> Step<Option<EntryBytes<'v>>> {
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
        let within = is_within(&self.range, self.direction, key);
        Ok(within.then_some((Cow::Borrowed(key), value)))
    }

    /// Fills `ahead` with the tree's next entry; false if it has none left in the range.
    fn peek_tree(&mut self, pages: Pages<'_>, poured: Option<&Poured<'_>>) -> Step<bool> {
        if self.ahead.is_none() {
            let next = self.next_below(pages, poured)?;
            self.ahead = next.map(|(key, value)| (Key::from_slice(&key), value.into_owned()));
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

/// Where a walk over a range begins.
fn start_of(range: &KeyRange, direction: Direction) -> Seek<'_> {
    match (direction, &range.to) {
        (Direction::Forward, _) => Seek::Before(&range.from),
        (Direction::Backward, Some(to)) => Seek::Before(to),
        (Direction::Backward, None) => Seek::End,
    }
}

/// Whether a walk over a range that comes by this key is within it still.
#[inline]
fn is_within(range: &KeyRange, direction: Direction, key: &[u8]) -> bool {
    match direction {
        Direction::Forward => range.to.as_ref().is_none_or(|to| key < &to[..]),
        Direction::Backward => key >= &range.from[..],
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
