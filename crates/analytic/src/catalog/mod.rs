//! `pg_catalog` and `information_schema`: tables made of the tenant's catalog and the session's view of the server, row by row
//! when a query names them.
//!
//! `sql::system` has their columns. A table without rows here is one whose objects do not exist in Rowhouse (publications,
//! policies, extensions).

pub(crate) mod access;
mod advice;
pub(crate) mod definitions;
mod dependencies;
pub(crate) mod functions;
mod grants;
mod has_privilege;
mod index_properties;
mod information;
mod keywords;
mod made;
mod objects;
mod server;
mod types_rows;

use std::sync::Arc;

use base::{SqlError, SqlResult};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::datasource::{MemTable, TableProvider};
use sql::system::SystemTable;
use types::{Datum, ElementType, PgType, Row};

use crate::error::Planned;
use crate::shared::Shared;
use crate::value;
use made::MadeTable;

pub(crate) use made::MadeTables;

/// Rows are counted by so many bytes at a time.
const COUNTED_AT_ONCE: usize = 64 << 10;

/// Gathers the rows of a system table. Columns that are not set are NULL, or empty where the table does not allow NULL. While they live they are counted as their
/// query's.
pub(crate) struct Rows<'a> {
    pub(crate) shared: &'a Shared,
    table: &'static SystemTable,
    /// `xmin` of all rows: what the statement sees was there with that commit at the latest.
    commit: u32,
    rows: Vec<Row>,
    /// Their bytes, those that are counted and those that are not yet.
    counted: usize,
    uncounted: usize,
    /// Why they cannot be had.
    failed: Option<SqlError>,
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        self.shared.made.uncount(self.counted);
    }
}

impl<'a> Rows<'a> {
    fn new(shared: &'a Shared, table: &'static SystemTable) -> Rows<'a> {
        let commit = shared.view.as_ref().map_or(0, |view| view.commit().0 as u32);
        Rows { shared, table, commit, rows: Vec::new(), counted: 0, uncounted: 0, failed: None }
    }

    /// Nothing more is to be added: the rows cannot be had.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn count(&mut self, row: &Row) {
        let heap: usize = row.iter().map(Datum::heap_bytes).sum();
        self.uncounted += size_of::<Row>() + row.len() * size_of::<Datum>() + heap;
        if self.uncounted < COUNTED_AT_ONCE {
            return;
        }
        match self.shared.made.count(self.uncounted) {
            Ok(()) => self.counted += std::mem::take(&mut self.uncounted),
            Err(error) => {
                self.rows = Vec::new();
                self.failed = Some(error);
            }
        }
    }

    pub(crate) fn add(&mut self, values: Vec<(&str, Datum)>) {
        if self.has_failed() {
            return;
        }
        let mut row: Row = self
            .table
            .columns
            .iter()
            .zip(&self.table.not_null)
            .map(|((name, ty), not_null)| match (*name, *not_null) {
                ("tableoid", true) => Datum::Oid(self.table.oid),
                ("xmin", true) => Datum::Oid(self.commit),
                (_, true) => blank(*ty),
                (_, false) => Datum::Null,
            })
            .collect();
        for (name, value) in values {
            let at = self.table.columns.iter().position(|(known, _)| *known == name);
            row[at.unwrap_or_else(|| unreachable!("{} has no column {name}", self.table.name))] = value;
        }
        self.count(&row);
        if !self.has_failed() {
            self.rows.push(row);
        }
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
fn rows<'a>(table: &'static SystemTable, shared: &'a Shared) -> SqlResult<Rows<'a>> {
    let mut out = Rows::new(shared, table);
    let fills: &[fn(&mut Rows<'_>, &str) -> bool] = match table.schema {
        "information_schema" => &[information::fill, grants::fill],
        _ => &[objects::fill, types_rows::fill, server::fill],
    };
    fills.iter().any(|fill| fill(&mut out, table.name));
    out.failed.take().map_or(Ok(out), Err)
}

/// `table` for DataFusion, under the given field names. Without a snapshot (a query only described) it has no rows. Made once for a query.
///
/// # Errors
/// 53200: its rows are more than the tenant has working memory for; those of [`rows`].
pub(crate) fn provider(
    table: &'static SystemTable,
    fields: Vec<Field>,
    shared: Arc<Shared>,
) -> SqlResult<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(fields));
    if shared.view.is_none() {
        return table_of(&schema, columns_of(table, &schema, &[])?);
    }
    if let Some(made) = shared.made.find(table) {
        return table_of(&schema, made);
    }
    let rows = rows(table, &shared)?;
    let made = columns_of(table, &schema, &rows.rows)?;
    shared.made.keep(table, made.clone())?;
    table_of(&schema, made)
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
    let mut out = Rows::new(shared, of);
    match of.name {
        "pg_get_keywords" => keywords::fill(&mut out),
        "pg_show_all_settings" => server::settings(&mut out),
        _ => advice::fill(&mut out, arguments)?,
    }
    Ok(std::mem::take(&mut out.rows))
}

/// These rows of `table` for DataFusion, under the given field names.
pub(crate) fn table_of_rows(
    table: &'static SystemTable,
    fields: Vec<Field>,
    rows: &[Row],
) -> SqlResult<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(fields));
    table_of(&schema, columns_of(table, &schema, rows)?)
}

fn columns_of(table: &SystemTable, schema: &Schema, rows: &[Row]) -> SqlResult<MadeTable> {
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
    let columns = columns.iter_mut().map(value::Column::finish).collect::<SqlResult<_>>()?;
    Ok(MadeTable { columns, rows: rows.len() })
}

fn table_of(schema: &SchemaRef, made: MadeTable) -> SqlResult<Arc<dyn TableProvider>> {
    let options = RecordBatchOptions::new().with_row_count(Some(made.rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), made.columns, &options)
        .map_err(crate::error::arrow_error)?;
    Ok(Arc::new(MemTable::try_new(Arc::clone(schema), vec![vec![batch]]).planned()?))
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
