//! Columns of different types in a foreign key: which may be paired, and which value of one stands for which of the other.
//!
//! As in PostgreSQL, a referencing value is compared as it is where the operators of the referenced column's index take both
//! types, and else as the referenced type, to which it is cast unasked. Other pairs are refused when the key is made.

use types::{CastContext, Datum, FormatContext, PgType, TypeMod};

use crate::catalog::Column;

/// How referencing values are compared with referenced ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    /// As they are: a value stands for the one of the other type that equals it.
    Direct,
    /// By a cast to the referenced type.
    Cast,
}

/// Whether a column of the type `referencing` may reference one of the type `referenced`.
pub(crate) fn may_reference(referencing: PgType, referenced: PgType) -> bool {
    comparison(referencing, referenced).is_some()
}

/// Whether at most one referencing value stands for each referenced one, so that an index finds the rows that have it.
pub(crate) fn is_one_to_one(referencing: PgType, referenced: PgType) -> bool {
    let merges = is_float(referenced) || referenced == PgType::Bpchar;
    !merges || comparison(referencing, referenced) != Some(Comparison::Cast)
}

/// The referenced value that `value` stands for; `None` where the referenced column can have none that equals it.
pub(crate) fn referenced_value(
    value: &Datum,
    referencing: &Column,
    referenced: &Column,
    format: Option<&FormatContext>,
) -> Option<Datum> {
    if value.is_null() || is_same(referencing, referenced) {
        return Some(value.clone());
    }
    let cast = fit(value, referencing, referenced, format)?;
    if comparison(referencing.ty, referenced.ty) == Some(Comparison::Cast) {
        return Some(cast);
    }
    // Rounded or cut off on the way, it is another one.
    let back = fit(&cast, referenced, referencing, format)?;
    types::equal(&back, value).then_some(cast)
}

/// The referencing value that stands for `value`, of columns that are [`is_one_to_one`]; `None` where none does.
pub(crate) fn referencing_value(
    value: &Datum,
    referencing: &Column,
    referenced: &Column,
    format: Option<&FormatContext>,
) -> Option<Datum> {
    if value.is_null() || is_same(referencing, referenced) {
        return Some(value.clone());
    }
    let cast = fit(value, referenced, referencing, format)?;
    let stands_for = referenced_value(&cast, referencing, referenced, format)?;
    types::equal(&stands_for, value).then_some(cast)
}

fn comparison(referencing: PgType, referenced: PgType) -> Option<Comparison> {
    let (from, to) = (compared_as(referencing), compared_as(referenced));
    let both = |is: fn(PgType) -> bool| is(from) && is(to);
    if from == to || both(PgType::is_integer) || both(is_float) || both(is_time) || both(is_text) {
        return Some(Comparison::Direct);
    }
    // Arrays are compared as arrays of the very same type.
    let is_cast = from.element().is_none()
        && to.element().is_none()
        && types::cast_allowed(from, to) == Some(CastContext::Implicit);
    is_cast.then_some(Comparison::Cast)
}

/// The type whose operators an index on a column of this one uses.
fn compared_as(ty: PgType) -> PgType {
    match ty {
        PgType::Varchar => PgType::Text,
        ty if ty.is_oid() => PgType::Oid,
        ty => ty,
    }
}

fn is_float(ty: PgType) -> bool {
    matches!(ty, PgType::Float4 | PgType::Float8)
}

fn is_time(ty: PgType) -> bool {
    matches!(ty, PgType::Date | PgType::Timestamp | PgType::TimestampTz)
}

fn is_text(ty: PgType) -> bool {
    matches!(ty, PgType::Text | PgType::Name)
}

/// Whether a value of one column is stored in the other as it is.
fn is_same(a: &Column, b: &Column) -> bool {
    compared_as(a.ty) == compared_as(b.ty) && (a.ty != PgType::Bpchar || a.typmod == b.typmod)
}

