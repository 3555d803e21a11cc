//! `json_to_record`, `json_to_recordset` and jsonb's of these names, which stand in FROM with a list of columns: in their place comes a query that reads each
//! column out of its field.
//!
//! A field's text is read as its column's type, as PostgreSQL's function does; a field of json itself is taken as it is, and null is NULL for it too.

use std::ops::ControlFlow;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, ArrayElemTypeDef, DataType, Expr, TableFactor, Visitor, VisitorMut};

use super::parse_query;
use crate::expr::fold_ident;

/// Columns of a list, as PostgreSQL's `MaxTupleAttributeNumber`.
const COLUMNS_MAX: usize = 1_664;

/// The query in the place of `factor`, if that is a call of one of the functions.
///
/// # Errors
/// 42601 without the list of columns, 54011 for too many of them.
pub(super) fn put_query(factor: &mut TableFactor) -> SqlResult<()> {
    let query = match &*factor {
        TableFactor::Table { name, args: Some(args), with_ordinality, alias, .. } => {
            query_of(name, &args.args, *with_ordinality, alias.as_ref())?
        }
        TableFactor::Function { name, args, with_ordinality, alias, .. } => {
            query_of(name, args, *with_ordinality, alias.as_ref())?
        }
        _ => None,
    };
    if let Some(query) = query {
        *factor = query;
    }
    Ok(())
}

/// The type of what a function reads, and whether that is an array of records.
fn reads(name: &ast::ObjectName) -> Option<(&'static str, bool)> {
    let function = match &name.0[..] {
        [function] => function,
        [schema, function] if fold_ident(schema.as_ident()?) == "pg_catalog" => function,
        _ => return None,
    };
    Some(match fold_ident(function.as_ident()?).as_str() {
        "json_to_record" => ("json", false),
        "json_to_recordset" => ("json", true),
        "jsonb_to_record" => ("jsonb", false),
        "jsonb_to_recordset" => ("jsonb", true),
        _ => return None,
    })
}

fn query_of(
    name: &ast::ObjectName,
    args: &[ast::FunctionArg],
    with_ordinality: bool,
    alias: Option<&ast::TableAlias>,
) -> SqlResult<Option<TableFactor>> {
    let Some((json, is_set)) = reads(name) else { return Ok(None) };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))] = args else { return Ok(None) };
    let syntax = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message);
    let Some(alias) = alias.filter(|alias| !alias.columns.is_empty()) else {
        return Err(no_list());
    };
    if with_ordinality {
        return Err(syntax("WITH ORDINALITY cannot be used with a column definition list"));
    }
    if alias.columns.len() > COLUMNS_MAX {
        let message = format!("column definition lists can have at most {COLUMNS_MAX} entries");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    let (mut items, mut types) = (Vec::new(), Vec::new());
    for column in &alias.columns {
        let ty = column.data_type.as_ref().ok_or_else(no_list)?;
        let name = fold_ident(&column.name);
        let key = name.replace('\'', "''");
        let field = field(json, &key, ty);
        items.push(format!("CAST({field} AS text) AS \"{}\"", name.replace('"', "\"\"")));
        types.push(read_as(ty));
    }
    let argument = format!("CAST(NULL AS {json})");
    let from = match is_set {
        true => {
            format!(
                "SELECT \"record of {json}_to_recordset\"(v) AS e FROM {json}_array_elements({argument}) AS v (v)"
            )
        }
        false => format!("SELECT \"record of {json}_to_record\"({argument}) AS e"),
    };
    let mut query = parse_query(&format!("SELECT {} FROM ({from}) AS e", items.join(", ")))?;
    let ast::SetExpr::Select(select) = &mut *query.body else {
        return Err(SqlError::internal("a query of fields that is no SELECT"));
    };
    for (item, ty) in select.projection.iter_mut().zip(types) {
        if let ast::SelectItem::ExprWithAlias { expr: Expr::Cast { data_type, .. }, .. } = item {
            *data_type = ty;
        }
    }
    let _ = ast::VisitMut::visit(&mut select.from, &mut Argument(Some(value.clone())));
    let lateral = ast::Visit::visit(value, &mut Names).is_break();
    let mut alias = alias.clone();
    alias.columns.iter_mut().for_each(|column| column.data_type = None);
    Ok(Some(TableFactor::Derived { lateral, subquery: Box::new(query), alias: Some(alias), sample: None }))
}

