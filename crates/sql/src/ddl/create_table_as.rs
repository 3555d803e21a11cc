//! CREATE TABLE … AS query.

use base::{Oid, SqlError, SqlState};
use sqlparser::ast;
use tenant::catalog::Column;
use types::PgType;

use super::column::NewColumn;
use super::create_table::make;
use crate::expr::fold_ident;
use crate::parse::{changes_rows, is_change, is_name_alone};
use crate::session::{Home, Pause, Session};

/// Makes the table from the query's columns and fills it with its rows, many of them in slices ([`Session::fill`]); the command tag.
pub(super) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    create: &ast::CreateTable,
    query: &ast::Query,
    schema: Oid,
    name: &str,
) -> Result<String, Pause> {
    if !create.constraints.is_empty() || !create.columns.iter().all(is_name_alone) {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "CREATE TABLE AS takes column names alone").into());
    }
    if changes_rows(query) || is_change(query) {
        return Err(SqlError::unsupported("CREATE TABLE AS of a query whose WITH changes rows").into());
    }
    let (fields, mut rows) = session.query_rows(home, query)?;
    if create.columns.len() > fields.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified").into());
    }
    let columns: Vec<NewColumn> = fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let name =
                create.columns.get(i).map_or_else(|| field.name.clone(), |column| fold_ident(&column.name));
            let ty = if field.ty == PgType::Unknown { PgType::Text } else { field.ty };
            let column = Column::new(name.as_str(), ty, field.modifier);
            NewColumn::plain(column)
        })
        .collect();
    let names = session.names(home);
    let total = rows.len();
    let made = make(session, home, &names, schema, name, columns);
    match made.and_then(|table| session.fill(home, table, &mut rows)) {
        Ok(()) => Ok(format!("SELECT {total}")),
        Err(pause @ (Pause::Error(_) | Pause::Slice(_))) => Err(pause),
        Err(pause) => {
            session.keep_gathered(fields, rows);
            Err(pause)
        }
    }
}
