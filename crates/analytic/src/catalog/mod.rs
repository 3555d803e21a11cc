//! `pg_catalog` and `information_schema`: tables made of the tenant's catalog and the session's view of the server, row by row
//! when a query names them.
//!
//! `sql::system` has their columns. A table without rows here is one whose objects do not exist in Rowhouse (publications,
//! policies, extensions).

mod access;
mod advice;
pub(crate) mod definitions;
mod dependencies;
pub(crate) mod functions;
mod grants;
mod has_privilege;
mod information;
mod objects;
mod server;
mod types_rows;

use std::sync::Arc;

use base::{SqlError, SqlResult};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::datasource::{MemTable, TableProvider};
use sql::system::SystemTable;
use types::{Datum, ElementType, PgType, Row};

use crate::error::Planned;
use crate::shared::Shared;
use crate::value;

/// Gathers the rows of a system table. Columns that are not set are NULL, or empty where the table does not allow NULL.
pub(crate) struct Rows<'a> {
    pub(crate) shared: &'a Shared,
    table: &'static SystemTable,
    rows: Vec<Row>,
    /// Why they cannot be had.
    failed: Option<SqlError>,
}

impl Rows<'_> {
    pub(crate) fn add(&mut self, values: Vec<(&str, Datum)>) {
        let mut row: Row = self
            .table
            .columns
            .iter()
            .zip(&self.table.not_null)
            .map(|((name, ty), not_null)| match (*name, *not_null) {
                ("tableoid", _) => Datum::Oid(self.table.oid),
                (_, true) => blank(*ty),
                (_, false) => Datum::Null,
            })
            .collect();
        for (name, value) in values {
            let at = self.table.columns.iter().position(|(known, _)| *known == name);
            row[at.unwrap_or_else(|| unreachable!("{} has no column {name}", self.table.name))] = value;
        }
        self.rows.push(row);
    }
}

fn blank(ty: PgType) -> Datum {
    match ty {
        PgType::Bool => Datum::Bool(false),
        PgType::Int2 => Datum::Int2(0),
        PgType::Int4 => Datum::Int4(0),
        PgType::Int8 => Datum::Int8(0),
        PgType::Float4 => Datum::Float4(0.0),
        PgType::Char => Datum::Char(0),
        PgType::Array(element) => Datum::array(element, Vec::new()),
        PgType::Int2Vector => Datum::array(ElementType::Int2, Vec::new()),
        PgType::OidVector => Datum::array(ElementType::Oid, Vec::new()),
        ty if ty.is_oid() => Datum::Oid(0),
        _ => Datum::text(""),
    }
}

/// The rows of `table` as this session sees them.
///
/// # Errors
/// 58030: a table that is made from files, and they cannot be read.
fn rows(table: &'static SystemTable, shared: &Shared) -> SqlResult<Vec<Row>> {
    let mut out = Rows { shared, table, rows: Vec::new(), failed: None };
    let fills: &[fn(&mut Rows<'_>, &str) -> bool] = match table.schema {
        "information_schema" => &[information::fill, grants::fill],
        _ => &[objects::fill, types_rows::fill, server::fill],
    };
    fills.iter().any(|fill| fill(&mut out, table.name));
    out.failed.map_or(Ok(out.rows), Err)
}

/// `table` for DataFusion, under the given field names. Without a snapshot (a query only described) it has no rows.
pub(crate) fn provider(
    table: &'static SystemTable,
    fields: Vec<Field>,
    shared: Arc<Shared>,
) -> SqlResult<Arc<dyn TableProvider>> {
    let rows = if shared.view.is_some() { rows(table, &shared)? } else { Vec::new() };
    table_of(table, fields, &rows)
}

/// The rows that the function `of` of the server gives for these arguments.
///
/// # Errors
/// The function's.
pub(crate) fn function_rows(
    of: &'static SystemTable,
    arguments: &[Datum],
    shared: &Shared,
) -> SqlResult<Vec<Row>> {
    let mut out = Rows { shared, table: of, rows: Vec::new(), failed: None };
    advice::fill(&mut out, arguments)?;
    Ok(out.rows)
}

/// These rows of `table` for DataFusion, under the given field names.
pub(crate) fn table_of(
    table: &'static SystemTable,
    fields: Vec<Field>,
    rows: &[Row],
) -> SqlResult<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(fields));
    let mut columns: Vec<value::Column> = table
        .columns
        .iter()
        .zip(schema.fields())
        .map(|((_, ty), field)| value::Column::new(*ty, field.data_type(), rows.len()))
        .collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value)?;
        }
    }
    let arrays = columns.iter_mut().map(value::Column::finish).collect::<SqlResult<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
        .map_err(crate::error::arrow_error)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).planned()?))
}

/// Short forms for rows.
pub(crate) fn oid(oid: base::Oid) -> Datum {
    Datum::Oid(oid.0)
}
pub(crate) fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}
pub(crate) fn letter(c: u8) -> Datum {
    Datum::Char(c)
}
pub(crate) fn yes(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}
pub(crate) fn smallints(values: impl IntoIterator<Item = i16>) -> Datum {
    Datum::array(ElementType::Int2, values.into_iter().map(Datum::Int2).collect())
}
pub(crate) fn oids(values: impl IntoIterator<Item = u32>) -> Datum {
    Datum::array(ElementType::Oid, values.into_iter().map(Datum::Oid).collect())
}
