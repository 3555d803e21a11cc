//! `pg_proc`: the functions that are here, under PostgreSQL's numbers.
//!
//! `functions.txt` has a function a line: oid, name, kind, volatility, whether strict, whether it yields rows, the variadic
//! type, the type of its result, and those of its arguments. It lists what clients look up; it does not decide what can be called.

use std::sync::LazyLock;

use types::{PgType, TypeMod};

/// A function of the system's; types by their oids.
#[derive(Debug)]
pub struct SystemFunction {
    pub oid: u32,
    pub name: &'static str,
    /// As `pg_proc.prokind` and `provolatile` have them.
    pub kind: u8,
    pub volatility: u8,
    pub strict: bool,
    /// Whether it yields rows.
    pub rows: bool,
    /// The element type of a variadic last argument, else 0.
    pub variadic: u32,
    pub result: u32,
    pub args: Vec<u32>,
}

static FUNCTIONS: LazyLock<Vec<SystemFunction>> =
    LazyLock::new(|| include_str!("functions.txt").lines().map(parse).collect());

fn parse(line: &'static str) -> SystemFunction {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("a function has nine fields");
    let number = |word: &str| word.parse().expect("an oid");
    SystemFunction {
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

/// All of them.
pub fn functions() -> &'static [SystemFunction] {
    &FUNCTIONS
}

/// The function of that number.
pub fn function_by_oid(number: u32) -> Option<&'static SystemFunction> {
    FUNCTIONS.iter().find(|p| p.oid == number)
}

/// The only function of that name; `None` when there is none, or several.
pub fn only_function_named(name: &str) -> Option<&'static SystemFunction> {
    let mut found = FUNCTIONS.iter().filter(|p| p.name == name);
    found.next().filter(|_| found.next().is_none())
}

/// The input, output, receive and send functions of the type with that internal name: `int4in`, but `date_in`.
pub fn functions_of_type(name: &str) -> [u32; 4] {
    ["in", "out", "recv", "send"].map(|what| {
        let known = |joint: &str| only_function_named(&format!("{name}{joint}{what}")).map(|p| p.oid);
        known("").or_else(|| known("_")).unwrap_or(0)
    })
}

impl SystemFunction {
    /// As `pg_get_function_result` has it.
    pub fn result_text(&self) -> String {
        let name = type_text(self.result);
        if self.rows { format!("SETOF {name}") } else { name }
    }

    /// As `pg_get_function_arguments` has it.
    pub fn arguments_text(&self) -> String {
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

/// The types that only stand in signatures, by their names as SQL writes them.
static PSEUDO_TYPES: [(u32, &str); 13] = [
    (2249, "record"),
    (2275, "cstring"),
    (2276, "\"any\""),
    (2277, "anyarray"),
    (2279, "trigger"),
    (2280, "language_handler"),
    (2281, "internal"),
    (2283, "anyelement"),
    (2776, "anynonarray"),
    (3500, "anyenum"),
    (3838, "event_trigger"),
    (5077, "anycompatible"),
    (5078, "anycompatiblearray"),
];

/// The type of that number, if it only stands in signatures.
pub fn pseudo_type(number: u32) -> Option<&'static str> {
    PSEUDO_TYPES.iter().find(|(oid, _)| *oid == number).map(|(_, name)| *name)
}

/// The one of that name, which has lost its quotes.
pub fn pseudo_type_named(name: &str) -> Option<u32> {
    PSEUDO_TYPES.iter().find(|(_, known)| known.trim_matches('"') == name).map(|(oid, _)| *oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_input_and_output_functions() {
        for ty in PgType::SCALARS {
            assert!(!functions_of_type(ty.internal_name()).contains(&0), "{}", ty.internal_name());
        }
        assert_eq!(functions_of_type("array"), [750, 751, 2400, 2401]);
        assert_eq!(
            function_by_oid(750).map(SystemFunction::arguments_text).as_deref(),
            Some("cstring, oid, integer")
        );
        assert_eq!(only_function_named("generate_subscripts").map(|p| p.oid), None);
    }
}
