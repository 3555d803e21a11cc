//! The columns in sight while a query is bound, and the plan that yields them.

use std::cell::RefCell;
use std::sync::Arc;

use base::SqlResult;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan};
use sql::expr::{BoundExpr, ColumnRef, Scope, ambiguous_column, missing_from_entry};
use types::{PgType, TypeMod};

use crate::catalog::functions::CatalogFunction;
use crate::translate::key_of;
use crate::value;

/// A column of a relation: where it stands in the plan, and how SQL names it.
#[derive(Clone, Debug)]
pub(crate) struct RelColumn {
    pub(crate) column: Column,
    pub(crate) arrow: DataType,
    pub(crate) ty: PgType,
    pub(crate) typmod: TypeMod,
    pub(crate) name: String,
    /// The alias or name of its table.
    pub(crate) table: Option<String>,
    /// The schema of its table, where the table was not given an alias.
    pub(crate) schema: Option<String>,
    /// Whether the bare name finds it; not so for the other side of a USING column, and system columns.
    pub(crate) bare: bool,
    /// Whether `table.*` shows it.
    pub(crate) starred: bool,
    /// Oid and attribute number of the table column it is, unchanged; zeros otherwise.
    pub(crate) origin: (u32, i16),
}

impl RelColumn {
    pub(crate) fn expr(&self) -> Expr {
        Expr::Column(self.column.clone())
    }

    pub(crate) fn needs_key(&self) -> bool {
        value::needs_key(self.ty, self.typmod, &self.arrow)
    }

    /// Whether it is a row of its table that has one value.
    fn is_row(&self) -> bool {
        !self.starred && self.table.as_ref() == Some(&self.name)
    }

    /// An expression to group, sort or hash its values by.
    pub(crate) fn key(&self) -> Expr {
        if self.needs_key() { key_of(self.expr(), self.ty) } else { self.expr() }
    }
}

/// A plan and its columns.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub(crate) plan: LogicalPlan,
    pub(crate) columns: Vec<RelColumn>,
    /// What `*` shows, in order.
    pub(crate) star: Vec<usize>,
}

/// Indexes from here on name what a level computes beside its columns.
pub(crate) const SYNTHETIC: usize = 1 << 24;

/// Something that an expression names by a made-up identifier, because the point path's binder does not know it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Synthetic {
    /// A function over the catalog.
    Catalog { function: CatalogFunction, args: Vec<BoundExpr> },
    /// A window function, by position among the query's window functions.
    Window(usize),
    /// A set-returning function of the select list, by position.
    Series(usize),
    /// `GROUPING` of these keys.
    Grouping(Vec<BoundExpr>),
    /// A column of the plan without a name in SQL.
    Computed(String),
}

/// A synthetic with its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyntheticColumn {
    pub(crate) what: Synthetic,
    pub(crate) ty: PgType,
}

/// What the expressions of one query level may name.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) columns: Vec<RelColumn>,
    pub(crate) star: Vec<usize>,
    pub(crate) synthetic: RefCell<Vec<SyntheticColumn>>,
}

impl Level {
    pub(crate) fn of(relation: &Relation) -> Arc<Level> {
        Arc::new(Level {
            columns: relation.columns.clone(),
            star: relation.star.clone(),
            synthetic: RefCell::default(),
        })
    }

    /// Answers the identifier that stands for a synthetic. Equal ones are one, as what is grouped by is found again where it is repeated.
    pub(crate) fn add(&self, what: Synthetic, ty: PgType) -> String {
        let mut all = self.synthetic.borrow_mut();
        let one = SyntheticColumn { what, ty };
        let known = all.iter().position(|known| *known == one);
        let number = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(one);
        }
        format!("{SYNTHETIC_PREFIX}{number}")
    }

    pub(crate) fn synthetic(&self, index: usize) -> SyntheticColumn {
        self.synthetic.borrow()[index - SYNTHETIC].clone()
    }

    /// The column of the table whose row the one at `index` is, so that what is grouped by either is grouped by both.
    fn value_of(&self, index: usize) -> usize {
        let table = &self.columns[index].table;
        self.columns.iter().position(|column| column.starred && column.table == *table).unwrap_or(index)
    }

    /// Whether a table of that name is in sight.
    pub(crate) fn has_table(&self, table: &str) -> bool {
        self.columns.iter().any(|c| c.table.as_deref() == Some(table))
    }
}

/// Begins no identifier that a statement needs; one that a client begins with it names nothing, or something of its own query.
const SYNTHETIC_PREFIX: char = '\u{1}';

/// A level within the levels around it.
pub(crate) struct LevelScope<'a> {
    pub(crate) level: &'a Level,
    pub(crate) outer: Option<&'a dyn Scope>,
}

impl Scope for LevelScope<'_> {
    fn resolve(&self, qualifier: &[&str], name: &str) -> SqlResult<Option<ColumnRef>> {
        let number = name.strip_prefix(SYNTHETIC_PREFIX).and_then(|number| number.parse::<usize>().ok());
        if let Some(index) = number.filter(|index| *index < self.level.synthetic.borrow().len()) {
            let ty = self.level.synthetic.borrow()[index].ty;
            return Ok(Some(ColumnRef { depth: 0, index: SYNTHETIC + index, ty, typmod: TypeMod::NONE }));
        }
        let (mut found, mut row) = (None, None);
        let mut table_seen = false;
        for (index, column) in self.level.columns.iter().enumerate() {
            let here = match qualifier {
                [] => column.bare,
                [table] => column.table.as_deref() == Some(table),
                [.., schema, table] => {
                    column.table.as_deref() == Some(table) && column.schema.as_deref() == Some(schema)
                }
            };
            table_seen |= here;
            if here && column.name == name {
                let this = ColumnRef { depth: 0, index, ty: column.ty, typmod: column.typmod };
                if column.is_row() {
                    // Any column of that name goes before it.
                    row = Some(ColumnRef { index: self.level.value_of(index), ..this });
                    continue;
                }
                if found.is_some() {
                    return Err(ambiguous_column(name));
                }
                found = Some(this);
            }
        }
        let found = found.or(row);
        if found.is_some() || (table_seen && !qualifier.is_empty()) {
            return Ok(found);
        }
        match (self.outer, qualifier.last()) {
            (Some(outer), _) => {
                Ok(outer.resolve(qualifier, name)?.map(|found| ColumnRef { depth: found.depth + 1, ..found }))
            }
            (None, Some(table)) => Err(missing_from_entry(table)),
            (None, None) => Ok(None),
        }
    }
}
