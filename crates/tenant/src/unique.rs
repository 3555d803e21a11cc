//! Uniqueness and NOT NULL: PostgreSQL's errors, and the values they show.

use base::{SqlError, SqlState};
use types::{Datum, FormatContext, to_text};

use crate::catalog::{Index, Table};
use crate::view::View;

/// Longest text of a value in "Failing row contains".
const SHOWN_VALUE_LEN_MAX: usize = 64;

impl View<'_> {
    /// A value as the session would show it.
    pub(crate) fn show(&self, table: &Table, column: usize, value: &Datum) -> String {
        if value.is_null() {
            return "null".to_owned();
        }
        let ty = table.columns[column].ty;
        match self.session {
            Some(session) => to_text(value, ty, session.format),
            None => to_text(value, ty, &FormatContext::default()),
        }
    }

    /// `(a, b)=(1, 2)`: columns and values as PostgreSQL's details show them.
    pub(crate) fn show_key(&self, table: &Table, columns: &[usize], values: &[Datum]) -> String {
        let shown: Vec<String> = columns.iter().zip(values).map(|(c, v)| self.show(table, *c, v)).collect();
        format!("({})=({})", table.column_names(columns.iter().copied()), shown.join(", "))
    }

    /// The same of an index's keys, as PostgreSQL's details show them.
    pub(crate) fn show_index_key(
        &self,
        table: &Table,
        index: &Index,
        value: impl Fn(usize) -> Datum,
    ) -> String {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for key in &index.columns {
            names.push(table.key_name(key, &table.columns[key.column].name, false));
            values.push(self.show(table, key.column, &key.key(&value(key.column))));
        }
        format!("({})=({})", names.join(", "), values.join(", "))
    }

    /// 23505 for a row whose key in `index` another row has.
    #[cold]
    pub(crate) fn unique_violation(&self, table: &Table, index: &Index, row: &[Datum]) -> SqlError {
        let key = self.show_index_key(table, index, |column| row[column].clone());
        SqlError::new(
            SqlState::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{}\"", index.name),
        )
        .with_detail(format!("Key {key} already exists."))
        .with_schema(self.catalog().schema_name(table.schema))
        .with_table(table.name.as_str())
        .with_constraint(index.name.as_str())
    }

    /// Errors: 23502 where a NOT NULL column has none. Storing a row asks for it too.
    #[inline]
    pub fn require_not_null(&self, table: &Table, row: &[Datum]) -> Result<(), SqlError> {
        for (i, column) in table.columns.iter().enumerate() {
            if column.not_null && !column.dropped && row[i].is_null() {
                return Err(self.not_null_violation(table, row, i));
            }
        }
        Ok(())
    }

    #[cold]
    fn not_null_violation(&self, table: &Table, row: &[Datum], column: usize) -> SqlError {
        let name = &table.columns[column].name;
        SqlError::new(
            SqlState::NOT_NULL_VIOLATION,
            format!(
                "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
                table.name
            ),
        )
        .with_detail(self.failing_row(table, row))
        .with_schema(self.catalog().schema_name(table.schema))
        .with_table(table.name.as_str())
        .with_column(name.as_str())
    }

    /// `Failing row contains (…).`, as PostgreSQL's details show it; for CHECK too.
    pub fn failing_row(&self, table: &Table, row: &[Datum]) -> String {
        let shown: Vec<String> = table
            .live_columns()
            .map(|(i, _)| {
                let mut text = self.show(table, i, &row[i]);
                if text.len() > SHOWN_VALUE_LEN_MAX {
                    text.truncate(text.floor_char_boundary(SHOWN_VALUE_LEN_MAX));
                    text.push_str("...");
                }
                text
            })
            .collect();
        format!("Failing row contains ({}).", shown.join(", "))
    }
}
