//! Columns: adding, dropping, renaming, and their properties.

use std::sync::Arc;

use base::limits::TABLE_COLUMNS_MAX;
use base::{Oid, SqlError, SqlResult, SqlState};
use types::{Datum, PgType, row_memory};

use super::{Behavior, Ddl, Dropped};
use crate::catalog::{Column, Identity, Table};
use crate::cursor::Direction;
use crate::interrupt::Step;
use crate::row::keys::KeyRange;
use crate::view::{Access, State};

/// Memory of a value that rows from before their column show without being touched: definitions are in memory as a whole, in nobody's budget. One
/// that takes more is stored in each row.
const MISSING_LEN_MAX: usize = 16 << 10;

impl Ddl<'_> {
    /// Adds a column at the end. Existing rows are not touched, unless its `missing` value is long: they show that. A NOT NULL column
    /// without one is refused unless the table is empty.
    ///
    /// Errors: 42701, 42P16, 54011, 23502; 53200 for a long value in many rows.
    pub fn add_column(&mut self, table: Oid, column: Column) -> Step<usize> {
        let mut table = self.open_table(table)?;
        refuse_system_name(&column.name)?;
        refuse_pseudo_type(&column)?;
        if table.column(&column.name).is_some() {
            return Err(duplicate_column(&table, &column.name).into());
        }
        if table.columns.len() == TABLE_COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("tables can have at most {TABLE_COLUMNS_MAX} columns"),
            )
            .into());
        }
        let memory = |value| row_memory(std::slice::from_ref(value));
        if column.missing.as_deref().is_some_and(|value| memory(value) > MISSING_LEN_MAX) {
            return self.add_stored_column(&table, column);
        }
        let position = table.columns.len();
        let unfilled = column.not_null && column.missing.is_none();
        table.columns.push(column);
        let (oid, name) = (table.oid, table.columns[position].name.clone());
        let (nobody, shown) =
            (!unfilled || self.is_empty_table(&Arc::new(table.clone()))?, table.name.clone());
        if !nobody {
            return Err(SqlError::new(
                SqlState::NOT_NULL_VIOLATION,
                format!("column \"{name}\" of relation \"{shown}\" contains null values"),
            )
            .with_table(shown.as_str())
            .with_column(name.as_str())
            .into());
        }
        debug_assert_eq!(oid, table.oid);
        self.edit().put_table(table);
        Ok(position)
    }

    /// Adds a column whose value is stored in each row.
    fn add_stored_column(&mut self, table: &Table, mut column: Column) -> Step<usize> {
        let value = column.missing.take().map_or(Datum::Null, |value| *value);
        let add = |table: &mut Table| {
            table.columns.push(column);
            Ok(())
        };
        self.rewrite_table(table.oid, add, &mut |mut row| {
            row.push(value.clone());
            Ok(row)
        })?;
        Ok(table.columns.len())
    }

    fn is_empty_table(&mut self, table: &Arc<Table>) -> Step<bool> {
        let mut scan =
            self.view.scan_state(table, Access::Table, KeyRange::all(), Direction::Forward, State::Newest);
        Ok(self.view.next(&mut scan)?.is_none())
    }

    /// Drops a column with the indexes, constraints and sequences that need it; its bytes stay in old rows, unseen.
    ///
    /// Errors: 42703, and 2BP01 where a view or another table's foreign key needs it.
    pub fn drop_column(&mut self, table: Oid, name: &str, behavior: Behavior) -> Step<Dropped> {
        let oid = table;
        let table = self.view.table(oid)?;
        if is_system_column(name) {
            let message = format!("cannot drop system column \"{name}\"");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        let (position, _) = table.column(name).ok_or_else(|| undefined_column(&table, name))?;
        self.drop_column_of(oid, position, behavior)
    }

    /// Marks a column dropped and takes out everything of its own table that names it.
    pub(super) fn forget_column(&mut self, oid: Oid, position: usize) -> Step<()> {
        let table = self.open_table(oid)?;
        let uses = |columns: &[usize]| columns.contains(&position);
        for key in table
            .foreign_keys
            .iter()
            .filter(|k| uses(&k.columns) || (k.referenced_table == oid && uses(&k.referenced_columns)))
        {
            self.remove_foreign_key(oid, key.oid)?;
        }
        if table.primary_index().is_some_and(|i| i.column_positions().any(|c| c == position)) {
            self.drop_primary_key(oid)?;
        }
        let mut table = self.open_table(oid)?;
        let (gone, kept): (Vec<_>, Vec<_>) = table.indexes.drain(..).partition(|i| i.names(position));
        table.indexes = kept;
        table.primary_key = table.indexes.iter().position(|i| i.is_primary());
        self.view.txn.dropped_trees.extend(gone.iter().map(|i| i.tree));
        table.checks.retain(|check| !uses(&check.columns));
        let column = &mut table.columns[position];
        *column = Column {
            name: format!("........pg.dropped.{}........", position + 1).into(),
            not_null: false,
            default: None,
            generated: None,
            identity: None,
            sequence: None,
            dropped: true,
            missing: None,
            ty: column.ty,
            typmod: column.typmod,
        };
        self.edit().put_table(table);
        self.edit().set_comment(oid, Some(position), None);
        Ok(())
    }

    /// Errors: 42703, 42701.
    pub fn rename_column(&mut self, table: Oid, name: &str, new: &str) -> Step<()> {
        let mut table = self.open_table(table)?;
        refuse_system_name(new)?;
        if table.column(new).is_some() {
            return Err(duplicate_column(&table, new).into());
        }
        let (position, _) = table.column(name).ok_or_else(|| undefined_column(&table, name))?;
        table.columns[position].name = new.into();
        self.edit().put_table(table);
        Ok(())
    }

    /// The default's SQL text; `None` for no default. Of a generated column the text of its expression, of the same columns.
    pub fn set_default(&mut self, table: Oid, position: usize, default: Option<&str>) -> Step<()> {
        self.change_column(table, position, |column| column.default = default.map(Into::into))
    }

    /// The column is generated no more, and keeps the values that it has.
    pub fn drop_expression(&mut self, table: Oid, position: usize) -> Step<()> {
        self.change_column(table, position, |column| (column.default, column.generated) = (None, None))
    }

    /// The identity property.
    pub fn set_identity(&mut self, table: Oid, position: usize, identity: Option<Identity>) -> Step<()> {
        self.change_column(table, position, |column| column.identity = identity)
    }

    /// The sequence that goes with the column (`serial`, identity).
    pub fn set_column_sequence(&mut self, table: Oid, position: usize, sequence: Option<Oid>) -> Step<()> {
        self.change_column(table, position, |column| column.sequence = sequence)
    }

    /// A change of the type that leaves stored values as they are (a longer `varchar`, say); others need
    /// [`Ddl::rewrite_table`].
    pub fn set_column_type(
        &mut self,
        table: Oid,
        position: usize,
        ty: PgType,
        typmod: types::TypeMod,
    ) -> Step<()> {
        self.change_column(table, position, |column| {
            column.ty = ty;
            column.typmod = typmod;
        })
    }

    fn change_column(&mut self, table: Oid, position: usize, change: impl FnOnce(&mut Column)) -> Step<()> {
        let mut table = self.open_table(table)?;
        change(&mut table.columns[position]);
        self.edit().put_table(table);
        Ok(())
    }

    /// `SET NOT NULL`. Errors: 23502 where a row has NULL there.
    pub fn set_not_null(&mut self, table: Oid, position: usize) -> Step<()> {
        let mut table = Arc::new(self.open_table(table)?);
        self.look_at_each(&table, |_, row| match row[position].is_null() {
            true => Err(super::build::contains_nulls(&table, position).into()),
            false => Ok(()),
        })?;
        Arc::make_mut(&mut table).columns[position].not_null = true;
        self.edit().put_table(Arc::unwrap_or_clone(table));
        Ok(())
    }

    /// As [`Ddl::set_not_null`], where the caller knows that no row has NULL there.
    pub fn set_known_not_null(&mut self, table: Oid, position: usize) -> Step<()> {
        self.change_column(table, position, |column| column.not_null = true)
    }

    /// `DROP NOT NULL`. Errors: 42P16 for a column of the primary key.
    pub fn drop_not_null(&mut self, table: Oid, position: usize) -> Step<()> {
        let mut table = self.open_table(table)?;
        if table.primary_index().is_some_and(|i| i.column_positions().any(|c| c == position)) {
            let name = &table.columns[position].name;
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("column \"{name}\" is in a primary key"),
            )
            .into());
        }
        table.columns[position].not_null = false;
        self.edit().put_table(table);
        Ok(())
    }

    /// The position of a column. Errors: 42703.
    pub fn column_position(&self, table: Oid, name: &str) -> SqlResult<usize> {
        let table = self.view.table(table)?;
        table.column(name).map(|(i, _)| i).ok_or_else(|| undefined_column(&table, name))
    }
}

fn is_system_column(name: &str) -> bool {
    matches!(name, "tableoid" | "xmin" | "cmin" | "xmax" | "cmax" | "ctid")
}

/// Errors: 42701 for a name that PostgreSQL's own columns of every table have.
pub(super) fn refuse_system_name(name: &str) -> SqlResult<()> {
    if is_system_column(name) {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    Ok(())
}

/// Errors: 42P16 for a type that no value is stored of.
pub(super) fn refuse_pseudo_type(column: &Column) -> SqlResult<()> {
    if matches!(column.ty, PgType::Unknown | PgType::Void) {
        let message = format!("column \"{}\" has pseudo-type {}", column.name, column.ty.name());
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    Ok(())
}

fn duplicate_column(table: &Table, name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_COLUMN,
        format!("column \"{name}\" of relation \"{}\" already exists", table.name),
    )
}

fn undefined_column(table: &Table, name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
    )
}
