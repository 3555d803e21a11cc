//! The bytes of a redo record: what one commit did, in terms of trees and keys.
//!
//! | part | bytes |
//! | --- | --- |
//! | version | 1 |
//! | changes | tag 1, tree (4), count (4), then for each: key length (2; the top bit marks a deletion), value length (4; not for deletions), key, value |
//! | build index | tag 2, table (4), index (4), tree (4) |
//! | cluster | tag 3, table (4), from tree (4), tree (4) |
//! | drop tree | tag 4, tree (4) |
//!
//! Numbers are little-endian. Values are absolute, and the parts are applied in order. A build stands for all entries of a
//! tree, which follow from its table's rows at that point of the record; so filling an index logs a few bytes.

use std::cmp::Ordering;

use base::{CommitNo, Oid, TreeId};
use storage::redo::RecordBatch;

use crate::catalog::{Malformed, RecordChange};
use crate::overlay::Change;
use crate::txn::Build;

pub(crate) const VERSION: u8 = 1;
const CHANGES: u8 = 1;
const BUILD_INDEX: u8 = 2;
const CLUSTER: u8 = 3;
const DROP_TREE: u8 = 4;
const DELETED: u16 = 0x8000;

const _: () = assert!(base::limits::KEY_LEN_MAX < DELETED as usize);

/// Appends parts to a record.
pub(crate) struct RecordWriter<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> RecordWriter<'b> {
    /// Starts a record in `out`, which it clears.
    pub(crate) fn new(out: &'b mut Vec<u8>) -> RecordWriter<'b> {
        RecordWriter::part(out, true)
    }

    /// Goes on with a record of which only this part is in `out`, which it clears.
    pub(crate) fn part(out: &'b mut Vec<u8>, is_first: bool) -> RecordWriter<'b> {
        out.clear();
        if is_first {
            out.push(VERSION);
        }
        RecordWriter { out }
    }

    pub(crate) fn changes<'c>(
        &mut self,
        tree: TreeId,
        changes: impl ExactSizeIterator<Item = (&'c [u8], &'c Change)>,
    ) {
        self.begin_changes(tree, changes.len());
        for (key, change) in changes {
            match change {
                Change::Put(value) => self.change(key, Some(&value[..])),
                Change::Delete => self.change(key, None),
            }
        }
    }

    /// As [`RecordWriter::changes`], of records of the catalog.
    pub(crate) fn records(&mut self, tree: TreeId, records: &[RecordChange]) {
        self.begin_changes(tree, records.len());
        for (key, value) in records {
            self.change(&key.to_bytes(), value.as_deref());
        }
    }

    fn begin_changes(&mut self, tree: TreeId, count: usize) {
        let count = u32::try_from(count).expect("a transaction's changes fit memory");
        self.out.push(CHANGES);
        self.out.extend_from_slice(&tree.0.to_le_bytes());
        self.out.extend_from_slice(&count.to_le_bytes());
    }

    #[inline]
    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        let key_len = u16::try_from(key.len()).expect("a key is at most 1600 bytes");
        let Some(value) = value else {
            self.out.extend_from_slice(&(key_len | DELETED).to_le_bytes());
            self.out.extend_from_slice(key);
            return;
        };
        self.out.extend_from_slice(&key_len.to_le_bytes());
        let len = u32::try_from(value.len()).expect("a row is at most 256 MiB");
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(value);
    }

    pub(crate) fn build(&mut self, build: &Build) {
        let (tag, a, b, c) = match *build {
            Build::Index { table, index, tree } => (BUILD_INDEX, table.0, index.0, tree.0),
            Build::Cluster { table, from, tree } => (CLUSTER, table.0, from.0, tree.0),
        };
        self.out.push(tag);
        [a, b, c].iter().for_each(|n| self.out.extend_from_slice(&n.to_le_bytes()));
    }

    pub(crate) fn drop_tree(&mut self, tree: TreeId) {
        self.out.push(DROP_TREE);
        self.out.extend_from_slice(&tree.0.to_le_bytes());
    }
}

