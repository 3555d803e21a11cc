//! The names one level of a query sees: its relations, their slots, and the levels around it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use tenant::catalog::Table;
use types::{PgType, TypeMod};

use super::OutputColumn;
use super::open_level::OpenLevel;
use super::point_plan::{SelectPlan, TableFunction};
use crate::expr::{BoundExpr, ColumnRef, Scope, ambiguous_column, missing_from_entry};

/// A relation of FROM while its level is being bound.
pub(super) struct Relation {
    /// The alias, or the table's name.
    pub(super) name: String,
    /// The schema, if the relation may be called by it (a table without alias).
    pub(super) schema: Option<String>,
    pub(super) columns: Vec<RelationColumn>,
    /// Slot of the first column.
    pub(super) first: usize,
    /// Taken when the relation's node is made.
    pub(super) source: Option<RelationSource>,
    /// Where the key of its current row is to be remembered.
    pub(super) key: Option<usize>,
}

/// A column of a relation. A dropped one has an empty name and keeps its place.
#[derive(Clone, Debug)]
pub(super) struct RelationColumn {
    pub(super) name: String,
    pub(super) ty: PgType,
    pub(super) typmod: TypeMod,
    pub(super) table_oid: Oid,
    pub(super) attnum: i16,
}

impl From<OutputColumn> for RelationColumn {
    fn from(column: OutputColumn) -> RelationColumn {
        let OutputColumn { name, ty, typmod, table_oid, attnum } = column;
        RelationColumn { name, ty, typmod, table_oid, attnum }
    }
}

/// Where a relation's rows come from.
pub(super) enum RelationSource {
    Table(Arc<Table>),
    /// The rows of each in turn.
    Derived(Vec<SelectPlan>),
    /// A view's or subquery's, to be planned with what is asked of its rows.
    Open(Box<OpenLevel>),
    /// One of the statement's parts, by its number; `rows` is an estimate.
    Common {
        part: usize,
        rows: f64,
    },
    Function {
        function: TableFunction,
        ordinality: bool,
        uses: Vec<usize>,
    },
    Values(Vec<Vec<BoundExpr>>),
}

/// A column that may be called without a qualifier.
#[derive(Clone, Debug)]
pub(super) struct VisibleColumn {
    pub(super) name: String,
    pub(super) slot: usize,
    pub(super) ty: PgType,
    pub(super) typmod: TypeMod,
}

/// What may be called by name at one place of FROM; `columns` in the order of `*`.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespace {
    pub(super) relations: Vec<usize>,
    pub(super) columns: Vec<VisibleColumn>,
}

/// One level of a query while it is being bound.
#[derive(Default)]
pub(super) struct Level {
    pub(super) relations: Vec<Relation>,
    pub(super) width: usize,
    /// Slots that some expression of this level, or of one inside, names.
    used: RefCell<Vec<bool>>,
    uses_outer: Cell<bool>,
}

impl Level {
    /// Adds a relation; answers its number.
    pub(super) fn add(
        &mut self,
        name: String,
        schema: Option<String>,
        columns: Vec<RelationColumn>,
        source: RelationSource,
    ) -> usize {
        let first = self.width;
        self.width += columns.len();
        self.used.borrow_mut().resize(self.width, false);
        self.relations.push(Relation { name, schema, columns, first, source: Some(source), key: None });
        self.relations.len() - 1
    }

