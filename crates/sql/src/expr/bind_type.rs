//! Type names.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, DataType};
use types::datetime::interval_fields::IntervalFields;
use types::{PgType, TypeMod};

use super::bind::fold_ident;
use super::bind_context::BindContext;
use super::bind_operator::names;

/// The type a parsed type name stands for.
///
/// # Errors
/// 42704 for an unknown type; 22023 for a bad modifier; 0A000 for types there are none of here.
pub fn bind_type(ty: &DataType, ctx: &BindContext<'_>) -> SqlResult<(PgType, TypeMod)> {
    use PgType as T;
    let plain = |ty: PgType| Ok((ty, TypeMod::NONE));
    match ty {
        DataType::SmallInt(None) | DataType::Int2(None) => plain(T::Int2),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => plain(T::Int4),
        DataType::BigInt(None) | DataType::Int8(None) => plain(T::Int8),
        DataType::Real | DataType::Float4 => plain(T::Float4),
        DataType::Float8 | DataType::DoublePrecision | DataType::Double(ast::ExactNumberInfo::None) => {
            plain(T::Float8)
        }
        DataType::Float(info) => match info {
            ast::ExactNumberInfo::None => plain(T::Float8),
            ast::ExactNumberInfo::Precision(0) => {
                Err(invalid("precision for type float must be at least 1 bit"))
            }
            ast::ExactNumberInfo::Precision(p) if *p <= 24 => plain(T::Float4),
            ast::ExactNumberInfo::Precision(p) if *p <= 53 => plain(T::Float8),
            _ => Err(invalid("precision for type float must be less than 54 bits")),
        },
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info),
        DataType::Text => plain(T::Text),
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            Ok((T::Varchar, string_length(length.as_ref(), "varchar", TypeMod::NONE)?))
        }
        DataType::Char(length) | DataType::Character(length) => {
            Ok((T::Bpchar, string_length(length.as_ref(), "char", TypeMod::length(1))?))
        }
        DataType::Bool | DataType::Boolean => plain(T::Bool),
        DataType::Bytea => plain(T::Bytea),
        DataType::Date => plain(T::Date),
        DataType::Time(digits, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            Ok((T::Time, precision(*digits)))
        }
        DataType::Time(..) => Err(SqlError::unsupported("the type time with time zone")),
        DataType::Timestamp(digits, zone) => match zone {
            ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone => {
                Ok((T::Timestamp, precision(*digits)))
            }
            ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz => {
                Ok((T::TimestampTz, precision(*digits)))
            }
        },
        DataType::Interval { fields, precision: digits } => {
            let fields = fields.as_ref().map(ToString::to_string);
            let (first, last) = match fields.as_deref().map(|fields| fields.split_once(" TO ").ok_or(fields))
            {
                None => (None, None),
                Some(Ok((first, last))) => (Some(first), Some(last)),
                Some(Err(only)) => (Some(only), None),
            };
            Ok((T::Interval, interval_typmod(first, last, *digits)?))
        }
        DataType::Uuid => plain(T::Uuid),
        DataType::JSON => plain(T::Json),
        DataType::JSONB => plain(T::Jsonb),
        DataType::Regclass => plain(T::Regclass),
        DataType::Array(def) => {
            let element = match def {
                ast::ArrayElemTypeDef::SquareBracket(element, _)
                | ast::ArrayElemTypeDef::AngleBracket(element) => element,
                _ => return Err(SqlError::unsupported(format!("the type {ty}"))),
            };
            let (element, typmod) = bind_type(element, ctx)?;
            // Dimensions do not matter to PostgreSQL's types: int[][] is int[].
            let array = if element.element().is_some() { Some(element) } else { element.array_of() };
            array.map(|array| (array, typmod)).ok_or_else(|| SqlError::unsupported(format!("the type {ty}")))
        }
        DataType::Custom(name, modifiers) => custom(name, modifiers, ctx),
        other => Err(SqlError::unsupported(format!("the type {other}"))),
    }
}