/// What comes next in a batch of records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Change(TreeId, ChangeAt),
    Build(Build),
    DropTree(TreeId),
    /// The record of that commit is over.
    End(CommitNo),
}

/// Bytes of a key that are at hand in a [`ChangeAt`].
const HEAD_LEN: usize = 16;

/// Where in a batch a change is, and as much of its key as most comparisons need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChangeAt {
    /// The key's first bytes as numbers that compare like them, padded with zeros.
    head: [u64; 2],
    /// Where its lengths begin.
    at: u32,
    key_len: u16,
    deletes: bool,
}

impl ChangeAt {
    #[inline]
    fn new(at: usize, key: &[u8], deletes: bool) -> ChangeAt {
        let mut head = [0; HEAD_LEN];
        let len = key.len().min(HEAD_LEN);
        head[..len].copy_from_slice(&key[..len]);
        let half = |i: usize| u64::from_be_bytes(head[i..i + 8].try_into().expect("eight bytes"));
        ChangeAt {
            head: [half(0), half(8)],
            at: u32::try_from(at).expect("a batch is below 4 GiB"),
            key_len: key.len() as u16,
            deletes,
        }
    }

    fn key<'b>(&self, batch: &'b [u8]) -> &'b [u8] {
        let start = self.at as usize + if self.deletes { 2 } else { 6 };
        &batch[start..start + usize::from(self.key_len)]
    }

    /// The key, and its new value or none to delete it.
    #[inline]
    pub(crate) fn of<'b>(&self, batch: &'b [u8]) -> (&'b [u8], Option<&'b [u8]>) {
        let key = self.key(batch);
        if self.deletes {
            return (key, None);
        }
        let at = self.at as usize;
        let len = u32::from_le_bytes(batch[at + 2..at + 6].try_into().expect("taken at this length"));
        let start = at + 6 + key.len();
        (key, Some(&batch[start..start + len as usize]))
    }

    #[inline]
    fn order_of_key(&self, other: &ChangeAt, batch: &[u8]) -> Ordering {
        self.head.cmp(&other.head).then_with(|| {
            if usize::from(self.key_len.min(other.key_len)) <= HEAD_LEN {
                // With equal heads the shorter key is a beginning of the longer one, but for zeros.
                return self.key_len.cmp(&other.key_len);
            }
            self.key(batch)[HEAD_LEN..].cmp(&other.key(batch)[HEAD_LEN..])
        })
    }

    /// The order of keys, and of the log for changes of one key.
    #[inline]
    pub(crate) fn order(&self, other: &ChangeAt, batch: &[u8]) -> Ordering {
        self.order_of_key(other, batch).then(self.at.cmp(&other.at))
    }

    #[inline]
    pub(crate) fn is_of_key(&self, other: &ChangeAt, batch: &[u8]) -> bool {
        self.order_of_key(other, batch).is_eq()
    }
}

/// Reads records that lie one behind the other in a [`RecordBatch`], whose last one may go on in the next batch.
#[derive(Default)]
pub(crate) struct RecordReader {
    pos: usize,
    /// Records of the batch that are over.
    ended: usize,
    /// Within a record; its version was read.
    begun: bool,
    /// The tree whose changes are being read, and how many are left.
    changes: Option<(TreeId, u32)>,
}

