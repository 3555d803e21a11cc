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

use base::{Oid, TreeId};

use crate::catalog::Malformed;
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
        out.clear();
        out.push(VERSION);
        RecordWriter { out }
    }

    pub(crate) fn changes<'c>(
        &mut self,
        tree: TreeId,
        changes: impl ExactSizeIterator<Item = (&'c [u8], &'c Change)>,
    ) {
        let count = u32::try_from(changes.len()).expect("a transaction's changes fit memory");
        self.out.push(CHANGES);
        self.out.extend_from_slice(&tree.0.to_le_bytes());
        self.out.extend_from_slice(&count.to_le_bytes());
        for (key, change) in changes {
            let key_len = u16::try_from(key.len()).expect("a key is at most 1600 bytes");
            match change {
                Change::Put(value) => {
                    self.out.extend_from_slice(&key_len.to_le_bytes());
                    let len = u32::try_from(value.len()).expect("a row is at most 256 MiB");
                    self.out.extend_from_slice(&len.to_le_bytes());
                    self.out.extend_from_slice(key);
                    self.out.extend_from_slice(value);
                }
                Change::Delete => {
                    self.out.extend_from_slice(&(key_len | DELETED).to_le_bytes());
                    self.out.extend_from_slice(key);
                }
            }
        }
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

/// A part of a record being read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part<'r> {
    Changes { tree: TreeId, changes: Vec<(&'r [u8], Option<&'r [u8]>)> },
    Build(Build),
    DropTree(TreeId),
}

/// The parts of a record, in order.
pub(crate) fn parts(mut record: &[u8]) -> Result<Vec<Part<'_>>, Malformed> {
    let input = &mut record;
    if bytes(input, 1)?[0] != VERSION {
        return Err(Malformed("redo record was written by a newer version"));
    }
    let mut parts = Vec::new();
    while !input.is_empty() {
        parts.push(match bytes(input, 1)?[0] {
            CHANGES => {
                let (tree, count) = (TreeId(number(input)?), number(input)?);
                let changes = (0..count).map(|_| change(input)).collect::<Result<_, _>>()?;
                Part::Changes { tree, changes }
            }
            BUILD_INDEX => Part::Build(Build::Index {
                table: Oid(number(input)?),
                index: Oid(number(input)?),
                tree: TreeId(number(input)?),
            }),
            CLUSTER => Part::Build(Build::Cluster {
                table: Oid(number(input)?),
                from: TreeId(number(input)?),
                tree: TreeId(number(input)?),
            }),
            DROP_TREE => Part::DropTree(TreeId(number(input)?)),
            _ => return Err(Malformed("unknown part of a redo record")),
        });
    }
    Ok(parts)
}

fn change<'r>(input: &mut &'r [u8]) -> Result<(&'r [u8], Option<&'r [u8]>), Malformed> {
    let len = u16::from_le_bytes(bytes(input, 2)?.try_into().expect("taken at this length"));
    if len & DELETED != 0 {
        return Ok((bytes(input, usize::from(len & !DELETED))?, None));
    }
    let value_len = number(input)? as usize;
    let key = bytes(input, usize::from(len))?;
    Ok((key, Some(bytes(input, value_len)?)))
}

fn bytes<'r>(input: &mut &'r [u8], n: usize) -> Result<&'r [u8], Malformed> {
    let (head, rest) = input.split_at_checked(n).ok_or(Malformed("redo record ends early"))?;
    *input = rest;
    Ok(head)
}

fn number(input: &mut &[u8]) -> Result<u32, Malformed> {
    Ok(u32::from_le_bytes(bytes(input, 4)?.try_into().expect("taken at this length")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_written_and_never_past_its_end() {
        let mut record = Vec::new();
        let mut writer = RecordWriter::new(&mut record);
        let put = Change::Put(b"value".to_vec().into());
        let changes = [(&b"a"[..], &put), (&b"bc"[..], &Change::Delete)];
        writer.changes(TreeId(20), changes.into_iter());
        let build = Build::Index { table: Oid(1), index: Oid(2), tree: TreeId(21) };
        writer.build(&build);
        writer.drop_tree(TreeId(19));
        let expected = vec![
            Part::Changes { tree: TreeId(20), changes: vec![(b"a", Some(b"value")), (b"bc", None)] },
            Part::Build(build),
            Part::DropTree(TreeId(19)),
        ];
        assert_eq!(parts(&record).unwrap(), expected);
        for len in 0..record.len() {
            if let Ok(parts) = parts(&record[..len]) {
                assert!(parts.len() < expected.len());
            }
        }
    }
}
