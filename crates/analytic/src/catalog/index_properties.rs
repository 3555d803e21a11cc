//! What an index can do, as `pg_index_column_has_property` and its kin answer: NULL for words that are no property, and for what is no index.

use base::SqlResult;
use tenant::catalog::Relation;
use types::Datum;

use super::functions::relation;
use super::objects::BTREE;
use crate::shared::Shared;

fn word(value: &Datum) -> String {
    value.as_str().unwrap_or_default().to_ascii_lowercase()
}

fn answer(property: Option<bool>) -> SqlResult<Datum> {
    Ok(property.map_or(Datum::Null, Datum::Bool))
}

/// `(index, column, property)`; the columns are counted from 1.
pub(super) fn of_column(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let found = relation(&args[0], shared)?.and_then(|oid| shared.catalog.relation(oid));
    let Some(Relation::Index(table, at)) = found else { return Ok(Datum::Null) };
    let position = args[1].as_i64().and_then(|number| usize::try_from(number - 1).ok());
    let column = position.and_then(|position| table.indexes[*at].columns.get(position));
    answer(column.and_then(|column| match word(&args[2]).as_str() {
        "asc" => Some(!column.descending),
        "desc" => Some(column.descending),
        "nulls_first" => Some(column.nulls_first),
        "nulls_last" => Some(!column.nulls_first),
        "orderable" | "returnable" | "search_array" | "search_nulls" => Some(true),
        "distance_orderable" => Some(false),
        _ => None,
    }))
}

/// `(index, property)`.
pub(super) fn of_index(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let found = relation(&args[0], shared)?.and_then(|oid| shared.catalog.relation(oid));
    let is_index = matches!(found, Some(Relation::Index(..)));
    answer(match word(&args[1]).as_str() {
        _ if !is_index => None,
        "index_scan" | "backward_scan" => Some(true),
        "bitmap_scan" | "clusterable" => Some(false),
        _ => None,
    })
}

/// `(access method, property)`.
pub(super) fn of_method(args: &[Datum], _: &Shared) -> SqlResult<Datum> {
    let is_btree = args[0].as_i64() == Some(i64::from(BTREE));
    answer(match word(&args[1]).as_str() {
        _ if !is_btree => None,
        "can_order" | "can_unique" | "can_multi_col" | "can_include" => Some(true),
        "can_exclude" => Some(false),
        _ => None,
    })
}