impl RecordReader {
    /// What comes next; `None` if the rest of the batch is not a whole item.
    #[inline]
    pub(crate) fn next(&mut self, batch: &RecordBatch) -> Result<Option<Item>, Malformed> {
        loop {
            let end = batch.ends().get(self.ended);
            let limit = end.map_or(batch.bytes().len(), |(_, end)| *end);
            let mut input = &batch.bytes()[self.pos..limit];
            let item = match (self.changes, end) {
                (Some((tree, left)), _) if left > 0 => change(&mut input, self.pos).map(|change| {
                    self.changes = Some((tree, left - 1));
                    Some(Item::Change(tree, change))
                }),
                (_, Some((commit, end))) if self.begun && self.pos == *end => {
                    (self.begun, self.changes) = (false, None);
                    self.ended += 1;
                    Some(Some(Item::End(*commit)))
                }
                _ => self.part(&mut input)?,
            };
            match item {
                Some(item) => {
                    self.pos = limit - input.len();
                    if item.is_some() {
                        return Ok(item);
                    }
                }
                None if end.is_some() => return Err(Malformed("redo record ends early")),
                None => return Ok(None),
            }
        }
    }

    /// The beginning of a record or of a part: `None` if it is not whole, `Some(None)` if it is no item by itself.
    fn part(&mut self, input: &mut &[u8]) -> Result<Option<Option<Item>>, Malformed> {
        let Some(first) = bytes(input, 1) else { return Ok(None) };
        if !self.begun {
            if first[0] != VERSION {
                return Err(Malformed("redo record was written by a newer version"));
            }
            self.begun = true;
            return Ok(Some(None));
        }
        Ok(match first[0] {
            CHANGES => numbers(input).map(|[tree, count]| {
                self.changes = Some((TreeId(tree), count));
                None
            }),
            BUILD_INDEX => numbers(input).map(|[table, index, tree]| {
                let (table, index) = (Oid(table), Oid(index));
                Some(Item::Build(Build::Index { table, index, tree: TreeId(tree) }))
            }),
            CLUSTER => numbers(input).map(|[table, from, tree]| {
                let (from, tree) = (TreeId(from), TreeId(tree));
                Some(Item::Build(Build::Cluster { table: Oid(table), from, tree }))
            }),
            DROP_TREE => numbers(input).map(|[tree]| Some(Item::DropTree(TreeId(tree)))),
            _ => return Err(Malformed("unknown part of a redo record")),
        })
    }

    /// Whether no record has begun and not ended.
    pub(crate) fn is_between_records(&self) -> bool {
        !self.begun
    }

    /// Takes out of the batch what was read; how many bytes.
    pub(crate) fn consume(&mut self, batch: &mut RecordBatch) -> usize {
        let read = self.begin_next();
        batch.consume(read);
        read
    }

    /// Moves out of the batch into `next`, an empty one, what was not read; how many bytes were.
    pub(crate) fn pass_on(&mut self, batch: &mut RecordBatch, next: &mut RecordBatch) -> usize {
        let read = self.begin_next();
        batch.split_off(read, next);
        read
    }

    fn begin_next(&mut self) -> usize {
        self.ended = 0;
        std::mem::take(&mut self.pos)
    }
}

/// The change that begins `input`, which lies at `at` of its batch; `None` if it is not whole.
#[inline]
fn change(input: &mut &[u8], at: usize) -> Option<ChangeAt> {
    let len = u16::from_le_bytes(bytes(input, 2)?.try_into().expect("taken at this length"));
    let deletes = len & DELETED != 0;
    let value_len = if deletes { 0 } else { number(input)? as usize };
    let key = bytes(input, usize::from(len & !DELETED))?;
    bytes(input, value_len)?;
    Some(ChangeAt::new(at, key, deletes))
}

#[inline]
fn bytes<'r>(input: &mut &'r [u8], n: usize) -> Option<&'r [u8]> {
    let (head, rest) = input.split_at_checked(n)?;
    *input = rest;
    Some(head)
}

fn numbers<const N: usize>(input: &mut &[u8]) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    for n in &mut numbers {
        *n = number(input)?;
    }
    Some(numbers)
}

