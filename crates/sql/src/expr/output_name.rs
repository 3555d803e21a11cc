//! The name of an output column without an alias.

use sqlparser::ast::{self, Expr};

use super::bind::fold_ident;

/// The name PostgreSQL gives an output column without an alias.
pub fn output_name(expr: &Expr) -> String {
    name_of(expr).unwrap_or_else(|| "?column?".to_owned())
}

fn name_of(expr: &Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_owned());
    match expr {
        Expr::Identifier(ident) => Some(fold_ident(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold_ident),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        Expr::Function(function) => {
            let name = fold_ident(function.name.0.last()?.as_ident()?);
            Some(if name == "user" { "current_user".to_owned() } else { name })
        }
        Expr::Cast { expr, data_type, .. } => name_of(expr).or_else(|| type_label(data_type)),
        Expr::TypedString(typed) => type_label(&typed.data_type),
        Expr::Interval(_) => fixed("interval"),
        Expr::Case { else_result, .. } => {
            else_result.as_ref().and_then(|e| name_of(e)).or_else(|| fixed("case"))
        }
        Expr::Exists { .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::Position { .. } => fixed("position"),
        Expr::Substring { .. } => fixed("substring"),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        Expr::Trim { trim_where, .. } => fixed(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => fixed("bool"),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(Expr::Identifier(ident)) => Some(fold_ident(ident)),
                _ => None,
            });
            field.or_else(|| name_of(root))
        }
        Expr::Tuple(_) => fixed("row"),
        Expr::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.first()? {
                ast::SelectItem::UnnamedExpr(inner) => name_of(inner),
                ast::SelectItem::ExprWithAlias { alias, .. } => Some(fold_ident(alias)),
                _ => None,
            },
            _ => None,
        },
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
