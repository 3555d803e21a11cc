//! The record of a large transaction, sent to the log part by part before its commit.
//!
//! What a transaction has changed and not poured into a branch becomes one record, or the rest of one. Made at its commit a large one would be in memory twice more, once as a record and once
//! in the log, and all that others append would wait until it is written. So its changes are logged before, each part when the one before is durable,
//! and the commit adds the little that is left. Parts of a transaction that does not commit after all are no record.

use std::fmt;
use std::ops::Bound;

use base::{CommitNo, Lsn, SqlResult, TreeId};

use crate::overlay::Change;
use crate::redo_record::RecordWriter;
use crate::redo_sink::{RedoSet, RedoSink};
use crate::row::keys::Key;
use crate::space::Demand;
use crate::tenant::Tenant;
use crate::txn::Txn;

/// Bytes of changes from which they are logged ahead.
const AHEAD_MIN: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };

/// Bytes of a part, but for its last change, and of a piece of one that is longer, but for its last: what the log writes without being late for others, and
/// less than others' commits wait for.
const PART_LEN: usize = if cfg!(test) { 64 << 10 } else { 512 << 10 };

/// What is in the log of a transaction that has not committed.
pub(crate) struct Ahead {
    /// `None` where it goes on with the record of the transaction's branch.
    set: Option<RedoSet>,
    /// Bytes of it.
    len: u64,
    /// The last change that is there.
    last: (TreeId, Key),
    /// All of them are.
    is_whole: bool,
    demand: Demand,
    /// The part that these changes end, of which what comes from `at` on is yet to be logged. Empty once all of it is.
    part: Vec<u8>,
    at: usize,
}

impl Ahead {
    fn is_between_parts(&self) -> bool {
        self.part.is_empty()
    }

    fn is_to_go_on(&self) -> bool {
        !self.is_whole || !self.is_between_parts()
    }

    /// What is logged of the part at a time.
    fn next_piece_len(&self) -> usize {
        let left = self.part.len() - self.at;
        if left < 2 * PART_LEN { left } else { PART_LEN }
    }
}

/// Changes that are logged together, by tree.
struct Part<'t> {
    changes: Vec<(TreeId, Vec<(&'t Key, &'t Change)>)>,
    /// There are none behind it.
    is_last: bool,
}

impl Part<'_> {
    fn record(&self, is_first: bool) -> Vec<u8> {
        let mut record = Vec::new();
        let mut writer = RecordWriter::part(&mut record, is_first);
        for (tree, changes) in self.changes.iter().filter(|(_, changes)| !changes.is_empty()) {
            writer.changes(*tree, changes.iter().map(|(key, change)| (&key[..], *change)));
        }
        record
    }

    /// Its last change, and whether that is the last of all.
    fn next(&self) -> ((TreeId, Key), bool) {
        let mut last = self.changes.iter().rev().filter_map(|(tree, of_tree)| Some((*tree, of_tree.last()?)));
        let (tree, (key, _)) = last.next().expect("a part has changes");
        ((tree, Key::clone(key)), self.is_last)
    }
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("is_whole", &self.is_whole).finish_non_exhaustive()
    }
}

impl Tenant {
    /// Logs some of what `txn` has changed, if that is much, and says which position is to be durable before the call is made again. `None` if there is
    /// nothing to be logged ahead, or no more. Once something is, the transaction changes nothing before it is committed, aborted, or poured into its branch.
    ///
    /// # Errors
    /// 53100 and 58030 when the log takes no more.
    pub fn log_ahead(&mut self, txn: &mut Txn, redo: &mut dyn RedoSink) -> SqlResult<Option<Lsn>> {
        let is_to_go_on = match &txn.ahead {
            Some(ahead) => ahead.is_to_go_on(),
            None => txn.overlay.bytes() >= AHEAD_MIN,
        };
        if !is_to_go_on {
            return Ok(None);
        }
        if txn.ahead.as_ref().is_none_or(Ahead::is_between_parts) {
            let Some(part) = self.next_part(txn) else { return Ok(None) };
            let is_all = txn.ahead.is_none() && part.is_last;
            let is_first = txn.ahead.is_none() && !self.has_poured(txn);
            let (record, next) = (part.record(is_first), part.next());
            // What is one piece would be no less by itself.
            if is_all && record.len() < 2 * PART_LEN {
                return Ok(None);
            }
            self.keep_locks(txn);
            self.begin_part_ahead(txn, record, next, redo)?;
        }
        self.log_piece_ahead(txn, redo).map(Some)
    }

    /// Whether some of what `txn` logs is in the log, which keeps all that comes behind that until the transaction ends.
    pub fn has_logged(&self, txn: &Txn) -> bool {
        txn.ahead.is_some() || self.has_poured(txn)
    }

