//! The name of an output column without an alias.

use sqlparser::ast::{self, Expr};

use super::bind::fold_ident;

/// The name PostgreSQL gives an output column without an alias.
pub fn output_name(expr: &Expr) -> String {
    name_of(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// How much a name is worth: one of a type or of CASE gives way to that of a cast around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    Weak,
    Strong,
}

/// A name, and its worth; PostgreSQL's `FigureColname`.
fn name_of(expr: &Expr) -> Option<(String, Worth)> {
    let strong = |name: &str| Some((name.to_owned(), Worth::Strong));
    let weak = |name: Option<String>| name.map(|name| (name, Worth::Weak));
    match expr {
        Expr::Identifier(ident) => Some((fold_ident(ident), Worth::Strong)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| (fold_ident(part), Worth::Strong)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        Expr::Function(function) => Some((fold_ident(function.name.0.last()?.as_ident()?), Worth::Strong)),
        Expr::Cast { expr, data_type, .. } => {
            name_of(expr).filter(|(_, worth)| *worth == Worth::Strong).or_else(|| weak(type_label(data_type)))
        }
        Expr::TypedString(typed) => weak(type_label(&typed.data_type)),
        Expr::Interval(_) => weak(Some("interval".to_owned())),
        Expr::Case { else_result, .. } => else_result
            .as_ref()
            .and_then(|e| name_of(e))
            .filter(|(_, worth)| *worth == Worth::Strong)
            .or_else(|| weak(Some("case".to_owned()))),
        Expr::Exists { .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => strong("overlaps"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(Expr::Identifier(ident)) => Some(fold_ident(ident)),
                _ => None,
            });
            field.map(|name| (name, Worth::Strong)).or_else(|| name_of(root))
        }
        Expr::Tuple(_) => strong("row"),
        Expr::Subquery(query) => {
            let mut body = &*query.body;
            while let ast::SetExpr::SetOperation { left, .. } = body {
                body = left;
            }
            let name = match body {
                ast::SetExpr::Select(select) => match select.projection.first()? {
                    ast::SelectItem::UnnamedExpr(inner) => output_name(inner),
                    ast::SelectItem::ExprWithAlias { alias, .. } => fold_ident(alias),
                    _ => return None,
                },
                ast::SetExpr::Values(_) => "column1".to_owned(),
                _ => return None,
            };
            Some((name, Worth::Strong))
        }
        _ => None,
    }
}

fn type_label(ty: &ast::DataType) -> Option<String> {
    use types::{FormatContext, PgType};
    let format = FormatContext::default();
    let params = super::ParamTypes::none();
    let ctx = super::BindContext::simple(&params, &format, "a type name");
    match super::bind_type(ty, &ctx) {
        Ok((PgType::Array(element), _)) => Some(PgType::from(element).internal_name().to_owned()),
        Ok((ty, _)) => Some(ty.internal_name().to_owned()),
        Err(_) => match ty {
            ast::DataType::Custom(name, _) => name.0.last()?.as_ident().map(fold_ident),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_as_in_postgresql() {
        for (sql, name) in NAMES {
            let parsed = crate::parse::parse_expression(sql).expect(sql);
            assert_eq!(output_name(&parsed), *name, "{sql}");
        }
    }

    /// What PostgreSQL 15 answers.
    const NAMES: &[(&str, &str)] = &[
        ("1", "?column?"),
        ("1::int", "int4"),
        ("1::int::text", "text"),
        ("'a'::text", "text"),
        ("date '2024-01-01'", "date"),
        ("interval '1 day'", "interval"),
        ("timestamp with time zone '2024-01-01'", "timestamptz"),
        ("'{1}'::int[]", "int4"),
        ("case when true then 1 end", "case"),
        ("case when true then 1 else 2 end", "case"),
        ("case when true then 1 else abs(2) end", "abs"),
        ("case when true then 1 else 2::int end", "case"),
        ("(case when true then 1 end)::text", "text"),
        ("(case when true then 1 else abs(2) end)::text", "abs"),
        ("abs(1)::text", "abs"),
        ("abs(1)", "abs"),
        ("coalesce(1,2)", "coalesce"),
        ("nullif(1,2)", "nullif"),
        ("greatest(1,2)", "greatest"),
        ("(array[1,2])[1]", "array"),
        ("array[1,2]", "array"),
        ("(array[1,2]::int[])[1]", "array"),
        ("row(1,2) is null", "?column?"),
        ("exists (select 1)", "exists"),
        ("(select 1)", "?column?"),
        ("(select 1)::text", "?column?"),
        ("(select 1 as x)", "x"),
        ("(select abs(1))", "abs"),
        ("(select 1 as x)::text", "x"),
        ("array(select 1)", "array"),
        ("true", "?column?"),
        ("true::text", "text"),
        ("null", "?column?"),
        ("null::int", "int4"),
        ("-1", "?column?"),
        ("1 + 1", "?column?"),
        ("(1 + 1)::int", "int4"),
        ("not true", "?column?"),
        ("current_user", "current_user"),
        ("user", "user"),
        ("current_date", "current_date"),
        ("current_timestamp(0)", "current_timestamp"),
        ("localtime", "localtime"),
        ("session_user", "session_user"),
        ("current_schema", "current_schema"),
        ("extract(year from date '2024-01-01')", "extract"),
        ("position('a' in 'b')", "position"),
        ("substring('abc' from 1)", "substring"),
        ("overlay('abc' placing 'x' from 1)", "overlay"),
        ("trim('x')", "btrim"),
        ("trim(leading from 'x')", "ltrim"),
        ("trim(trailing 'x' from 'x')", "rtrim"),
        ("timestamp '2024-01-01' at time zone 'UTC'", "timezone"),
        ("ceil(1.5)", "ceil"),
        ("floor(1.5)", "floor"),
        ("'a' like 'b'", "?column?"),
        (
            "(date '2024-01-01', date '2024-01-02') overlaps (date '2024-01-01', date '2024-01-02')",
            "overlaps",
        ),
        ("1 between 0 and 2", "?column?"),
        ("1 in (1,2)", "?column?"),
        ("cast(1 as varchar(3))", "varchar"),
        ("cast(1 as numeric(5,2))", "numeric"),
        ("cast(1 as bigint)", "int8"),
        ("cast(1 as real)", "float4"),
        ("'x'::char(3)", "bpchar"),
        ("'2024-01-01'::timestamp", "timestamp"),
        ("'12:00'::time", "time"),
        ("interval(3) '1 day'", "interval"),
        ("'a'::name", "name"),
        ("'1'::smallint", "int2"),
        ("'1'::double precision", "float8"),
        ("current_setting('x', true)", "current_setting"),
        (r#"('{"a":1}'::jsonb)['a']"#, "jsonb"),
        (r#"'{"a":1}'::jsonb -> 'a'"#, "?column?"),
    ];
}
