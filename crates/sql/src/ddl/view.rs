//! CREATE VIEW.

use std::ops::ControlFlow;

use base::{Oid, SqlError, SqlResult, SqlState};
use rustc_hash::FxHashSet;
use sqlparser::ast::{self, CreateTableOptions, Visit, Visitor};
use tenant::catalog::{Dependency, Relation, ViewColumn, ViewDefinition};
use types::PgType;

use super::grouped_key::grouped_keys;
use super::names::{Names, split};
use super::view_columns;
use crate::expr::fold_ident;
use crate::kept_text;
use crate::parse::{changes_rows, is_change};
use crate::plan::RelationAccess;
use crate::session::{Home, Pause, Reply, Session};

pub(super) fn create(
    session: &mut Session,
    home: &mut Home<'_>,
    create: &ast::CreateView,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let _ = out;
    let ast::CreateView {
        or_alter,
        or_replace,
        materialized,
        secure,
        name,
        name_before_not_exists,
        columns,
        query,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary,
        copy_grants,
        to,
        params,
    } = create;
    if *temporary {
        return Err(SqlError::unsupported("a temporary view").into());
    }
    if *materialized {
        return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW").into());
    }
    if *or_alter
        || *secure
        || *name_before_not_exists
        || *if_not_exists
        || !matches!(options, CreateTableOptions::None)
        || !cluster_by.is_empty()
        || comment.is_some()
        || *with_no_schema_binding
        || *copy_grants
        || to.is_some()
        || params.is_some()
    {
        return Err(SqlError::unsupported("this clause of CREATE VIEW").into());
    }
    if changes_rows(query) || is_change(query) {
        let message = "views must not contain data-modifying statements in WITH";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
    }
    let aliases = columns
        .iter()
        .map(|column| {
            let ast::ViewColumnDef { name, data_type, options } = column;
            if data_type.is_some() || options.is_some() {
                return Err(SqlError::unsupported("a column option in CREATE VIEW"));
            }
            Ok(fold_ident(name))
        })
        .collect::<SqlResult<Vec<String>>>()?;
    let names = session.names(home);
    let (schema, own) = split(name)?;
    let schema = names.creation_schema(session, schema.as_deref())?;
    let old = match names.catalog.relation_in(schema, &own) {
        None => None,
        Some(Relation::View(view)) if *or_replace => Some(view.clone()),
        Some(relation) if *or_replace => {
            let message = format!("\"{}\" is not a view", relation.name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
        }
        Some(_) => {
            let message = format!("relation \"{own}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
        }
    };
    if let Some(old) = &old {
        session.check_owner(&names.catalog, old.owner, "view", &own)?;
    }
    let (fields, accesses) = session.query_fields(home, query)?;
    if aliases.len() > fields.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
    }
    let mut shown: Vec<ViewColumn> = Vec::with_capacity(fields.len());
    for (i, field) in fields.iter().enumerate() {
        let name = aliases.get(i).unwrap_or(&field.name);
        if shown.iter().any(|column| column.name == name.as_str()) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).into());
        }
        let ty = if field.ty == PgType::Unknown { PgType::Text } else { field.ty };
        shown.push(ViewColumn { name: name.as_str().into(), ty, typmod: field.modifier });
    }
    let query = &view_columns::named(query, &names, &own, &shown, &fields, !aliases.is_empty())?;
    let view = ViewDefinition {
        oid: old.as_ref().map_or(Oid(0), |old| old.oid),
        schema,
        name: own.as_str().into(),
        owner: old.as_ref().map_or(session.role(), |old| old.owner),
        sql: kept_text::kept_query(&names.catalog, &names.path, query).into(),
        columns: shown,
        depends_on: dependencies(&names, query, &accesses),
        search_path: names.path.clone(),
        acl: old.as_ref().and_then(|old| old.acl.clone()),
    };
    session.ddl(home, |ddl| {
        if old.is_some() {
            ddl.replace_view(view)?
        } else {
            ddl.create_view(view).map(drop)?
        }
        Ok(())
    })
}

