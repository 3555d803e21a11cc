//! Results that a session keeps and gives out part by part: of cursors and row-limited portals.

use std::sync::Arc;

use base::Lsn;
use types::FormatContext;

use super::reply::{Field, Formats};
use super::row_store::{LoadedRows, RowStore};
use super::run::write_row;
use super::{Pause, Reply};

/// Output that may wait to be sent before more rows are added, bytes.
pub(super) const BUFFERED_MAX: usize = 64 << 10;

/// A result and how far it was given out.
#[derive(Debug, Default)]
pub(super) struct KeptRows {
    pub(super) fields: Arc<[Field]>,
    pub(super) rows: RowStore,
    /// 0: before the first; `rows.len() + 1`: behind the last; else the current row, counted from 1.
    pub(super) position: usize,
    pub(super) tag_word: &'static str,
}

/// Rows that one FETCH or Execute gives out, in as many turns as it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Giving {
    /// The next one, counted from 0.
    next: usize,
    left: usize,
    backward: bool,
    /// How many there are in all.
    pub(super) count: usize,
}

impl Giving {
    /// So many rows from number `first` on, or from there back to the beginning.
    pub(super) fn new(first: usize, count: usize, backward: bool) -> Giving {
        Giving { next: first, left: count, backward, count }
    }
}

impl KeptRows {
    /// Gives out what is left of `giving`.
    ///
    /// # Errors
    /// A pause to read rows that were put aside, or to have sent what waits to be. What was given out stays given: call again.
    pub(super) fn give(
        &mut self,
        giving: &mut Giving,
        loaded: &mut Option<LoadedRows>,
        formats: &Formats,
        context: &FormatContext,
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        if let Some(loaded) = loaded.take() {
            self.rows.load(loaded);
        }
        while giving.left > 0 {
            let rows = self.rows.rows_from(giving.next).map_err(Pause::StoredRows)?;
            assert!(!rows.is_empty(), "only rows that there are can be given out");
            let rows = &rows[..if giving.backward { 1 } else { rows.len().min(giving.left) }];
            let mut given = 0;
            for row in rows {
                write_row(row, &self.fields, formats, context, out);
                given += 1;
                if out.buffered() > BUFFERED_MAX {
                    break;
                }
            }
            giving.left -= given;
            giving.next = if giving.backward { giving.next.saturating_sub(1) } else { giving.next + given };
            if giving.left > 0 && out.buffered() > BUFFERED_MAX {
                // Nothing is to become durable first: it only has to be sent.
                return Err(Pause::Slice(Lsn(0)));
            }
        }
        Ok(())
    }
}