/// As [`bind_type`], of a cast. Numbers of transactions are shown as oids, and what is cast to their type becomes one.
///
/// # Errors
/// Those of [`bind_type`].
pub(super) fn bind_cast_type(ty: &DataType, ctx: &BindContext<'_>) -> SqlResult<(PgType, TypeMod)> {
    if let DataType::Custom(name, modifiers) = ty
        && modifiers.is_empty()
    {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
        let own = parts.strip_prefix(&["pg_catalog".to_owned()]).unwrap_or(&parts);
        if own == ["xid"] {
            return Ok((PgType::Oid, TypeMod::NONE));
        }
    }
    bind_type(ty, ctx)
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn precision(digits: Option<u64>) -> TypeMod {
    // More than six digits are six, with a warning in PostgreSQL.
    digits.map_or(TypeMod::NONE, |digits| TypeMod::precision(digits.min(6) as u8))
}

/// The modifier of an interval with those fields and digits.
///
/// # Errors
/// 42601 for fields that go together in no type.
pub(super) fn interval_typmod(
    first: Option<&str>,
    last: Option<&str>,
    digits: Option<u64>,
) -> SqlResult<TypeMod> {
    let Some(first) = first else { return Ok(precision(digits)) };
    let fields = IntervalFields::between(first, last).ok_or_else(|| {
        SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("syntax error at or near \"{}\"", last.unwrap_or(first)),
        )
    })?;
    Ok(TypeMod::interval(fields, digits.map(|digits| digits.min(6) as u8)))
}

fn numeric(info: &ast::ExactNumberInfo) -> SqlResult<(PgType, TypeMod)> {
    let (precision, scale) = match *info {
        ast::ExactNumberInfo::None => return Ok((PgType::Numeric, TypeMod::NONE)),
        ast::ExactNumberInfo::Precision(precision) => (precision, 0),
        ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=1000).contains(&precision) {
        return Err(invalid(format!("NUMERIC precision {precision} must be between 1 and 1000")));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000")));
    }
    Ok((PgType::Numeric, TypeMod::numeric(precision as u16, scale as i16)))
}

fn string_length(length: Option<&ast::CharacterLength>, name: &str, default: TypeMod) -> SqlResult<TypeMod> {
    match length {
        None => Ok(default),
        Some(ast::CharacterLength::IntegerLength { length, .. }) => {
            bounded_length(i64::try_from(*length).unwrap_or(i64::MAX), name)
        }
        Some(ast::CharacterLength::Max) => Err(SqlError::unsupported("varchar(max)")),
    }
}

fn bounded_length(length: i64, name: &str) -> SqlResult<TypeMod> {
    match length {
        ..1 => Err(invalid(format!("length for type {name} must be at least 1"))),
        1..=10_485_760 => Ok(TypeMod::length(length as u32)),
        _ => Err(invalid(format!("length for type {name} cannot exceed 10485760"))),
    }
}

fn custom(
    name: &ast::ObjectName,
    modifiers: &[String],
    ctx: &BindContext<'_>,
) -> SqlResult<(PgType, TypeMod)> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
    let quoted =
        name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| ident.quote_style.is_some());
    let (schema, own) = match &parts[..] {
        [own] => (None, own.as_str()),
        [schema, own] => (Some(schema.as_str()), own.as_str()),
        _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("improper qualified name: {name}"))),
    };
    let builtin = match schema {
        None | Some("pg_catalog") if own == "char" && quoted => Some(PgType::Char),
        None | Some("pg_catalog") => PgType::from_name(own).filter(|ty| *ty != PgType::Unknown),
        Some(_) => None,
    };
    if let Some(ty) = builtin {
        let modifier = |i: usize| modifiers.get(i).and_then(|m| m.trim().parse::<i64>().ok());
        let typmod = match (ty, modifier(0)) {
            (PgType::Varchar, Some(n)) => bounded_length(n, "varchar")?,
            (PgType::Bpchar, Some(n)) => bounded_length(n, "char")?,
            (PgType::Numeric, Some(p)) => {
                return numeric(&ast::ExactNumberInfo::PrecisionAndScale(p as u64, modifier(1).unwrap_or(0)));
            }
            (PgType::Time | PgType::Timestamp | PgType::TimestampTz | PgType::Interval, Some(digits)) => {
                precision(u64::try_from(digits).ok())
            }
            _ => TypeMod::NONE,
        };
        return Ok((ty, typmod));
    }
    names(ctx).and_then(|names| names.type_by_name(schema, own)).map(|ty| (ty, TypeMod::NONE)).ok_or_else(
        || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", parts.join("."))),
    )
}
