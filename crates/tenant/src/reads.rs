//! What a SERIALIZABLE transaction has read, to find at its commit who has changed it since. Bounded: past the bounds whole trees count as read, so that
//! more may conflict and nothing less.

use base::TreeId;

use crate::row::keys::{KeyRange, heap_len};

/// Ranges remembered before they become whole trees; about 100 bytes each.
const RANGES_MAX: usize = 1 << 14;
/// The same for the bytes of long keys in them.
const KEYS_LEN_MAX: usize = 1 << 20;

/// Ranges of keys that were read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    ranges: Vec<(TreeId, KeyRange)>,
    /// Bytes that their keys have elsewhere.
    keys_len: usize,
}

impl Reads {
    pub(crate) fn note(&mut self, tree: TreeId, range: KeyRange) {
        if self.ranges.last() == Some(&(tree, range.clone())) {
            return;
        }
        self.keys_len += heap_len(&range.from) + range.to.as_ref().map_or(0, heap_len);
        self.ranges.push((tree, range));
        if self.ranges.len() > RANGES_MAX || self.keys_len > KEYS_LEN_MAX {
            self.widen();
        }
    }

    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> u64 {
        (self.ranges.len() * size_of::<(TreeId, KeyRange)>() + self.keys_len) as u64
    }

    /// Forgets which parts of trees were read, but not which trees; whether it takes less then.
    #[cold]
    pub(crate) fn widen(&mut self) -> bool {
        let before = self.memory();
        let mut trees: Vec<TreeId> = self.ranges.iter().map(|(tree, _)| *tree).collect();
        trees.sort_unstable();
        trees.dedup();
        self.ranges = trees.into_iter().map(|tree| (tree, KeyRange::all())).collect();
        self.keys_len = 0;
        self.memory() < before
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(TreeId, KeyRange)> {
        self.ranges.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::keys::Key;

    #[test]
    fn long_keys_are_remembered_up_to_their_bytes() {
        let mut reads = Reads::default();
        let key = |n: u16| Key::from_vec([&n.to_be_bytes()[..], &[7; 1598]].concat());
        for n in 0..2000 {
            reads.note(TreeId(u32::from(n % 2)), KeyRange { from: key(n), to: Some(key(n + 1)) });
            let len: usize =
                reads.iter().map(|(_, r)| r.from.len() + r.to.as_ref().map_or(0, |to| to.len())).sum();
            assert!(len <= KEYS_LEN_MAX);
        }
        assert_eq!(reads.iter().filter(|(_, range)| *range == KeyRange::all()).count(), 2);
    }
}