    /// Logs what is left where some of it is there, and says up to where; `Lsn(0)` where nothing is left.
    pub(crate) fn log_rest_ahead(&mut self, txn: &mut Txn, redo: &mut dyn RedoSink) -> SqlResult<Lsn> {
        let mut end = Lsn(0);
        while let Some(ahead) = txn.ahead.as_ref().filter(|ahead| ahead.is_to_go_on()) {
            if ahead.is_between_parts() {
                let part = self.next_part(txn).expect("there are more changes");
                let (record, next) = (part.record(false), part.next());
                self.begin_part_ahead(txn, record, next, redo)?;
            }
            end = self.log_piece_ahead(txn, redo)?;
        }
        Ok(end)
    }

    /// What is to be logged next.
    fn next_part<'t>(&self, txn: &'t Txn) -> Option<Part<'t>> {
        let last = txn.ahead.as_ref().map(|ahead| &ahead.last);
        let (mut changes, mut left) = (Vec::new(), PART_LEN);
        for tree in self.trees_before_builds(txn) {
            let behind = match last {
                Some((there, _)) if tree < *there => continue,
                Some((there, key)) if tree == *there => Bound::Excluded(key),
                _ => Bound::Unbounded,
            };
            let of_tree = txn.overlay.changes().of(tree).expect("a changed tree has changes");
            let mut some = Vec::new();
            for (key, change) in of_tree.range::<Key, _>((behind, Bound::Unbounded)) {
                if left == 0 {
                    changes.push((tree, some));
                    return Some(Part { changes, is_last: false });
                }
                left = left.saturating_sub(key.len() + change.len());
                some.push((key, change));
            }
            changes.push((tree, some));
        }
        changes.retain(|(_, some)| !some.is_empty());
        (!changes.is_empty()).then_some(Part { changes, is_last: true })
    }

    /// Makes `part` the one that is logged next, up to this last change.
    fn begin_part_ahead(
        &mut self,
        txn: &mut Txn,
        part: Vec<u8>,
        (last, is_whole): ((TreeId, Key), bool),
        redo: &mut dyn RedoSink,
    ) -> SqlResult<()> {
        if let Some(ahead) = &mut txn.ahead {
            (ahead.part, ahead.last, ahead.is_whole) = (part, last, is_whole);
            return Ok(());
        }
        // The first is asked for all: what does not fit should not take room first.
        let (demand, wanted) = (self.demand_of(txn), part.len().max(txn.overlay.bytes()));
        self.require_space(wanted, demand)?;
        redo.admit(wanted, demand)?;
        let set = (!txn.branched).then(|| redo.begin_set(self.id));
        self.ahead += usize::from(set.is_some());
        txn.ahead = Some(Ahead { set, len: 0, last, is_whole, demand, part, at: 0 });
        Ok(())
    }

    /// Logs the next piece of the part under way.
    fn log_piece_ahead(&mut self, txn: &mut Txn, redo: &mut dyn RedoSink) -> SqlResult<Lsn> {
        let ahead = txn.ahead.as_ref().expect("a part was begun");
        let (len, demand) = (ahead.next_piece_len(), ahead.demand);
        self.require_space(len, demand)?;
        redo.admit(len, demand)?;
        let ahead = txn.ahead.as_mut().expect("as above");
        let piece = &ahead.part[ahead.at..ahead.at + len];
        let end = match &mut ahead.set {
            Some(set) => {
                self.space.note_part(len);
                ahead.len += len as u64;
                redo.append_to_set(set, piece)
            }
            None => self.append_to_branch(piece, redo),
        };
        ahead.at += len;
        if ahead.at == ahead.part.len() {
            (ahead.part, ahead.at) = (Vec::new(), 0);
        }
        Ok(end)
    }

    /// Appends the end of the record of a transaction without a branch, and the commit.
    pub(crate) fn log_end(
        &mut self,
        txn: &mut Txn,
        commit: CommitNo,
        record: &[u8],
        redo: &mut dyn RedoSink,
    ) -> SqlResult<Lsn> {
        let demand = self.demand_of(txn);
        self.require_space(record.len(), demand)?;
        redo.admit(record.len(), demand)?;
        self.space.note_logged(record.len());
        let Some(Ahead { set: Some(mut set), len, .. }) = txn.ahead.take() else {
            panic!("some of it is in the log, in a record of its own")
        };
        self.ahead -= 1;
        self.space.end_parts(len);
        redo.append_to_set(&mut set, record);
        Ok(redo.commit_set(set, commit))
    }

    /// The branch of a transaction that goes on was given up, and its record with it.
    pub(crate) fn give_up_ahead_in_branch(txn: &mut Txn) {
        if txn.ahead.as_ref().is_some_and(|ahead| ahead.set.is_none()) {
            txn.ahead = None;
        }
    }

    /// Gives up what is in the log of a transaction that does not commit.
    pub(crate) fn give_up_ahead(&mut self, txn: &mut Txn) {
        if let Some(Ahead { set: Some(_), len, .. }) = txn.ahead.take() {
            self.ahead -= 1;
            self.space.end_parts(len);
        }
    }
}