#[inline]
fn number(input: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes(input, 4)?.try_into().expect("taken at this length")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Vec<u8> {
        let mut record = Vec::new();
        let mut writer = RecordWriter::new(&mut record);
        let put = Change::Put(b"value".to_vec().into());
        let changes = [(&b"a"[..], &put), (&b"bc"[..], &Change::Delete)];
        writer.changes(TreeId(20), changes.into_iter());
        writer.changes(TreeId(22), std::iter::empty());
        writer.build(&Build::Index { table: Oid(1), index: Oid(2), tree: TreeId(21) });
        writer.drop_tree(TreeId(19));
        record
    }

    /// Everything that can be read of the batch, as text.
    fn read(reader: &mut RecordReader, batch: &mut RecordBatch) -> Result<Vec<String>, Malformed> {
        let mut items = Vec::new();
        while let Some(item) = reader.next(batch)? {
            items.push(match item {
                Item::Change(tree, change) => format!("{tree:?} {:?}", change.of(batch.bytes())),
                item => format!("{item:?}"),
            });
        }
        reader.consume(batch);
        Ok(items)
    }

    #[test]
    fn records_are_read_back_as_written_wherever_they_are_cut() {
        let record = record();
        let mut batch = RecordBatch::default();
        batch.push(CommitNo(7), &record, true);
        batch.push(CommitNo(8), &record, true);
        let whole = read(&mut RecordReader::default(), &mut batch).unwrap();
        assert_eq!(whole.len(), 10);
        assert_eq!(
            whole[..2],
            [r"TreeId(20) ([97], Some([118, 97, 108, 117, 101]))", r"TreeId(20) ([98, 99], None)"]
        );
        assert_eq!(whole[4], format!("{:?}", Item::End(CommitNo(7))));
        for cut in 0..record.len() {
            let (mut batch, mut reader) = (RecordBatch::default(), RecordReader::default());
            batch.push(CommitNo(7), &record[..cut], false);
            let mut items = read(&mut reader, &mut batch).unwrap();
            batch.push(CommitNo(7), &record[cut..], true);
            batch.push(CommitNo(8), &record, true);
            items.extend(read(&mut reader, &mut batch).unwrap());
            assert!(
                items == whole && reader.is_between_records() && batch.bytes().is_empty(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_record_that_ends_early_is_never_read_past_its_end() {
        let record = record();
        for cut in 0..record.len() {
            let mut batch = RecordBatch::default();
            batch.push(CommitNo(7), &record[..cut], true);
            batch.push(CommitNo(8), &record, true);
            match read(&mut RecordReader::default(), &mut batch) {
                Err(_) => {}
                Ok(items) => assert!(items.len() < 10, "cut at {cut}"),
            }
        }
    }

    #[test]
    fn changes_are_ordered_as_their_keys_and_then_as_in_the_log() {
        let long = |last: u8| [&[9; 20][..], &[last]].concat();
        let keys: Vec<Vec<u8>> = vec![
            long(2),
            vec![],
            vec![0],
            vec![0, 0],
            vec![9; 16],
            long(1),
            vec![9; 17],
            vec![9; 8],
            vec![0],
            long(2),
            vec![255],
        ];
        let mut record = Vec::new();
        let put = Change::Put(Box::default());
        RecordWriter::new(&mut record).changes(TreeId(1), keys.iter().map(|key| (&key[..], &put)));
        let mut batch = RecordBatch::default();
        batch.push(CommitNo(1), &record, true);
        let (mut reader, mut found) = (RecordReader::default(), Vec::new());
        while let Some(item) = reader.next(&batch).unwrap() {
            if let Item::Change(_, change) = item {
                found.push(change);
            }
        }
        let by_log = found.clone();
        found.sort_unstable_by(|a, b| a.order(b, batch.bytes()));
        let mut expected: Vec<usize> = (0..keys.len()).collect();
        expected.sort_by_key(|i| (&keys[*i], *i));
        let order: Vec<usize> =
            found.iter().map(|change| by_log.iter().position(|other| other == change).unwrap()).collect();
        assert_eq!(order, expected);
        assert!(found[2].is_of_key(&found[3], batch.bytes()) || found[1].is_of_key(&found[2], batch.bytes()));
    }
}
