//! `LIKE table INCLUDING …` in CREATE TABLE: columns of another table or view, and what belongs to them.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use tenant::catalog::{Catalog, Column, Privileges, Relation, Table, ViewColumn};
use tenant::ddl::NewIndex;

use super::column::{ColumnSequence, NewColumn};
use super::constraint::NewConstraint;
use super::names::{Names, split_parts};
use super::sequence::Bounds;
use crate::parse::{LikeClause, parse_expression};
use crate::session::{Home, Pause, Session};

/// What a LIKE clause copies beside names, types and NOT NULL.
#[derive(Clone, Copy, Default)]
struct Including {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

/// A LIKE clause that was looked up.
pub(super) struct Like {
    /// `None` for a view, which has columns alone.
    source: Option<Arc<Table>>,
    including: Including,
    /// The new positions of the source's columns; `None` for dropped ones.
    positions: Vec<Option<usize>>,
}

/// Reads the options; STATISTICS, STORAGE and COMPRESSION have nothing to copy.
fn including(clause: &LikeClause) -> SqlResult<Including> {
    let mut read = Including::default();
    for (on, word) in &clause.options {
        match word.as_str() {
            "all" => {
                read = Including {
                    comments: *on,
                    constraints: *on,
                    defaults: *on,
                    generated: *on,
                    identity: *on,
                    indexes: *on,
                }
            }
            "comments" => read.comments = *on,
            "constraints" => read.constraints = *on,
            "defaults" => read.defaults = *on,
            "generated" => read.generated = *on,
            "identity" => read.identity = *on,
            "indexes" => read.indexes = *on,
            "statistics" | "storage" | "compression" => {}
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(read)
}

/// Adds the columns of a clause, and the constraints it copies.
///
/// # Errors
/// 42P01; 42809 for what has no columns; 42501.
pub(super) fn add_columns(
    session: &Session,
    names: &Names,
    clause: &LikeClause,
    columns: &mut Vec<NewColumn>,
    constraints: &mut Vec<NewConstraint>,
) -> SqlResult<Like> {
    let (schema, name) = split_parts(clause.table.clone())?;
    let including = including(clause)?;
    let relation = names.relation(schema.as_deref(), &name)?;
    session.check_privilege(&names.catalog, relation.oid(), Privileges::SELECT)?;
    let table = match relation {
        Relation::Table(table) => table,
        Relation::View(view) => {
            let column = |c: &ViewColumn| Column::new(c.name.as_str(), c.ty, c.typmod);
            columns.extend(view.columns.iter().map(|c| NewColumn::plain(column(c))));
            return Ok(Like { source: None, including, positions: Vec::new() });
        }
        other => {
            let message = format!("relation \"{}\" is invalid in LIKE clause", other.name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_detail(format!("This operation is not supported for {}s.", other.kind())));
        }
    };
    let mut positions = vec![None; table.columns.len()];
    for (position, source) in table.live_columns() {
        positions[position] = Some(columns.len());
        columns.push(copied(&names.catalog, source, including)?);
    }
    if including.constraints {
        for check in &table.checks {
            let expr = parse_expression(&check.expression)?;
            constraints.push(NewConstraint::Check { name: Some(check.name.to_string()), expr });
        }
    }
    for index in table.indexes.iter().filter(|_| including.indexes) {
        let Some(constraint) = index.constraint else { continue };
        let columns = index.column_positions().map(|i| table.columns[i].name.to_string()).collect();
        let nulls_not_distinct = index.nulls_not_distinct;
        constraints.push(match constraint.primary {
            true => NewConstraint::Primary { name: None, columns },
            false => NewConstraint::Unique { name: None, columns, nulls_not_distinct },
        });
    }
    Ok(Like { source: Some(Arc::clone(table)), including, positions })
}

fn copied(catalog: &Catalog, source: &Column, including: Including) -> SqlResult<NewColumn> {
    let mut column = Column::new(source.name.as_str(), source.ty, source.typmod);
    column.not_null = source.not_null;
    if including.defaults && !source.is_generated() {
        column.default = source.default.clone();
    }
    let expression = source.default.as_deref().filter(|_| including.generated && source.is_generated());
    let sequence = source.identity.filter(|_| including.identity).and_then(|identity| {
        let sequence = catalog.sequence(source.sequence?)?;
        let bounds = Bounds::of_sequence(sequence);
        Some(ColumnSequence { ty: source.ty, bounds, identity: Some(identity), name: None })
    });
    let generated = expression.map(parse_expression).transpose()?;
    Ok(NewColumn { generated, sequence, ..NewColumn::plain(column) })
}

impl Like {
    /// Makes the indexes that no constraint has, and the comments, once the table is there.
    pub(super) fn finish(&self, session: &mut Session, home: &mut Home<'_>, new: Oid) -> Result<(), Pause> {
        let Some(source) = &self.source else { return Ok(()) };
        let comments = self.including.comments;
        let at = |position: usize| self.positions[position].expect("an index has no dropped column");
        let indexes =
            source.indexes.iter().filter(|index| self.including.indexes && index.constraint.is_none());
        for index in indexes {
            let mut columns = index.columns.clone();
            for column in &mut columns {
                column.column = at(column.column);
            }
            let (unique, nulls_not_distinct) = (index.unique, index.nulls_not_distinct);
            let predicate = index.predicate.as_ref().map(|predicate| Arc::new(predicate.moved(&at)));
            let included = index.included.iter().map(|position| at(*position)).collect();
            let made = NewIndex { name: None, columns, unique, nulls_not_distinct, predicate, included };
            session.ddl(home, |ddl| {
                let made = ddl.create_index(new, made)?;
                let comment = ddl.catalog().comment(index.oid, None).filter(|_| comments).map(str::to_owned);
                if comment.is_some() {
                    ddl.set_comment(made, None, comment.as_deref());
                }
                Ok(())
            })?;
        }
        if !comments {
            return Ok(());
        }
        session.ddl(home, |ddl| {
            for (old, new_position) in self.positions.iter().enumerate() {
                let comment = ddl.catalog().comment(source.oid, Some(old)).map(str::to_owned);
                if let (Some(position), Some(comment)) = (new_position, comment) {
                    ddl.set_comment(new, Some(*position), Some(&comment));
                }
            }
            let made = ddl.catalog().table(new).cloned().expect("just made");
            for check in source.checks.iter().filter(|_| self.including.constraints) {
                let comment = ddl.catalog().comment(check.oid, None).map(str::to_owned);
                let twin = made.checks.iter().find(|twin| twin.name == check.name);
                if let (Some(twin), Some(comment)) = (twin, comment) {
                    ddl.set_comment(twin.oid, None, Some(&comment));
                }
            }
            Ok(())
        })
    }
}