fn no_list() -> SqlError {
    let message = "a column definition list is required for functions returning \"record\"";
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// What a column is made of: its field's text, or texts of the elements of an array, which alone has the order of `n`. Those of json are json's.
fn field(json: &str, key: &str, ty: &DataType) -> String {
    let own = format!("e -> '{key}'");
    let of_json = |value: &str| format!("NULLIF(CAST({value} AS text), 'null')");
    match ty {
        DataType::JSON | DataType::JSONB => of_json(&own),
        DataType::Array(of) => {
            let (value, elements) = match element(of) {
                Some(DataType::JSON | DataType::JSONB) => (of_json("v"), "elements"),
                _ => ("v".to_owned(), "elements_text"),
            };
            let is_array = format!("CASE {json}_typeof({own}) WHEN 'array' THEN");
            // Whoever works out all of a CASE finds nothing wrong in here.
            let elements =
                format!("{json}_array_{elements}({is_array} {own} END) WITH ORDINALITY AS v (v, n)");
            let array = format!("ARRAY(SELECT {value} FROM {elements} ORDER BY n)");
            format!("{is_array} {array} ELSE CAST(e ->> '{key}' AS text[]) END")
        }
        _ => format!("e ->> '{key}'"),
    }
}

fn element(of: &ArrayElemTypeDef) -> Option<&DataType> {
    match of {
        ArrayElemTypeDef::SquareBracket(element, _) => Some(&**element),
        _ => None,
    }
}

/// The type by which a column is read. A cast would cut what is too long for a text; so these have no length.
fn read_as(ty: &DataType) -> DataType {
    match ty {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, len)) => {
            DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(read_as(element)), *len))
        }
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => {
            DataType::Varchar(None)
        }
        DataType::Char(_) | DataType::Character(_) => {
            DataType::Custom(ast::ObjectName::from(vec![ast::Ident::new("bpchar")]), Vec::new())
        }
        ty => ty.clone(),
    }
}

/// Puts the argument into the first cast.
struct Argument(Option<Expr>);

impl VisitorMut for Argument {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: operand, .. } = expr
            && let Some(value) = self.0.take()
        {
            **operand = value;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Stops where an expression may name a column of what stands before it in FROM.
struct Names;

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::SqlState;

    use crate::session::testing::Bench;

    #[test]
    fn records_of_json_have_the_columns_of_their_list() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE t (id int PRIMARY KEY, v varchar(5), n numeric(5, 2), d jsonb); CREATE TYPE mood AS ENUM ('sad')",
        );
        let rows =
            r#"[{"id": 1, "v": "one", "n": 1.005, "d": {"a": [1]}}, {"id": "2", "d": null, "more": true}]"#;
        let insert = format!(
            "INSERT INTO t SELECT * FROM jsonb_to_recordset('{rows}') AS x (id int, v varchar(5), n numeric(5, 2), d jsonb)"
        );
        bench.run(&mut session, &insert);
        assert_eq!(
            bench.run(&mut session, "SELECT * FROM t ORDER BY id").lines(),
            [r#"1|one|1.01|{"a": [1]}"#, "2|||"]
        );
        bench.run(
            &mut session,
            r#"UPDATE t SET v = x.v FROM json_to_recordset('[{"id": 2, "v": "two"}]') AS x (id int, v text) WHERE t.id = x.id"#,
        );
        for (sql, lines) in [
            ("SELECT v FROM t ORDER BY id", &["one", "two"][..]),
            (
                "SELECT t.id, x.a FROM t, jsonb_to_record(t.d) AS x (a jsonb) ORDER BY id",
                &["1|[1]", "2|"][..],
            ),
            (
                r#"SELECT x."A b", m, o FROM jsonb_to_record('{"A b": "x''y", "m": "sad", "o": {"k": 1}}') x ("A b" text, m mood, o text)"#,
                &[r#"x'y|sad|{"k": 1}"#][..],
            ),
            (
                r#"SELECT a, t, j, s FROM json_to_record('{"a": [3, null, 1], "t": ["x y", "z"], "j": [{"k": 1}, null], "s": "{1,2}"}')
                   AS x (a int[], t varchar(3)[], j jsonb[], s int[], n int[])"#,
                &[r#"{3,NULL,1}|{"x y",z}|{"{\"k\": 1}",NULL}|{1,2}"#][..],
            ),
            (r#"SELECT a, n FROM jsonb_to_record('{"a": []}') AS x (a int[], n text[])"#, &["{}|"][..]),
            ("SELECT count(*) FROM jsonb_to_recordset(NULL) AS x (a int)", &["0"][..]),
            ("SELECT a FROM json_to_record('{\"a\": null}') AS x (a json)", &[""][..]),
        ] {
            assert_eq!(bench.run(&mut session, sql).lines(), lines, "{sql}");
        }
    }

    #[test]
    fn records_without_columns_are_refused() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        for (from, state) in [
            ("json_to_recordset('[]')", SqlState::SYNTAX_ERROR),
            ("json_to_recordset('[]') AS x", SqlState::SYNTAX_ERROR),
            ("json_to_recordset('[]') AS x (a)", SqlState::SYNTAX_ERROR),
            (r#"jsonb_to_record('{"a": 5}') AS x (a int[])"#, SqlState::INVALID_TEXT_REPRESENTATION),
            ("jsonb_to_recordset('{}') AS x (a int)", SqlState::INVALID_PARAMETER_VALUE),
            (r#"json_to_recordset('[{"a": 1}, 5]') AS x (a int)"#, SqlState::INVALID_PARAMETER_VALUE),
            ("jsonb_to_record('[]') AS x (a int)", SqlState::INVALID_PARAMETER_VALUE),
            (r#"jsonb_to_record('{"a": "x"}') AS x (a int)"#, SqlState::INVALID_TEXT_REPRESENTATION),
        ] {
            let sql = format!("SELECT * FROM {from}");
            assert_eq!(bench.fail(&mut session, &sql).state(), state, "{sql}");
        }
    }
}
