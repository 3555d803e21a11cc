//! CREATE SEQUENCE and ALTER SEQUENCE.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Relation, Sequence};
use types::PgType;

use super::names::{Names, column_of, missing, notice, skip_missing, split_parts};
use crate::parse::{AlterSequence, CreateSequence, SequenceOption};
use crate::session::{Home, Pause, Reply, Session};

/// Where a sequence begins, ends and how it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    start: i64,
    increment: i64,
    min: i64,
    max: i64,
    cache: i64,
    cycle: bool,
}

/// The smallest and largest value of an integer type.
fn range_of(ty: PgType) -> (i64, i64) {
    match ty {
        PgType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        PgType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Bounds {
    /// Ascending from 1 to the type's end.
    pub(super) fn of(ty: PgType) -> Bounds {
        Bounds { start: 1, increment: 1, min: 1, max: range_of(ty).1, cache: 1, cycle: false }
    }

    /// A new sequence's, with these options.
    ///
    /// # Errors
    /// 22023 for bounds that contradict each other; 42601 for an option given twice.
    pub(super) fn with(ty: PgType, options: &[SequenceOption]) -> SqlResult<Bounds> {
        let mut bounds = Bounds::of(ty);
        let start = bounds.apply(ty, options, None)?;
        bounds.start = start.unwrap_or(if bounds.increment > 0 { bounds.min } else { bounds.max });
        bounds.check(ty)?;
        Ok(bounds)
    }

    pub(super) fn of_sequence(sequence: &Sequence) -> Bounds {
        let Sequence { start, increment, min, max, cache, cycle, .. } = *sequence;
        Bounds { start, increment, min, max, cache, cycle }
    }

    /// Takes the options over, all but START, which it gives back; `old` is the sequence that is altered.
    fn apply(
        &mut self,
        ty: PgType,
        options: &[SequenceOption],
        old: Option<&Bounds>,
    ) -> SqlResult<Option<i64>> {
        for (i, option) in options.iter().enumerate() {
            let same =
                |other: &SequenceOption| std::mem::discriminant(other) == std::mem::discriminant(option);
            if options[..i].iter().any(same) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
        }
        let (lowest, highest) = range_of(ty);
        let (mut start, mut min, mut max) = (None, None, None);
        for option in options {
            match *option {
                SequenceOption::Increment(0) => {
                    return Err(invalid("INCREMENT must not be zero"));
                }
                SequenceOption::Increment(increment) => self.increment = increment,
                SequenceOption::Min(value) => min = Some(value),
                SequenceOption::Max(value) => max = Some(value),
                SequenceOption::Start(value) => start = Some(value),
                SequenceOption::Cache(cache) if cache < 1 => {
                    return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
                }
                SequenceOption::Cache(cache) => self.cache = cache,
                SequenceOption::Cycle(cycle) => self.cycle = cycle,
                SequenceOption::Restart(_) | SequenceOption::OwnedBy(_) => {}
            }
        }
        // A bound that is not given is the direction's own; on ALTER it stays.
        let default_min = if self.increment > 0 { 1 } else { lowest };
        let default_max = if self.increment > 0 { highest } else { -1 };
        self.min = match (min, old) {
            (Some(Some(value)), _) => value,
            (None, Some(old)) => old.min,
            _ => default_min,
        };
        self.max = match (max, old) {
            (Some(Some(value)), _) => value,
            (None, Some(old)) => old.max,
            _ => default_max,
        };
        Ok(start)
    }

    fn check(&self, ty: PgType) -> SqlResult<()> {
        let (lowest, highest) = range_of(ty);
        let of_type = ty.name();
        if !(lowest..=highest).contains(&self.max) {
            return Err(invalid(format!(
                "MAXVALUE ({}) is out of range for sequence data type {of_type}",
                self.max
            )));
        }
        if !(lowest..=highest).contains(&self.min) {
            return Err(invalid(format!(
                "MINVALUE ({}) is out of range for sequence data type {of_type}",
                self.min
            )));
        }
        if self.min >= self.max {
            return Err(invalid(format!(
                "MINVALUE ({}) must be less than MAXVALUE ({})",
                self.min, self.max
            )));
        }
        if self.start < self.min {
            return Err(invalid(format!(
                "START value ({}) cannot be less than MINVALUE ({})",
                self.start, self.min
            )));
        }
        if self.start > self.max {
            return Err(invalid(format!(
                "START value ({}) cannot be greater than MAXVALUE ({})",
                self.start, self.max
            )));
        }
        Ok(())
    }

    /// A sequence to be made, owned by no column yet.
    pub(super) fn sequence(&self, schema: Oid, name: &str, owner: Oid, ty: PgType) -> Sequence {
        Sequence {
            oid: Oid(0),
            schema,
            name: name.into(),
            owner,
            ty,
            start: self.start,
            increment: self.increment,
            min: self.min,
            max: self.max,
            cache: self.cache,
            cycle: self.cycle,
            owned_by: None,
            acl: None,
        }
    }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The options of an identity column, which `sqlparser` reads.
pub(super) fn options_of(options: Option<&[ast::SequenceOptions]>) -> SqlResult<Vec<SequenceOption>> {
    options.unwrap_or_default().iter().map(option_of).collect()
}

fn option_of(option: &ast::SequenceOptions) -> SqlResult<SequenceOption> {
    let number = |expr: &ast::Expr| {
        let text = expr.to_string().replace(' ', "");
        text.parse::<i64>().map_err(|_| {
            let message = format!("value \"{text}\" is out of range for type bigint");
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
        })
    };
    Ok(match option {
        ast::SequenceOptions::IncrementBy(by, _) => SequenceOption::Increment(number(by)?),
        ast::SequenceOptions::MinValue(value) => SequenceOption::Min(value.as_ref().map(number).transpose()?),
        ast::SequenceOptions::MaxValue(value) => SequenceOption::Max(value.as_ref().map(number).transpose()?),
        ast::SequenceOptions::StartWith(value, _) => SequenceOption::Start(number(value)?),
        ast::SequenceOptions::Cache(value) => SequenceOption::Cache(number(value)?),
        // The node tells whether NO was written.
        ast::SequenceOptions::Cycle(no) => SequenceOption::Cycle(!no),
    })
}

/// Runs a CREATE SEQUENCE.
pub(crate) fn create_sequence(
    session: &mut Session,
    home: &mut Home<'_>,
    create: &CreateSequence,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "CREATE SEQUENCE";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    let (schema, name) = split_parts(create.name.clone())?;
    let schema = names.creation_schema(session, schema.as_deref())?;
    if create.if_not_exists && names.catalog.relation_in(schema, &name).is_some() {
        let message = format!("relation \"{name}\" already exists, skipping");
        notice(session, SqlState::DUPLICATE_TABLE, message, out);
        return Ok(TAG.into());
    }
    let ty = sequence_type(&names, create.ty.as_ref())?.unwrap_or(PgType::Int8);
    let bounds = Bounds::with(ty, &create.options)?;
    let mut sequence = bounds.sequence(schema, &name, session.role(), ty);
    if let Some(owned) = owned_by(&create.options) {
        sequence.owned_by = owner_column(&names, owned, schema, session.role())?;
    }
    session.ddl(home, |ddl| Ok(ddl.create_sequence(sequence)?))?;
    Ok(TAG.into())
}

/// Errors: 22023 unless it is an integer.
fn sequence_type(names: &Names, ty: Option<&ast::DataType>) -> SqlResult<Option<PgType>> {
    match ty.map(|ty| names.type_of(ty)).transpose()? {
        None => Ok(None),
        Some((ty @ (PgType::Int2 | PgType::Int4 | PgType::Int8), _)) => Ok(Some(ty)),
        Some(_) => Err(invalid("sequence type must be smallint, integer, or bigint")),
    }
}

/// Runs an ALTER SEQUENCE with options.
pub(crate) fn alter_sequence(
    session: &mut Session,
    home: &mut Home<'_>,
    alter: &AlterSequence,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "ALTER SEQUENCE";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    let (schema, name) = split_parts(alter.name.clone())?;
    let old = match names.catalog.find_relation(schema.as_deref(), &name, &names.path) {
        Some(Relation::Sequence(sequence)) => (**sequence).clone(),
        Some(_) => {
            let message = format!("\"{name}\" is not a sequence");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
        }
        None if alter.if_exists => {
            skip_missing(session, "relation", &name, out);
            return Ok(TAG.into());
        }
        None => return Err(missing("relation", &name).into()),
    };
    session.check_owner(&names.catalog, old.owner, "sequence", &name)?;
    let ty = sequence_type(&names, alter.ty.as_ref())?;
    let mut new = altered(session, home, &old, ty, &alter.options)?;
    let restart = restart_value(&alter.options, new.start);
    new.owned_by = match owned_by(&alter.options) {
        None => old.owned_by,
        Some(owned) => {
            refuse_identity(&names, &old)?;
            owner_column(&names, owned, old.schema, old.owner)?
        }
    };
    session.ddl(home, |ddl| {
        ddl.alter_sequence(new);
        if let Some(value) = restart {
            ddl.restart_sequence(old.oid, value);
        }
        Ok(())
    })?;
    Ok(TAG.into())
}

/// A sequence with options, and a type, in place of its own.
///
/// # Errors
/// 22023 where they contradict each other, or the sequence is at a value beyond them; 42601 for an option given twice.
pub(super) fn altered(
    session: &mut Session,
    home: &mut Home<'_>,
    old: &Sequence,
    ty: Option<PgType>,
    options: &[SequenceOption],
) -> Result<Sequence, Pause> {
    let mut before = Bounds::of_sequence(old);
    let ty = ty.unwrap_or(old.ty);
    // A bound that was the type's is the new type's.
    let (lowest, highest) = range_of(old.ty);
    let (new_lowest, new_highest) = range_of(ty);
    if before.max == highest {
        before.max = new_highest;
    }
    if before.min == lowest {
        before.min = new_lowest;
    }
    let mut bounds = before;
    if let Some(start) = bounds.apply(ty, options, Some(&before))? {
        bounds.start = start;
    }
    bounds.check(ty)?;
    let value = match restart_value(options, bounds.start) {
        Some(value) => value,
        None => session.with_view(home, |view| view.sequence_value(old.oid))?.last_value,
    };
    if value < bounds.min {
        let message = format!("RESTART value ({value}) cannot be less than MINVALUE ({})", bounds.min);
        return Err(invalid(message).into());
    }
    if value > bounds.max {
        let message = format!("RESTART value ({value}) cannot be greater than MAXVALUE ({})", bounds.max);
        return Err(invalid(message).into());
    }
    let mut new = bounds.sequence(old.schema, &old.name, old.owner, ty);
    new.oid = old.oid;
    new.acl = old.acl.clone();
    new.owned_by = old.owned_by;
    Ok(new)
}

/// Where RESTART begins; `start` where it does not say.
fn restart_value(options: &[SequenceOption], start: i64) -> Option<i64> {
    options.iter().find_map(|option| match option {
        SequenceOption::Restart(value) => Some(value.unwrap_or(start)),
        _ => None,
    })
}

fn owned_by(options: &[SequenceOption]) -> Option<Option<&Vec<String>>> {
    options.iter().find_map(|option| match option {
        SequenceOption::OwnedBy(owned) => Some(owned.as_ref()),
        _ => None,
    })
}

/// An identity column keeps its sequence.
fn refuse_identity(names: &Names, sequence: &Sequence) -> SqlResult<()> {
    let Some((table, column)) = sequence.owned_by else { return Ok(()) };
    let identity = names.catalog.table(table).is_some_and(|table| table.columns[column].identity.is_some());
    if identity {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cannot change ownership of identity sequence \"{}\"", sequence.name),
        ));
    }
    Ok(())
}

/// The column of OWNED BY.
fn owner_column(
    names: &Names,
    owned: Option<&Vec<String>>,
    schema: Oid,
    owner: Oid,
) -> SqlResult<Option<(Oid, usize)>> {
    let Some(parts) = owned else { return Ok(None) };
    let [table, column] = match parts.as_slice() {
        [.., _] if parts.len() >= 2 => {
            [parts[..parts.len() - 1].to_vec(), vec![parts[parts.len() - 1].clone()]]
        }
        _ => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
        }
    };
    let (table_schema, name) = split_parts(table)?;
    names.require_schema(table_schema.as_deref())?;
    let table = names.catalog.resolve_table(table_schema.as_deref(), &name, &names.path)?;
    if table.owner != owner {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "sequence must have same owner as table it is linked to",
        ));
    }
    if table.schema != schema {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "sequence must be in same schema as table it is linked to",
        ));
    }
    Ok(Some((table.oid, column_of(table, &column[0])?)))
}
