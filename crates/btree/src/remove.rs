//! Removing entries and merging nodes that have become small.

use storage::{PageFault, WritePages};

use crate::TreeRoot;

/// Removes `key` and its value; says whether it was there. `Err` changed nothing.
pub fn remove<P: WritePages>(pages: &mut P, root: TreeRoot, key: &[u8]) -> Result<bool, PageFault> {
    let _ = (pages, root, key);
    unimplemented!()
}
