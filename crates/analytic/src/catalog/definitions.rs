//! Objects written back as SQL: what `pg_get_constraintdef` and its kin answer.

use std::sync::Arc;

use base::Oid;
use sql::session::{PathNames, qualified_name, relation_name};
use sql::{kept_text, predicate_text};
use tenant::catalog::{
    Catalog, Column, Deferral, Index, IndexColumn, MatchType, ReferentialAction, Relation, RowTest, Table,
};
use types::{PgType, TypeMod, quote_ident};

/// A list of columns: `a, "B"`.
fn columns(table: &Table, positions: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<String> = positions.into_iter().map(|i| quote_ident(&table.columns[i].name)).collect();
    names.join(", ")
}

/// `UNIQUE (a, b)`, `CHECK ((a > 0))`, `FOREIGN KEY (a) REFERENCES p(id) ON DELETE CASCADE`.
/// `table` is the constraint's; `pretty` leaves out the parentheses that only keep a CHECK's expression together.
pub(crate) fn constraint(
    catalog: &Arc<Catalog>,
    path: &[Oid],
    table: &Table,
    oid: Oid,
    pretty: bool,
) -> Option<String> {
    for index in &table.indexes {
        if index.constraint.is_some_and(|c| c.oid == oid) {
            let kind = if index.is_primary() { "PRIMARY KEY" } else { "UNIQUE" };
            let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
            return Some(format!("{kind}{nulls} ({})", columns(table, index.column_positions())));
        }
    }
    if let Some(check) = table.checks.iter().find(|c| c.oid == oid) {
        let expression = kept_text::shown(catalog, path, &check.expression);
        let validity = not_valid(check.validated);
        return Some(if pretty {
            format!("CHECK ({expression}){validity}")
        } else {
            format!("CHECK (({expression})){validity}")
        });
    }
    let key = table.foreign_key(oid)?;
    let parent = catalog.table(key.referenced_table)?;
    let name = relation_name(catalog, path, catalog.relation(parent.oid)?);
    let mut out = format!(
        "FOREIGN KEY ({}) REFERENCES {name}({})",
        columns(table, key.columns.iter().copied()),
        columns(parent, key.referenced_columns.iter().copied())
    );
    if key.match_type == MatchType::Full {
        out += " MATCH FULL";
    }
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if let Some(words) = action_words(action) {
            out += &format!(" ON {event} {words}");
        }
    }
    out += match key.deferral {
        Deferral::NotDeferrable => "",
        Deferral::InitiallyImmediate => " DEFERRABLE",
        Deferral::InitiallyDeferred => " DEFERRABLE INITIALLY DEFERRED",
    };
    out += not_valid(key.validated);
    Some(out)
}

fn not_valid(validated: bool) -> &'static str {
    if validated { "" } else { " NOT VALID" }
}

fn action_words(action: ReferentialAction) -> Option<&'static str> {
    match action {
        ReferentialAction::NoAction => None,
        ReferentialAction::Restrict => Some("RESTRICT"),
        ReferentialAction::Cascade => Some("CASCADE"),
        ReferentialAction::SetNull => Some("SET NULL"),
        ReferentialAction::SetDefault => Some("SET DEFAULT"),
    }
}

/// `pg_constraint.confupdtype` and `confdeltype`.
pub(crate) fn action_letter(action: ReferentialAction) -> u8 {
    match action {
        ReferentialAction::NoAction => b'a',
        ReferentialAction::Restrict => b'r',
        ReferentialAction::Cascade => b'c',
        ReferentialAction::SetNull => b'n',
        ReferentialAction::SetDefault => b'd',
    }
}

/// What an index's keys are called: `a`, `lower(a)`.
pub(crate) fn key(table: &Table, column: &IndexColumn, pretty: bool) -> String {
    table.key_name(column, &quote_ident(&table.columns[column.column].name), pretty)
}

