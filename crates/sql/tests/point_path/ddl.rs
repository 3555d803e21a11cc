//! As much DDL as the tests' scripts need, straight onto the tenant's primitives.

use base::{SessionId, SqlError, SqlResult};
use sql::expr::{BindContext, ParamTypes, bind_type, fold_ident};
use sql::parse::{ParsedStatement, parse_one, parse_query};
use sqlparser::ast;
use tenant::catalog::{
    Column, Identity, IndexColumn, MatchType, OWNER_ROLE, PUBLIC_SCHEMA, ReferentialAction, Sequence,
    ViewColumn, ViewDefinition,
};
use tenant::ddl::{Ddl, NewForeignKey, NewIndex, NewTable, NewUnique, RowsNow};
use tenant::{Interrupt, Isolation};
use types::PgType;

use crate::database::Database;
use crate::session::Log;

/// Runs `sql` if it is DDL; false if it is not.
pub(crate) fn execute(database: &mut Database, sql: &str) -> SqlResult<bool> {
    let parsed = parse_one(sql)?.expect("one statement");
    let ParsedStatement::Ast(statement) = parsed.statement else { return Ok(false) };
    match *statement {
        ast::Statement::CreateTable(create) => create_table(database, &create),
        ast::Statement::CreateIndex(create) => create_index(database, &create),
        ast::Statement::CreateView(create) => create_view(database, &create.name, &create.query.to_string()),
        ast::Statement::CreateSequence { name, .. } => {
            with_ddl(database, |ddl| Ok(ddl.create_sequence(sequence(&name.to_string()))?)).map(|_| ())
        }
        _ => return Ok(false),
    }?;
    Ok(true)
}

fn with_ddl<T>(
    database: &mut Database,
    f: impl FnOnce(&mut Ddl<'_>) -> Result<T, Interrupt>,
) -> SqlResult<T> {
    let mut txn = database.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, false);
    let result = {
        let mut log = Log::default();
        let mut view = database.tenant.view(&mut txn, &mut log);
        view.ddl().and_then(|mut ddl| f(&mut ddl)).and_then(|value| {
            view.finish_statement()?;
            Ok(value)
        })
    };
    match result {
        Ok(value) => {
            database.tenant.commit(txn, &mut database.log)?;
            Ok(value)
        }
        Err(interrupt) => {
            database.tenant.abort(txn);
            Err(interrupt.into_error().expect("nothing waits"))
        }
    }
}

fn sequence(name: &str) -> Sequence {
    Sequence {
        oid: base::Oid(0),
        schema: PUBLIC_SCHEMA,
        name: name.into(),
        owner: OWNER_ROLE,
        ty: PgType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycle: false,
        owned_by: None,
        acl: None,
    }
}

