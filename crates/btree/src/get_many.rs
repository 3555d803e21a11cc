//! Looking up many keys at once: their ways down the tree are taken side by side, level by level, so that the processor waits
//! for the memory of all of them together and not of one after the other (group prefetching: Chen, Ailamaki, Gibbons, Mowry,
//! ICDE 2004, section 4).

use base::{PageNo, prefetch};
use smallvec::SmallVec;
use storage::{PageBytes, PageFault, ReadPages};

use crate::path;
use crate::value::Value;
use crate::{TreeRoot, VALUE_PREFETCH_MAX};

/// Keys on their way together: enough to fill the time a line takes from memory, few enough that the first ones' lines are
/// still in the innermost cache when the last ones have been asked for.
const GROUP_LEN: usize = 16;

/// As [`crate::get`] for each of `keys`, appended to `values` in their order. On `Err` nothing was appended.
///
/// Panics if a key is longer than [`base::limits::KEY_LEN_MAX`].
pub fn get_many<'p, P: ReadPages, K: AsRef<[u8]>>(
    pages: &'p P,
    root: TreeRoot,
    keys: &[K],
    values: &mut Vec<Option<Value<'p>>>,
) -> Result<(), PageFault> {
    let Some(root) = root.0 else {
        values.extend(keys.iter().map(|_| None));
        return Ok(());
    };
    let begun = values.len();
    for group in keys.chunks(GROUP_LEN) {
        if let Err(fault) = get_group(pages, root, group, values) {
            values.truncate(begun);
            return Err(fault);
        }
    }
    Ok(())
}

fn get_group<'p, P: ReadPages, K: AsRef<[u8]>>(
    pages: &'p P,
    root: PageNo,
    keys: &[K],
    values: &mut Vec<Option<Value<'p>>>,
) -> Result<(), PageFault> {
    let top = path::open_page(path::ask(pages, root)?, root, root, None)?;
    let mut places: SmallVec<[(PageNo, &'p PageBytes); GROUP_LEN]> =
        SmallVec::from_elem((root, top.0), keys.len());
    // All leaves are on one level. A page is only asked for in one round and read in the next.
    let mut parent = None;
    for level in (1..=top.level()).rev() {
        for ((no, page), key) in places.iter_mut().zip(keys) {
            let node = path::open_page(page, *no, root, parent)?;
            *no = node.child(node.child_index(key.as_ref()));
            *page = path::ask(pages, *no)?;
        }
        parent = Some(level);
    }
    for ((no, page), key) in places.iter().zip(keys) {
        let leaf = path::open_page(page, *no, root, parent)?;
        let value = leaf.search(key.as_ref()).ok().map(|slot| leaf.value(slot));
        if let Some(Value::Inline(bytes)) = value {
            prefetch(&bytes[..bytes.len().min(VALUE_PREFETCH_MAX)]);
        }
        values.push(value);
    }
    Ok(())
}