/// What a query needs to exist: the relations it names itself, and of their columns those whose names it mentions (all, where
/// it says `*`); sequences and types that it names; primary keys that its GROUP BY needs. A name that only looks like a column's makes the view depend on more than it
/// must, never on less.
fn dependencies(names: &Names, query: &ast::Query, accesses: &[RelationAccess]) -> Vec<Dependency> {
    let mut mentioned = Mentioned::default();
    let _ = query.visit(&mut mentioned);
    let catalog = &names.catalog;
    let named = kept_text::named_in(query, catalog, &names.path);
    let keys = grouped_keys(query, names);
    let whole = named.into_iter().chain(keys);
    let mut found: Vec<_> = whole.map(|object| Dependency { object, column: None }).collect();
    for access in accesses.iter().filter(|access| access.as_role.is_none()) {
        let object = access.relation;
        found.push(Dependency { object, column: None });
        let columns: Vec<&str> = match catalog.relation(object) {
            Some(Relation::Table(table)) => {
                table.columns.iter().map(|c| if c.dropped { "" } else { c.name.as_str() }).collect()
            }
            Some(Relation::View(view)) => view.columns.iter().map(|c| c.name.as_str()).collect(),
            _ => continue,
        };
        let are_renamed = catalog.relation(object).is_some_and(|r| mentioned.renamed.contains(r.name()));
        let all = mentioned.all || are_renamed;
        for (position, name) in columns.iter().enumerate() {
            if !name.is_empty() && (all || mentioned.names.contains(*name)) {
                found.push(Dependency { object, column: Some(position) });
            }
        }
    }
    found
}

#[derive(Default)]
struct Mentioned {
    /// `*`, or a join that finds its columns by itself.
    all: bool,
    names: FxHashSet<String>,
    /// Relations whose columns FROM gives other names, by their places: their own are mentioned nowhere.
    renamed: FxHashSet<String>,
}

impl Visitor for Mentioned {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Identifier(ident) => {
                self.names.insert(fold_ident(ident));
            }
            ast::Expr::CompoundIdentifier(parts) => self.names.extend(parts.last().map(fold_ident)),
            ast::Expr::Wildcard(_) | ast::Expr::QualifiedWildcard(..) => self.all = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.set_expr(&query.body);
        ControlFlow::Continue(())
    }
}

impl Mentioned {
    fn set_expr(&mut self, body: &ast::SetExpr) {
        match body {
            ast::SetExpr::Select(select) => {
                self.all |= select.projection.iter().any(|item| {
                    matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
                });
                select.from.iter().for_each(|from| self.joins(from));
            }
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.set_expr(left);
                self.set_expr(right);
            }
            _ => {}
        }
    }

    fn joins(&mut self, from: &ast::TableWithJoins) {
        self.joins_within(&from.relation);
        for join in &from.joins {
            self.joins_within(&join.relation);
            self.join(&join.join_operator);
        }
    }

    /// Those of joins in parentheses, and the columns that an alias gives other names.
    fn joins_within(&mut self, factor: &ast::TableFactor) {
        let renames = |alias: &Option<ast::TableAlias>| alias.as_ref().is_some_and(|a| !a.columns.is_empty());
        match factor {
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                self.all |= renames(alias);
                self.joins(table_with_joins);
            }
            ast::TableFactor::Table { name, alias, .. } if renames(alias) => {
                let own = name.0.last().and_then(|part| part.as_ident());
                self.renamed.extend(own.map(fold_ident));
            }
            _ => {}
        }
    }

    /// USING names columns outside of any expression, NATURAL not at all.
    fn join(&mut self, operator: &ast::JoinOperator) {
        use ast::JoinOperator as J;
        let constraint = match operator {
            J::Join(c)
            | J::Inner(c)
            | J::Left(c)
            | J::LeftOuter(c)
            | J::Right(c)
            | J::RightOuter(c)
            | J::FullOuter(c) => c,
            J::CrossJoin(_) => return,
            _ => {
                self.all = true;
                return;
            }
        };
        match constraint {
            ast::JoinConstraint::Using(columns) => {
                let last = columns.iter().filter_map(|name| name.0.last()?.as_ident().map(fold_ident));
                self.names.extend(last);
            }
            ast::JoinConstraint::Natural => self.all = true,
            ast::JoinConstraint::On(_) | ast::JoinConstraint::None => {}
        }
    }
}