fn create_table(database: &mut Database, create: &ast::CreateTable) -> SqlResult<()> {
    let table_name = create.name.to_string();
    let format = database.format();
    let params = ParamTypes::none();
    let ctx = BindContext::simple(&params, &format, "DEFAULT expressions");
    let mut columns = Vec::new();
    let mut sequences = Vec::new();
    let mut primary = None;
    let mut unique: Vec<Vec<String>> = Vec::new();
    let mut checks: Vec<(Option<String>, String)> = Vec::new();
    let mut references = Vec::new();
    for definition in &create.columns {
        let name = fold_ident(&definition.name);
        let serial = definition.data_type.to_string().eq_ignore_ascii_case("serial");
        let (ty, typmod) = match serial {
            true => (PgType::Int4, types::TypeMod::NONE),
            false => bind_type(&definition.data_type, &ctx)?,
        };
        let mut column = Column::new(name.as_str(), ty, typmod);
        let sequence_name = format!("{table_name}_{name}_seq");
        if serial {
            column.default = Some(format!("nextval('{sequence_name}'::regclass)").into());
            column.not_null = true;
            sequences.push((sequence_name.clone(), None));
        }
        for ast::ColumnOptionDef { name: constraint, option } in &definition.options {
            match option {
                ast::ColumnOption::NotNull => column.not_null = true,
                ast::ColumnOption::Null => {}
                ast::ColumnOption::Default(expr) => column.default = Some(expr.to_string().into()),
                ast::ColumnOption::PrimaryKey(_) => primary = Some(vec![name.clone()]),
                ast::ColumnOption::Unique(_) => unique.push(vec![name.clone()]),
                ast::ColumnOption::Check(check) => {
                    let given = constraint.as_ref().map(fold_ident);
                    checks.push((given, check.expr.to_string()));
                }
                ast::ColumnOption::ForeignKey(key) => {
                    references.push((vec![name.clone()], key.clone()));
                }
                ast::ColumnOption::Generated { generated_as, .. } => {
                    column.identity = Some(match generated_as {
                        ast::GeneratedAs::Always => Identity::Always,
                        _ => Identity::ByDefault,
                    });
                    column.not_null = true;
                    sequences.push((sequence_name.clone(), Some(name.clone())));
                }
                other => panic!("{other} in CREATE TABLE"),
            }
        }
        columns.push(column);
    }
    let idents = |columns: &[ast::IndexColumn]| -> Vec<String> {
        columns.iter().map(|c| c.column.expr.to_string()).collect()
    };
    for constraint in &create.constraints {
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => primary = Some(idents(&key.columns)),
            ast::TableConstraint::Unique(key) => unique.push(idents(&key.columns)),
            ast::TableConstraint::Check(check) => {
                checks.push((check.name.as_ref().map(fold_ident), check.expr.to_string()));
            }
            ast::TableConstraint::ForeignKey(key) => {
                references.push((key.columns.iter().map(fold_ident).collect(), key.clone()));
            }
            other => panic!("{other} in CREATE TABLE"),
        }
    }
    with_ddl(database, |ddl| {
        for (name, _) in &sequences {
            ddl.create_sequence(sequence(name))?;
        }
        let all = columns.clone();
        let position = |name: &String| all.iter().position(|c| c.name == name.as_str()).expect("a column");
        let table = ddl.create_table(NewTable {
            schema: PUBLIC_SCHEMA,
            name: table_name.clone(),
            owner: OWNER_ROLE,
            columns,
        })?;
        for (name, column) in &sequences {
            if let Some(column) = column {
                let oid = ddl.catalog().resolve_sequence(None, name, &[PUBLIC_SCHEMA])?.oid;
                ddl.set_column_sequence(table, position(column), Some(oid))?;
            }
        }
        let key = |columns: &[String]| NewUnique {
            name: None,
            columns: columns.iter().map(position).collect(),
            nulls_not_distinct: false,
        };
        if let Some(primary) = &primary {
            ddl.add_primary_key(table, key(primary))?;
        }
        for columns in &unique {
            ddl.add_unique(table, key(columns))?;
        }
        for (name, text) in &checks {
            let named = (0..all.len()).filter(|i| text.contains(all[*i].name.as_str())).collect::<Vec<_>>();
            ddl.add_check(table, name.clone(), text, named, true)?;
        }
        for (columns, key) in &references {
            let parent = key.foreign_table.to_string();
            let parent = ddl.catalog().resolve_table(None, &parent, &[PUBLIC_SCHEMA])?.clone();
            let referenced = key.referred_columns.iter();
            let referenced = referenced.map(|c| parent.column(&fold_ident(c)).expect("a column").0);
            let action = |a: Option<ast::ReferentialAction>| match a {
                Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
                Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
                Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
                _ => ReferentialAction::NoAction,
            };
            let match_type = match key.match_kind {
                Some(ast::ConstraintReferenceMatchKind::Full) => MatchType::Full,
                _ => MatchType::Simple,
            };
            let new = NewForeignKey {
                name: None,
                columns: columns.iter().map(position).collect(),
                referenced_table: parent.oid,
                referenced_columns: (!key.referred_columns.is_empty()).then(|| referenced.collect()),
                on_delete: action(key.on_delete),
                on_update: action(key.on_update),
                match_type,
                deferral: Default::default(),
                rows: RowsNow::Checked,
            };
            ddl.add_foreign_key(table, new)?;
        }
        Ok(())
    })
}

fn create_index(database: &mut Database, create: &ast::CreateIndex) -> SqlResult<()> {
    let catalog = database.catalog();
    let table = catalog.resolve_table(None, &create.table_name.to_string(), &[PUBLIC_SCHEMA])?;
    let columns = create
        .columns
        .iter()
        .map(|c| {
            let (column, _) = table.column(&c.column.expr.to_string()).expect("a column");
            let descending = c.column.options.asc == Some(false);
            let nulls_first = c.column.options.nulls_first.unwrap_or(descending);
            IndexColumn { descending, nulls_first, ..IndexColumn::ascending(column) }
        })
        .collect();
    let new = NewIndex {
        name: create.name.as_ref().map(ToString::to_string),
        columns,
        unique: create.unique,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    with_ddl(database, |ddl| ddl.create_index(table.oid, new)).map(|_| ())
}

fn create_view(database: &mut Database, name: &ast::ObjectName, text: &str) -> SqlResult<()> {
    parse_query(text)?;
    let plan = database.bind(text, &[])?;
    if plan.output.is_empty() {
        return Err(SqlError::unsupported("a view of this query in a test"));
    }
    let columns = plan
        .output
        .iter()
        .map(|c| ViewColumn { name: c.name.as_str().into(), ty: c.ty, typmod: c.typmod })
        .collect();
    let search_path = database.path();
    with_ddl(database, |ddl| {
        ddl.create_view(ViewDefinition {
            oid: base::Oid(0),
            schema: PUBLIC_SCHEMA,
            name: name.to_string().as_str().into(),
            owner: OWNER_ROLE,
            sql: text.into(),
            columns,
            depends_on: Vec::new(),
            search_path,
            acl: None,
        })?;
        Ok(())
    })
}
