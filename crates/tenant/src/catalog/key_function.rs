//! Functions of a column whose values are keys of an index in place of the column's own. As few as are needed, and each with one meaning for as long
//! as an index has it: the tenant works them out, without a session.

use std::borrow::Cow;

use types::{Datum, PgType};

use super::{IndexColumn, Table};

/// A function of one text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFunction {
    Lower,
    Upper,
}

impl KeyFunction {
    /// The one that SQL calls so.
    pub fn named(name: &str) -> Option<KeyFunction> {
        [KeyFunction::Lower, KeyFunction::Upper].into_iter().find(|function| function.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            KeyFunction::Lower => "lower",
            KeyFunction::Upper => "upper",
        }
    }

    /// Whether it may be had of a column of this type.
    pub fn takes(self, ty: PgType) -> bool {
        matches!(ty, PgType::Text | PgType::Varchar)
    }

    fn of(self, value: &Datum) -> Datum {
        let Datum::Text(text) = value else { return Datum::Null };
        Datum::text(match self {
            KeyFunction::Lower => types::lower(text),
            KeyFunction::Upper => types::upper(text),
        })
    }
}

impl IndexColumn {
    /// The column whose own values are the keys; `None` where they are those of a function.
    pub fn plain(&self) -> Option<usize> {
        self.function.is_none().then_some(self.column)
    }

    /// The key of a row that has this value in the column; NULL for NULL.
    pub(crate) fn key<'v>(&self, value: &'v Datum) -> Cow<'v, Datum> {
        match self.function {
            Some(function) => Cow::Owned(function.of(value)),
            None => Cow::Borrowed(value),
        }
    }
}

impl Table {
    /// What the keys of an index's column are called, `name` being what the column is: `a`, `lower(a)`, `lower((a)::text)`. `pretty` leaves out
    /// brackets that are not needed.
    pub fn key_name(&self, key: &IndexColumn, name: &str, pretty: bool) -> String {
        let Some(function) = key.function else { return name.to_owned() };
        let is_text = self.columns[key.column].ty == PgType::Text;
        let argument = match (is_text, pretty) {
            (true, _) => name.to_owned(),
            (false, true) => format!("{name}::text"),
            (false, false) => format!("({name})::text"),
        };
        format!("{}({argument})", function.name())
    }
}
