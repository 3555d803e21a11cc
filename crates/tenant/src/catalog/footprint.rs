//! What definitions take in memory, about. All of a database's are there while it is open, in nobody's budget, so that there is a limit to them: of
//! texts of any length ([`TEXTS_LEN_MAX`]), and of all else ([`PARTS_LEN_MAX`]).

use types::{Datum, row_memory};

use super::*;

/// Bytes of the texts of a database's definitions together: queries of views, defaults, conditions, comments, labels of enums.
pub(crate) const TEXTS_LEN_MAX: usize = 64 << 20;

/// Bytes of all other parts of its definitions together, by estimate.
pub(crate) const PARTS_LEN_MAX: usize = if cfg!(test) { 8 << 20 } else { 256 << 20 };

/// What finding an object by its oid and its name takes.
const PLACE_LEN: usize = 128;

impl Catalog {
    /// Whether it has more texts than a database may, and more than `before`.
    pub(crate) fn has_too_many_texts(&self, before: &Catalog) -> bool {
        self.texts_len > TEXTS_LEN_MAX.max(before.texts_len)
    }

    /// Whether its definitions have more in them beside texts than those of a database may, and than `before`.
    pub(crate) fn has_too_many_parts(&self, before: &Catalog) -> bool {
        self.parts_len > PARTS_LEN_MAX.max(before.parts_len)
    }
}

fn len_of<T>(parts: &[T]) -> usize {
    size_of_val(parts)
}

fn acl_len(acl: &Option<Acl>) -> usize {
    acl.as_ref().map_or(0, |acl| len_of(&acl.0))
}

fn value_len(value: &Datum) -> usize {
    row_memory(std::slice::from_ref(value))
}

impl Relation {
    /// Bytes of its texts, other names than its own.
    pub(super) fn texts_len(&self) -> usize {
        match self {
            Relation::Table(table) => {
                let defaults = table.columns.iter().filter_map(|column| column.default.as_deref());
                let checks = table.checks.iter().map(|check| &*check.expression);
                defaults.chain(checks).map(str::len).sum()
            }
            Relation::View(view) => view.sql.len(),
            Relation::Index(..) | Relation::Sequence(_) => 0,
        }
    }

    /// Bytes of all else. An index is its table's.
    pub(super) fn parts_len(&self) -> usize {
        let own = match self {
            Relation::Table(table) => return PLACE_LEN + table.parts_len(),
            Relation::Index(..) => return 0,
            Relation::View(view) => {
                len_of(&view.columns)
                    + len_of(&view.depends_on)
                    + len_of(&view.search_path)
                    + acl_len(&view.acl)
            }
            Relation::Sequence(sequence) => acl_len(&sequence.acl),
        };
        PLACE_LEN + own
    }
}

impl Table {
    fn parts_len(&self) -> usize {
        let missing = self.columns.iter().filter_map(|column| column.missing.as_deref());
        let generated = self.columns.iter().filter_map(|column| column.generated.as_deref());
        let keys = self.foreign_keys.iter();
        let predicate = |index: &Index| index.predicate.as_ref().map_or(0, |predicate| predicate.memory());
        let columns = |index: &Index| len_of(&index.columns) + len_of(&index.included);
        let indexes = self.indexes.iter().map(|index| PLACE_LEN + columns(index) + predicate(index));
        size_of::<Table>()
            + len_of(&self.columns)
            + missing.map(value_len).sum::<usize>()
            + generated.map(len_of).sum::<usize>()
            + len_of(&self.indexes)
            + indexes.sum::<usize>()
            + len_of(&self.checks)
            + self.checks.iter().map(|check| len_of(&check.columns)).sum::<usize>()
            + len_of(&self.foreign_keys)
            + keys.map(|key| len_of(&key.columns) + len_of(&key.referenced_columns)).sum::<usize>()
            + len_of(&self.referenced_by)
            + acl_len(&self.acl)
    }
}

impl Schema {
    pub(super) fn parts_len(&self) -> usize {
        PLACE_LEN + acl_len(&self.acl)
    }
}

impl Role {
    pub(super) fn parts_len(&self) -> usize {
        let settings = self.settings.iter().map(|(_, value)| value.len());
        PLACE_LEN
            + size_of::<Role>()
            + len_of(&self.member_of)
            + len_of(&self.settings)
            + settings.sum::<usize>()
    }
}

impl TableStatistics {
    pub(super) fn parts_len(&self) -> usize {
        let bounds = self.columns.iter().flatten().filter_map(|column| column.bounds.as_deref());
        let bounds = bounds.map(|(low, high)| value_len(low) + value_len(high));
        PLACE_LEN + len_of(&self.columns) + bounds.sum::<usize>()
    }
}
