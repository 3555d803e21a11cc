//! Identifiers as SQL writes them.

/// `name` as SQL would write it: quoted unless it is a plain lower-case identifier and no keyword.
pub fn quote_ident(name: &str) -> String {
    let mut bytes = name.bytes();
    let plain = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && KEYWORDS.binary_search(&name).is_err();
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// PostgreSQL's keywords but for the unreserved ones, in order.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
    "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
    "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
    "dec", "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest",
    "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer",
    "intersect", "interval", "into", "is", "isnull", "join", "lateral", "leading", "least", "left", "like",
    "limit", "localtime", "localtimestamp", "national", "natural", "nchar", "none", "normalize", "not",
    "notnull", "null", "nullif", "numeric", "offset", "on", "only", "or", "order", "out", "outer", "overlaps",
    "overlay", "placing", "position", "precision", "primary", "real", "references", "returning", "right",
    "row", "select", "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric",
    "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim", "true", "union",
    "unique", "user", "using", "values", "varchar", "variadic", "verbose", "when", "where", "window", "with",
    "xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse",
    "xmlpi", "xmlroot", "xmlserialize", "xmltable",
];

/// Those of [`KEYWORDS`] that may be names of functions and types, in order.
#[rustfmt::skip]
const FUNCTION_OR_TYPE: &[&str] = &[
    "authorization", "binary", "collation", "concurrently", "cross", "current_schema", "freeze", "full", "ilike",
    "inner", "is", "isnull", "join", "left", "like", "natural", "notnull", "outer", "overlaps", "right",
    "similar", "tablesample", "verbose",
];

/// Those of [`KEYWORDS`] that may be names of tables and columns, and of no functions or types, in order.
#[rustfmt::skip]
const NO_FUNCTION_OR_TYPE: &[&str] = &[
    "between", "bigint", "bit", "boolean", "char", "character", "coalesce", "dec", "decimal", "exists", "extract",
    "float", "greatest", "grouping", "inout", "int", "integer", "interval", "least", "national", "nchar", "none",
    "normalize", "nullif", "numeric", "out", "overlay", "position", "precision", "real", "row", "setof",
    "smallint", "substring", "time", "timestamp", "treat", "trim", "values", "varchar", "xmlattributes",
    "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot",
    "xmlserialize", "xmltable",
];

/// Those of [`KEYWORDS`] that name an output column only behind AS, in order.
#[rustfmt::skip]
const NO_BARE_LABELS: &[&str] = &[
    "array", "as", "char", "character", "create", "except", "fetch", "for", "from", "grant", "group", "having",
    "intersect", "into", "isnull", "limit", "notnull", "offset", "on", "order", "overlaps", "precision",
    "returning", "to", "union", "where", "window", "with",
];

/// What a keyword may not name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeywordKind {
    NoFunctionOrType,
    /// Functions and types are all that it may name.
    FunctionOrType,
    Reserved,
}

/// PostgreSQL's keywords but for the unreserved ones, in order, and whether each names an output column without AS.
pub fn keywords() -> impl Iterator<Item = (&'static str, KeywordKind, bool)> {
    KEYWORDS.iter().map(|word| {
        let is_of = |list: &[&str]| list.binary_search(word).is_ok();
        let kind = if is_of(FUNCTION_OR_TYPE) {
            KeywordKind::FunctionOrType
        } else if is_of(NO_FUNCTION_OR_TYPE) {
            KeywordKind::NoFunctionOrType
        } else {
            KeywordKind::Reserved
        };
        (*word, kind, !is_of(NO_BARE_LABELS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_quoted() {
        assert!(KEYWORDS.is_sorted());
        for list in [FUNCTION_OR_TYPE, NO_FUNCTION_OR_TYPE, NO_BARE_LABELS] {
            assert!(list.is_sorted());
            assert!(list.iter().all(|word| KEYWORDS.binary_search(word).is_ok()));
        }
        for (name, written) in [
            ("a_1", "a_1"),
            ("_", "_"),
            ("name", "name"),
            ("", "\"\""),
            ("1a", "\"1a\""),
            ("A", "\"A\""),
            ("a$", "\"a$\""),
            ("order", "\"order\""),
            ("values", "\"values\""),
            ("naïve", "\"naïve\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(quote_ident(name), written);
        }
    }
}