    /// What one relation alone lets be called.
    pub(super) fn namespace_of(&self, relation: usize) -> Namespace {
        let r = &self.relations[relation];
        let columns = r
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| !column.name.is_empty())
            .map(|(i, column)| VisibleColumn {
                name: column.name.clone(),
                slot: r.first + i,
                ty: column.ty,
                typmod: column.typmod,
            })
            .collect();
        Namespace { relations: vec![relation], columns }
    }

    pub(super) fn mark_used(&self, slot: usize) {
        self.used.borrow_mut()[slot] = true;
    }

    pub(super) fn is_used(&self, slot: usize) -> bool {
        self.used.borrow()[slot]
    }

    /// Columns of a relation that something names, as positions in the relation.
    pub(super) fn used_columns(&self, relation: usize) -> Vec<usize> {
        let r = &self.relations[relation];
        (0..r.columns.len()).filter(|i| self.is_used(r.first + i)).collect()
    }

    /// Something of it names a row of an enclosing query.
    pub(super) fn set_correlated(&self) {
        self.uses_outer.set(true);
    }

    pub(super) fn correlated(&self) -> bool {
        self.uses_outer.get()
    }

    /// The relation and column a slot belongs to.
    pub(super) fn column_of(&self, slot: usize) -> (usize, &RelationColumn) {
        let relation = self
            .relations
            .iter()
            .rposition(|r| r.first <= slot && !r.columns.is_empty())
            .expect("every slot belongs to a relation");
        let r = &self.relations[relation];
        (relation, &r.columns[slot - r.first])
    }

    /// A name for each slot: the column's, qualified where several relations stand side by side.
    pub(super) fn slot_names(&self) -> Arc<[String]> {
        let several = self.relations.len() > 1;
        self.relations
            .iter()
            .flat_map(|r| {
                r.columns.iter().map(move |column| match several {
                    true => format!("{}.{}", r.name, column.name),
                    false => column.name.clone(),
                })
            })
            .collect()
    }
}

/// A place in a level to resolve names at.
pub(super) struct LevelScope<'a> {
    pub(super) level: &'a Level,
    pub(super) namespace: &'a Namespace,
    pub(super) outer: Option<&'a dyn Scope>,
}

impl LevelScope<'_> {
    /// The relation a qualifier names, here and not further out.
    pub(super) fn relation_named(&self, qualifier: &[&str]) -> SqlResult<Option<usize>> {
        let mut found = None;
        for &index in &self.namespace.relations {
            let relation = &self.level.relations[index];
            let matches = match qualifier {
                [name] => relation.name == *name,
                [schema, name] => relation.name == *name && relation.schema.as_deref() == Some(schema),
                _ => false,
            };
            if matches {
                if found.is_some() {
                    let name = qualifier.join(".");
                    return Err(SqlError::new(
                        SqlState::AMBIGUOUS_COLUMN,
                        format!("table reference \"{name}\" is ambiguous"),
                    ));
                }
                found = Some(index);
            }
        }
        Ok(found)
    }

    fn resolve_here(&self, qualifier: &[&str], name: &str) -> SqlResult<Found> {
        if qualifier.is_empty() {
            let mut matching = self.namespace.columns.iter().filter(|column| column.name == name);
            let Some(column) = matching.next() else { return Ok(Found::Nothing) };
            if matching.next().is_some() {
                return Err(ambiguous_column(name));
            }
            return Ok(Found::Column(ColumnRef {
                depth: 0,
                index: column.slot,
                ty: column.ty,
                typmod: column.typmod,
            }));
        }
        let Some(index) = self.relation_named(qualifier)? else { return Ok(Found::Nothing) };
        let relation = &self.level.relations[index];
        let mut matching = relation.columns.iter().enumerate().filter(|(_, column)| column.name == name);
        let Some((position, column)) = matching.next() else { return Ok(Found::RelationOnly) };
        if matching.next().is_some() {
            return Err(ambiguous_column(name));
        }
        let index = relation.first + position;
        Ok(Found::Column(ColumnRef { depth: 0, index, ty: column.ty, typmod: column.typmod }))
    }
}

enum Found {
    Column(ColumnRef),
    /// The qualifier is here, the column is not.
    RelationOnly,
    Nothing,
}

impl Scope for LevelScope<'_> {
    fn resolve(&self, qualifier: &[&str], name: &str) -> SqlResult<Option<ColumnRef>> {
        match self.resolve_here(qualifier, name)? {
            Found::Column(column) => {
                self.level.mark_used(column.index);
                Ok(Some(column))
            }
            Found::RelationOnly => Ok(None),
            Found::Nothing => match self.outer {
                Some(outer) => {
                    let found = outer.resolve(qualifier, name)?;
                    if found.is_some() {
                        self.level.uses_outer.set(true);
                    }
                    Ok(found.map(|column| ColumnRef { depth: column.depth + 1, ..column }))
                }
                None => match qualifier.last() {
                    Some(table) => Err(missing_from_entry(table)),
                    None => Ok(None),
                },
            },
        }
    }
}