/// A value of the column `from` as the column `to` would hold it, if it can. Only a `char(n)` depends on its length: blanks
/// at its end do not count.
fn fit(value: &Datum, from: &Column, to: &Column, format: Option<&FormatContext>) -> Option<Datum> {
    let typmod = if to.ty == PgType::Bpchar { to.typmod } else { TypeMod::NONE };
    let default;
    let format = match format {
        Some(format) => format,
        None => {
            default = FormatContext::default();
            &default
        }
    };
    types::cast(value.clone(), from.ty, to.ty, typmod, CastContext::Assignment, format).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: PgType) -> Column {
        Column::new("c", ty, TypeMod::NONE)
    }

    fn stands_for(value: Datum, from: PgType, to: PgType) -> Option<Datum> {
        referenced_value(&value, &column(from), &column(to), None)
    }

    #[test]
    fn pairs_are_those_of_postgresql() {
        use PgType as T;
        for (from, to) in [
            (T::Int8, T::Int2),
            (T::Int4, T::Numeric),
            (T::Numeric, T::Float8),
            (T::Float8, T::Float4),
            (T::Varchar, T::Text),
            (T::Name, T::Varchar),
            (T::Bpchar, T::Text),
            (T::Text, T::Bpchar),
            (T::Timestamp, T::Date),
            (T::Date, T::TimestampTz),
            (T::Int4, T::Oid),
            (T::Uuid, T::Uuid),
        ] {
            assert!(may_reference(from, to), "{from:?} {to:?}");
        }
        let array = |ty: PgType| ty.array_of().expect("a scalar type");
        for (from, to) in [
            (T::Numeric, T::Int4),
            (T::Float8, T::Int8),
            (T::Float4, T::Numeric),
            (T::Text, T::Int4),
            (T::Int4, T::Text),
            (T::Text, T::Uuid),
            (T::Name, T::Bpchar),
            (T::Text, T::Regclass),
            (T::Interval, T::Time),
            (array(T::Int4), array(T::Int8)),
        ] {
            assert!(!may_reference(from, to), "{from:?} {to:?}");
        }
    }

    #[test]
    fn a_value_stands_for_one_that_equals_it_or_none() {
        use PgType as T;
        assert_eq!(stands_for(Datum::Int8(7), T::Int8, T::Int4), Some(Datum::Int4(7)));
        assert_eq!(stands_for(Datum::Int8(1 << 32), T::Int8, T::Int4), None);
        assert_eq!(stands_for(Datum::Float8(0.5), T::Float8, T::Float4), Some(Datum::Float4(0.5)));
        assert_eq!(stands_for(Datum::Float8(0.1), T::Float8, T::Float4), None);
        let day = 86_400_000_000;
        assert_eq!(stands_for(Datum::Timestamp(day), T::Timestamp, T::Date), Some(Datum::Date(1)));
        assert_eq!(stands_for(Datum::Timestamp(day + 1), T::Timestamp, T::Date), None);
        assert_eq!(stands_for(Datum::text("a  "), T::Bpchar, T::Text), Some(Datum::text("a")));
        // Of keys made when this pair was taken.
        let numeric = |text: &str| Datum::Numeric(text.parse().expect("a number"));
        assert_eq!(stands_for(numeric("1.4"), T::Numeric, T::Int4), None);
        assert_eq!(stands_for(numeric("1.0"), T::Numeric, T::Int4), Some(Datum::Int4(1)));
    }

    #[test]
    fn blanks_at_the_end_of_a_char_do_not_count() {
        let char_of = |n| Column::new("c", PgType::Bpchar, TypeMod::length(n));
        let (three, five) = (char_of(3), char_of(5));
        assert_eq!(
            referenced_value(&Datum::text("a    "), &five, &three, None),
            Some(Datum::text("a  ")),
            "as the shorter one holds it"
        );
        assert_eq!(referenced_value(&Datum::text("abcd "), &five, &three, None), None);
        let text = column(PgType::Text);
        assert_eq!(referencing_value(&Datum::text("a"), &three, &text, None), Some(Datum::text("a  ")));
        assert_eq!(referencing_value(&Datum::text("a "), &three, &text, None), None, "no char is cast to it");
    }

    #[test]
    fn several_values_may_stand_for_one_float_or_char() {
        use PgType as T;
        assert!(!is_one_to_one(T::Numeric, T::Float8) && !is_one_to_one(T::Text, T::Bpchar));
        assert!(is_one_to_one(T::Float8, T::Float4) && is_one_to_one(T::Bpchar, T::Text));
        assert!(is_one_to_one(T::Int8, T::Int4) && is_one_to_one(T::Int4, T::Numeric));
    }
}
