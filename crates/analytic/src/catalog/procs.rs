//! `pg_proc`: the functions that are here, under PostgreSQL's numbers.
//!
//! `system_functions.txt` has a function a line: oid, name, kind, volatility, whether strict, whether it yields rows, the variadic
//! type, the type of its result, and those of its arguments. It lists what clients look up; it does not decide what can be called.

use std::sync::LazyLock;

use types::{Datum, PgType, TypeMod};

use super::{Rows, letter, oid, oids, text};

/// A row of `pg_proc`.
pub(crate) struct Proc {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    kind: u8,
    volatility: u8,
    strict: bool,
    rows: bool,
    variadic: u32,
    result: u32,
    args: Vec<u32>,
}

static PROCS: LazyLock<Vec<Proc>> =
    LazyLock::new(|| include_str!("system_functions.txt").lines().map(parse).collect());

fn parse(line: &'static str) -> Proc {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("a function has nine fields");
    let number = |word: &str| word.parse().expect("an oid");
    Proc {
        oid: number(word()),
        name: word(),
        kind: word().as_bytes()[0],
        volatility: word().as_bytes()[0],
        strict: word() == "t",
        rows: word() == "t",
        variadic: number(word()),
        result: number(word()),
        args: match word() {
            "-" => Vec::new(),
            list => list.split(',').map(number).collect(),
        },
    }
}

/// The function of that number.
pub(crate) fn by_oid(number: u32) -> Option<&'static Proc> {
    PROCS.iter().find(|p| p.oid == number)
}

/// The only function of that name; `None` when there is none, or several.
pub(crate) fn only_named(name: &str) -> Option<&'static Proc> {
    let mut found = PROCS.iter().filter(|p| p.name == name);
    found.next().filter(|_| found.next().is_none())
}

/// The input, output, receive and send functions of the type with that internal name: `int4in`, but `date_in`.
pub(super) fn of_type(name: &str) -> [u32; 4] {
    ["in", "out", "recv", "send"].map(|what| {
        let known = |joint: &str| only_named(&format!("{name}{joint}{what}")).map(|p| p.oid);
        known("").or_else(|| known("_")).unwrap_or(0)
    })
}

pub(super) fn fill(out: &mut Rows<'_>) {
    for proc in &*PROCS {
        out.add(vec![
            ("oid", Datum::Oid(proc.oid)),
            ("proname", text(proc.name)),
            ("pronamespace", oid(tenant::catalog::PG_CATALOG)),
            ("proowner", oid(tenant::catalog::OWNER_ROLE)),
            // The language `internal`.
            ("prolang", Datum::Oid(12)),
            ("procost", Datum::Float4(1.0)),
            ("prorows", Datum::Float4(if proc.rows { 1000.0 } else { 0.0 })),
            ("provariadic", Datum::Oid(proc.variadic)),
            ("prokind", letter(proc.kind)),
            ("proisstrict", Datum::Bool(proc.strict)),
            ("proretset", Datum::Bool(proc.rows)),
            ("provolatile", letter(proc.volatility)),
            ("proparallel", letter(b's')),
            ("pronargs", Datum::Int2(proc.args.len() as i16)),
            ("prorettype", Datum::Oid(proc.result)),
            ("proargtypes", oids(proc.args.iter().copied())),
            ("prosrc", text(proc.name)),
        ]);
    }
}

impl Proc {
    /// As `pg_get_function_result` has it.
    pub(super) fn result_text(&self) -> String {
        let name = type_text(self.result);
        if self.rows { format!("SETOF {name}") } else { name }
    }

    /// As `pg_get_function_arguments` has it.
    pub(super) fn arguments_text(&self) -> String {
        let last = self.args.len().wrapping_sub(1);
        let shown = self.args.iter().enumerate().map(|(at, ty)| {
            let word = if self.variadic != 0 && at == last { "VARIADIC " } else { "" };
            format!("{word}{}", type_text(*ty))
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

fn type_text(number: u32) -> String {
    if let Some(name) = pseudo_type(number) {
        return name.to_owned();
    }
    PgType::from_oid(number).map_or_else(|| number.to_string(), |ty| types::format_type(ty, TypeMod::NONE))
}

/// The types that only stand in signatures.
pub(super) fn pseudo_type(number: u32) -> Option<&'static str> {
    Some(match number {
        2275 => "cstring",
        2276 => "\"any\"",
        2277 => "anyarray",
        2281 => "internal",
        2283 => "anyelement",
        2776 => "anynonarray",
        3500 => "anyenum",
        5077 => "anycompatible",
        5078 => "anycompatiblearray",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_input_and_output_functions() {
        for ty in PgType::SCALARS {
            assert!(!of_type(ty.internal_name()).contains(&0), "{}", ty.internal_name());
        }
        assert_eq!(of_type("array"), [750, 751, 2400, 2401]);
        assert_eq!(by_oid(750).map(Proc::arguments_text).as_deref(), Some("cstring, oid, integer"));
        assert_eq!(only_named("generate_subscripts").map(|p| p.oid), None);
    }
}