/// A key column with its options: `a DESC NULLS LAST`.
fn key_column(table: &Table, index: &Index, at: usize, pretty: bool) -> String {
    let column = &index.columns[at];
    let mut out = key(table, column, pretty);
    match (column.descending, column.nulls_first) {
        (false, true) => out += " NULLS FIRST",
        (true, true) => out += " DESC",
        (true, false) => out += " DESC NULLS LAST",
        (false, false) => {}
    }
    out
}

/// `CREATE UNIQUE INDEX i ON public.t USING btree (a, b DESC) WHERE (c > 0)`; with `column` (from 1) only that column's definition. `pretty` leaves
/// out brackets that the predicate does not need.
pub(crate) fn index(
    catalog: &Arc<Catalog>,
    path: &[Oid],
    oid: Oid,
    column: i32,
    pretty: bool,
) -> Option<String> {
    let Some(Relation::Index(table, at)) = catalog.relation(oid) else { return None };
    let index = &table.indexes[*at];
    if column > 0 {
        let at = usize::try_from(column - 1).ok()?;
        if let Some(column) = index.columns.get(at) {
            return Some(key(table, column, pretty));
        }
        let included = index.included.get(at - index.columns.len());
        return included.map(|position| quote_ident(&table.columns[*position].name));
    }
    let unique = if index.unique { "UNIQUE " } else { "" };
    let keys: Vec<String> = (0..index.columns.len()).map(|i| key_column(table, index, i, pretty)).collect();
    let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
    let included = match &index.included[..] {
        [] => String::new(),
        included => format!(" INCLUDE ({})", columns(table, included.iter().copied())),
    };
    let predicate = match &index.predicate {
        Some(predicate) => {
            format!(" WHERE {}", predicate_text::shown(catalog, path, table, predicate, pretty))
        }
        None => String::new(),
    };
    Some(format!(
        "CREATE {unique}INDEX {} ON {} USING btree ({}){included}{nulls}{predicate}",
        quote_ident(&index.name),
        qualified_name(catalog, table.schema, &table.name),
        keys.join(", ")
    ))
}

/// The predicate of one of a table's indexes without the brackets that it does not need; `None` for a text that is none.
pub(crate) fn pretty_predicate(
    catalog: &Arc<Catalog>,
    path: &[Oid],
    table: &Table,
    text: &str,
) -> Option<String> {
    let shown =
        |predicate: &RowTest, pretty: bool| predicate_text::shown(catalog, path, table, predicate, pretty);
    let mut predicates = table.indexes.iter().filter_map(|index| index.predicate.as_deref());
    predicates.find(|predicate| shown(predicate, false) == text).map(|predicate| shown(predicate, true))
}

/// The query of a view, with PostgreSQL's final semicolon.
pub(crate) fn view(catalog: &Arc<Catalog>, path: &[Oid], oid: Oid) -> Option<String> {
    catalog.view(oid).map(|view| format!(" {};", kept_text::shown_view(catalog, path, view)))
}

/// A column's default as PostgreSQL shows it: a literal with its type, names by the shortest that the path finds.
pub(crate) fn default(catalog: &Arc<Catalog>, path: &[Oid], column: &Column) -> Option<String> {
    let written = column.default.as_deref()?;
    if is_literal(written) {
        let names = PathNames::new(Arc::clone(catalog), path.to_vec());
        return Some(format!("{written}::{}", types::format_type_in(column.ty, TypeMod::NONE, Some(&names))));
    }
    Some(kept_text::shown(catalog, path, written))
}

/// Whether the whole of `sql` is one plain string literal.
fn is_literal(sql: &str) -> bool {
    let Some(body) = sql.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) else { return false };
    !body.replace("''", "").contains('\'')
}

/// `attstorage` and `typstorage`: where a long value goes.
pub(crate) fn storage(ty: PgType) -> u8 {
    match ty {
        PgType::Numeric => b'm',
        ty if ty.type_len() < 0 && ty.vector_element().is_none() => b'x',
        _ => b'p',
    }
}
