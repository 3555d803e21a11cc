//! Predicates of partial indexes as SQL, in the words and with the brackets of PostgreSQL: read again, they are the same.

use std::sync::Arc;

use base::Oid;
use tenant::catalog::{Blanks, Catalog, Comparison, RowTest, Table};
use types::{Datum, FormatContext, PgType, TypeMod, quote_ident, to_text};

use crate::session::PathNames;

/// A predicate of an index of `table`, types named as a session with this search path names them. `pretty` leaves out the brackets that only keep
/// things together, as `\d` of psql shows it.
pub fn shown(
    catalog: &Arc<Catalog>,
    path: &[Oid],
    table: &Table,
    predicate: &RowTest,
    pretty: bool,
) -> String {
    let names = PathNames::new(Arc::clone(catalog), path.to_vec());
    let format = FormatContext { names: Some(Arc::new(names)), ..FormatContext::default() };
    Printer { table, format, pretty }.test(predicate, Around::Nothing)
}

struct Printer<'a> {
    table: &'a Table,
    format: FormatContext,
    pretty: bool,
}

/// What a condition is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    And,
    Or,
    Not,
}

impl Printer<'_> {
    fn test(&self, test: &RowTest, around: Around) -> String {
        match test {
            RowTest::True(column) => self.column(*column),
            RowTest::IsNull { column, negated } => {
                let not = if *negated { "NOT " } else { "" };
                self.bracketed(format!("{} IS {not}NULL", self.column(*column)), false)
            }
            RowTest::IsBool { column, wanted, negated } => {
                let not = if *negated { "NOT " } else { "" };
                let wanted = if *wanted { "TRUE" } else { "FALSE" };
                self.bracketed(format!("{} IS {not}{wanted}", self.column(*column)), false)
            }
            RowTest::Compare { column, comparison, blanks, constant } => {
                let ty = self.compared_as(*column, *blanks);
                let (left, right) = (self.operand(*column, ty), self.constant(ty, constant));
                self.bracketed(format!("{left} {} {right}", symbol(*comparison)), false)
            }
            RowTest::OneOf { column, blanks, constants } => {
                self.list(*column, self.compared_as(*column, *blanks), ("= ANY", constants), around)
            }
            RowTest::Not(inner) => match &**inner {
                RowTest::OneOf { column, blanks, constants } => {
                    self.list(*column, self.compared_as(*column, *blanks), ("<> ALL", constants), around)
                }
                inner => {
                    self.bracketed(format!("NOT {}", self.test(inner, Around::Not)), around == Around::Not)
                }
            },
            RowTest::And(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.test(part, Around::And)).collect();
                self.bracketed(parts.join(" AND "), around == Around::Not)
            }
            RowTest::Or(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.test(part, Around::Or)).collect();
                self.bracketed(parts.join(" OR "), matches!(around, Around::Not | Around::And))
            }
        }
    }

    /// In brackets, which who wants it pretty has only where they are needed.
    fn bracketed(&self, text: String, is_needed: bool) -> String {
        if self.pretty && !is_needed { text } else { format!("({text})") }
    }

    fn column(&self, column: usize) -> String {
        quote_ident(&self.table.columns[column].name)
    }

    fn cast(&self, text: &str, ty: &str) -> String {
        if self.pretty { format!("{text}::{ty}") } else { format!("({text})::{ty}") }
    }

    /// The type that a column is compared as, but that a `varchar` is text then.
    fn compared_as(&self, column: usize, blanks: Blanks) -> PgType {
        match blanks {
            Blanks::Count => self.table.columns[column].ty,
            Blanks::Ignored => PgType::Bpchar,
        }
    }

    /// A column as it is compared.
    fn operand(&self, column: usize, ty: PgType) -> String {
        match (self.table.columns[column].ty, ty) {
            (_, PgType::Varchar) => self.cast(&self.column(column), "text"),
            (own, PgType::Bpchar) if own != PgType::Bpchar => self.cast(&self.column(column), "bpchar"),
            _ => self.column(column),
        }
    }

    fn list(
        &self,
        column: usize,
        ty: PgType,
        (operator, constants): (&str, &[Datum]),
        around: Around,
    ) -> String {
        let item = |constant: &Datum| match ty {
            PgType::Varchar => self.quoted(constant, PgType::Text, "character varying"),
            PgType::Int8 => match self.constant(ty, constant) {
                quoted if quoted.ends_with("::bigint") => quoted,
                plain => self.cast(&plain, "bigint"),
            },
            _ => self.constant(ty, constant),
        };
        let items: Vec<String> = constants.iter().map(item).collect();
        let array = format!("ARRAY[{}]", items.join(", "));
        let array = match (ty, self.pretty) {
            (PgType::Varchar, true) => format!("{array}::text[]"),
            (PgType::Varchar, false) => format!("({array})::text[]"),
            _ => array,
        };
        // PostgreSQL leaves these out where a list stands alone only.
        let is_needed = around != Around::Nothing;
        self.bracketed(format!("{} {operator} ({array})", self.operand(column, ty)), is_needed)
    }

    /// A constant beside a column that is compared as this type.
    fn constant(&self, ty: PgType, constant: &Datum) -> String {
        match (constant, ty) {
            (Datum::Bool(value), _) => value.to_string(),
            (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_), _) => {
                integer(constant.as_i64().expect("an integer"))
            }
            (Datum::Numeric(_), _) => {
                let text = to_text(constant, PgType::Numeric, &self.format);
                match text.parse::<i64>() {
                    Ok(whole) => self.cast(&integer(whole), "numeric"),
                    Err(_)
                        if text.starts_with(|first: char| first.is_ascii_digit()) && text.contains('.') =>
                    {
                        text
                    }
                    Err(_) => format!("'{text}'::numeric"),
                }
            }
            (Datum::Float4(_) | Datum::Float8(_), _) => {
                let of = if matches!(constant, Datum::Float4(_)) { PgType::Float4 } else { PgType::Float8 };
                let text = to_text(constant, of, &self.format);
                match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
                    true => self.cast(&text, "double precision"),
                    false => format!("'{text}'::double precision"),
                }
            }
            (_, PgType::Varchar) => self.quoted(constant, PgType::Text, "text"),
            // By its other name it would be cut to one character.
            (_, PgType::Bpchar) => self.quoted(constant, ty, "bpchar"),
            _ => {
                let name = types::format_type_in(ty, TypeMod::NONE, self.format.names.as_deref());
                self.quoted(constant, ty, &name)
            }
        }
    }

    fn quoted(&self, constant: &Datum, ty: PgType, name: &str) -> String {
        format!("'{}'::{name}", to_text(constant, ty, &self.format).replace('\'', "''"))
    }
}

/// An integer that is read as the same type again.
fn integer(value: i64) -> String {
    match i32::try_from(value) {
        Ok(0..) => value.to_string(),
        Ok(_) => format!("'{value}'::integer"),
        Err(_) => format!("'{value}'::bigint"),
    }
}

fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}
