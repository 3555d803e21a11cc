//! Where an expression's names come from.

use base::{SqlError, SqlResult, SqlState};
use types::{PgType, TypeMod};

/// A column that a name was resolved to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnRef {
    /// 0: the row at hand; 1: the row of the next enclosing query, and so on.
    pub depth: usize,
    pub index: usize,
    pub ty: PgType,
    pub typmod: TypeMod,
}

/// The columns in sight.
pub trait Scope {
    /// The column `name`, of the relation `qualifier` (`["t"]` or `["schema", "t"]`) unless that is empty. `None` if there
    /// is none; the caller then reports 42703.
    ///
    /// # Errors
    /// 42702 for an ambiguous name ([`ambiguous_column`]), 42P01 for an unknown qualifier ([`missing_from_entry`]).
    fn resolve(&self, qualifier: &[&str], name: &str) -> SqlResult<Option<ColumnRef>>;
}

/// No columns: VALUES, LIMIT, a SELECT without FROM.
pub struct EmptyScope;

impl Scope for EmptyScope {
    fn resolve(&self, qualifier: &[&str], _name: &str) -> SqlResult<Option<ColumnRef>> {
        match qualifier.last() {
            Some(table) => Err(missing_from_entry(table)),
            None => Ok(None),
        }
    }
}

/// The columns of one table, in row order: CHECK constraints, defaults, index predicates.
pub struct TableScope<'a> {
    pub table: &'a str,
    /// Name, type and modifier; dropped columns have an empty name and keep their place.
    pub columns: Vec<(&'a str, PgType, TypeMod)>,
}

impl Scope for TableScope<'_> {
    fn resolve(&self, qualifier: &[&str], name: &str) -> SqlResult<Option<ColumnRef>> {
        if let Some(&table) = qualifier.last()
            && table != self.table
        {
            return Err(missing_from_entry(table));
        }
        let found = self.columns.iter().position(|column| column.0 == name && !name.is_empty());
        Ok(found.map(|index| ColumnRef {
            depth: 0,
            index,
            ty: self.columns[index].1,
            typmod: self.columns[index].2,
        }))
    }
}

/// 42702.
pub fn ambiguous_column(name: &str) -> SqlError {
    SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
}

/// 42703.
pub fn undefined_column(qualifier: &[&str], name: &str) -> SqlError {
    let message = match qualifier {
        [] => format!("column \"{name}\" does not exist"),
        parts => format!("column {}.{name} does not exist", parts.join(".")),
    };
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

/// 42P01.
pub fn missing_from_entry(table: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{table}\""))
}

/// `error`, pointing at the name at fault.
pub fn at_ident(error: SqlError, ident: &sqlparser::ast::Ident) -> SqlError {
    error.with_location(ident.span.start.line, ident.span.start.column)
}

/// `error`, pointing at the first part of the name at fault.
pub fn at_name(error: SqlError, name: &sqlparser::ast::ObjectName) -> SqlError {
    match name.0.first().and_then(|part| part.as_ident()) {
        Some(ident) => at_ident(error, ident),
        None => error,
    }
}
