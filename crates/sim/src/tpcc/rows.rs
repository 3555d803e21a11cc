//! All rows of a tenant, for the checks.

use std::collections::BTreeMap;

use base::{CommitNo, SessionId};
use tenant::Isolation;
use tenant::catalog::PUBLIC_SCHEMA;
use tenant::row::keys::KeyRange;
use types::{Datum, Row};

use super::schema;
use crate::{Home, Stop};

/// A table's rows with the names of its columns.
pub(super) struct TableRows {
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// Every table by name.
pub(super) type Tables = BTreeMap<&'static str, TableRows>;

/// A row that is asked by column names.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    columns: &'a [String],
    row: &'a Row,
}

impl TableRows {
    pub(super) fn iter(&self) -> impl Iterator<Item = Named<'_>> {
        self.rows.iter().map(|row| Named { columns: &self.columns, row })
    }
}

impl Named<'_> {
    fn value(&self, column: &str) -> &Datum {
        let place = self.columns.iter().position(|name| name == column);
        &self.row[place.unwrap_or_else(|| panic!("there is no column {column}"))]
    }

    pub(super) fn is_null(&self, column: &str) -> bool {
        self.value(column).is_null()
    }

    /// An integer, or an amount in cents.
    pub(super) fn number(&self, column: &str) -> i64 {
        match self.value(column) {
            Datum::Int4(n) => i64::from(*n),
            Datum::Numeric(n) => {
                let cents = n.to_unscaled(2).expect("amounts have two digits");
                i64::try_from(cents).expect("a sum of the simulation")
            }
            other => panic!("{column} is {other:?}"),
        }
    }

    pub(super) fn numbers<const N: usize>(&self, columns: [&str; N]) -> [i64; N] {
        columns.map(|column| self.number(column))
    }

    pub(super) fn text(&self, column: &str) -> &str {
        match self.value(column) {
            Datum::Text(text) => text.trim_end(),
            other => panic!("{column} is {other:?}"),
        }
    }
}

/// What a tenant holds, and at which commit.
pub(super) fn read_all(home: &Home) -> Result<(CommitNo, Tables), Stop> {
    let failed = |error: base::SqlError| Stop::failed(home.world(), "reading a table", error);
    let (commit, view) = home.turn(|home| {
        let mut txn = home.tenant.begin(SessionId(0), Isolation::ReadCommitted, true, true);
        let view = home.tenant.snapshot_view(&mut txn);
        home.tenant.abort(txn);
        (home.tenant.committed(), view)
    });
    let view = view.map_err(failed)?;
    let mut tables = Tables::new();
    for name in schema::names() {
        let oid = view.catalog().relation_in(PUBLIC_SCHEMA, name).map(|relation| relation.oid());
        let table = oid.and_then(|oid| view.catalog().table(oid));
        let Some(table) = table else { return Err(Stop::violation(format!("table {name} is gone"))) };
        let columns = table.columns.iter().map(|column| column.name.to_string()).collect();
        let mut rows = Vec::new();
        let mut scan = view.scan(table, KeyRange::all());
        let mut each = |row: &tenant::row::RowRef<'_>| {
            rows.push(row.to_row()?);
            Ok(())
        };
        home.blocking(|| {
            while scan.next_leaf(&mut each)? {}
            Ok(())
        })
        .map_err(failed)?;
        tables.insert(name, TableRows { columns, rows });
    }
    Ok((commit, tables))
}
