//! Splitting nodes.
use base::PageNo;
use storage::WritePages;

use crate::edit::Payload;
use crate::path::Path;

pub(crate) fn insert<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    path: Path,
    slot: usize,
    key: &[u8],
    payload: Payload<'_>,
) {
    let _ = (pages, tree, path, slot, key, payload);
    unimplemented!()
}
