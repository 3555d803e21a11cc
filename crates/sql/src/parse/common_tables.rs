//! `WITH … INSERT`, `UPDATE` and `DELETE`: the common tables are put where the statement names them, so that nothing behind the parser
//! meets a WITH but in queries. A WITH that changes rows itself stays as it is, around whatever statement.
//!
//! A common table's name becomes a derived table: its query, or, where that names others of them, the whole WITH with a
//! `SELECT * FROM name`. An INSERT's source gets such a WITH as its own. A common table that PostgreSQL would compute once although it is named
//! twice, since its rows may differ the second time, is refused.
//!
//! A query keeps its WITH. One whose common tables are named once each is made the same without it ([`inlined`]), for who can plan that.

use std::ops::ControlFlow;

use base::{SqlError, SqlResult, SqlState};
use rustc_hash::FxHashSet;
use sqlparser::ast::{self, Expr, Statement, TableFactor, VisitMut, VisitorMut};

use super::{nesting, parse_query};
use crate::expr::fold_ident;

/// Text of common tables that may be put into a statement.
const COPIED_LEN_MAX: usize = 1 << 20;

/// Where a statement was taken from.
const PLACEHOLDER: Statement = Statement::Commit { chain: false, end: false, modifier: None };

/// Functions whose second call may answer otherwise than the first.
const VOLATILE: &[&str] = &[
    "clock_timestamp",
    "currval",
    "gen_random_bytes",
    "gen_random_uuid",
    "lastval",
    "nextval",
    "random",
    "setval",
    "timeofday",
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
];

/// Functions whose second call does once more what the first has done, to be undone as often, or at another's expense.
const ACTING: &[&str] = &[
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_cancel_backend",
    "pg_sleep",
    "pg_terminate_backend",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
];

/// The alias of a common table whose rows are made once, though a query that names it within an expression is run for each row.
const ONCE: &str = "\u{1}once";

/// Whether a subquery of this alias is made once for its statement.
pub fn is_made_once(alias: &str) -> bool {
    alias == ONCE
}

/// A statement without a WITH around a change of rows, which is no query then; others as they are, and so is one whose WITH changes rows. Where the change names some of
/// the tables nowhere the WITH stays around it, for them to be read.
///
/// # Errors
/// 0A000 for a common table that cannot be copied, or one within another that changes rows; 42712 for two of one name; 54001 for too many copies.
pub(super) fn without_with(mut statement: Statement) -> SqlResult<Statement> {
    if let Statement::Explain { statement: inner, .. } | Statement::Prepare { statement: inner, .. } =
        &mut statement
    {
        let taken = std::mem::replace(&mut **inner, PLACEHOLDER);
        **inner = without_with(taken)?;
        return Ok(statement);
    }
    let Statement::Query(query) = &mut statement else { return Ok(statement) };
    if changes_rows(query) {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            settle_part(&mut cte.query)?;
        }
        return Ok(statement);
    }
    let (ast::SetExpr::Insert(change) | ast::SetExpr::Update(change) | ast::SetExpr::Delete(change)) =
        &mut *query.body
    else {
        return Ok(statement);
    };
    let Some(with) = query.with.take() else { return Ok(std::mem::replace(change, PLACEHOLDER)) };
    let mut inlining = Inlining::new(with)?;
    match change {
        Statement::Insert(insert) => {
            // What is behind the source sees the common tables as well, and is no query.
            let source = insert.source.take();
            inlining.visit(insert)?;
            insert.source = source.map(|source| inlining.source(source)).transpose()?;
        }
        Statement::Update(update) => {
            // The target is a table, whatever is called like it.
            let target = update.table.clone();
            inlining.visit(update)?;
            update.table = target;
        }
        Statement::Delete(delete) => {
            let target = delete.from.clone();
            inlining.visit(delete)?;
            delete.from = target;
        }
        _ => return Err(SqlError::internal("a change of rows that is none")),
    }
    let mut taken = std::mem::replace(change, PLACEHOLDER);
    // What stood side by side may stand within each other now.
    nesting::settle(&mut taken)?;
    if inlining.leaves_some() {
        *change = taken;
        query.with = Some(inlining.with);
        return Ok(statement);
    }
    Ok(taken)
}

/// Common tables that are put within each other, at most: each is a level deeper.
const INLINED_MAX: usize = 16;

/// A query with the common tables of its WITH where they are named, each in one place of FROM. `None` where PostgreSQL would make the rows of one for themselves, where
/// one is named twice or not at all, and where its names could be taken for those of what is around the place.
pub fn inlined(query: &ast::Query) -> Option<ast::Query> {
    let with = query.with.as_ref().filter(|with| !with.recursive && with.cte_tables.len() <= INLINED_MAX)?;
    if !query.locks.is_empty() || changes_rows(query) {
        return None;
    }
    let mut inlining = Inlining {
        with: ast::With { with_token: with.with_token.clone(), recursive: false, cte_tables: Vec::new() },
        tables: Vec::new(),
        used: FxHashSet::default(),
        copied: 0,
        text_len: 0,
        is_alone: true,
        within: 0,
    };
    for cte in &with.cte_tables {
        let mut cte = cte.clone();
        // Each sees those before it.
        inlining.visit(&mut *cte.query).ok()?;
        let mut found = Found { names: &[], ..Found::default() };
        let _ = cte.query.visit(&mut found);
        let name = fold_ident(&cte.alias.name);
        let is_known = inlining.tables.iter().any(|table| table.name == name);
        let is_kept = matches!(cte.materialized, Some(ast::CteAsMaterialized::Materialized));
        if found.once || is_known || is_kept {
            return None;
        }
        inlining.tables.push(CommonTable { name, names_others: false, once: true, acts: false, copies: 0 });
        inlining.with.cte_tables.push(cte);
    }
    let mut query = ast::Query { with: None, ..query.clone() };
    inlining.visit(&mut query).ok()?;
    nesting::settle(&mut query).ok()?;
    inlining.tables.iter().all(|table| table.copies == 1).then_some(query)
}

/// Puts the common tables of a change within WITH where it names them.
fn settle_part(part: &mut ast::Query) -> SqlResult<()> {
    if changes_rows(part) {
        return Err(not_at_top_level());
    }
    if part.with.is_none() || !is_change(part) {
        return Ok(());
    }
    let inner = match without_with(Statement::Query(Box::new(part.clone())))? {
        // Tables that it does not name are left out here.
        Statement::Query(query) => match *query.body {
            ast::SetExpr::Insert(inner) | ast::SetExpr::Update(inner) | ast::SetExpr::Delete(inner) => inner,
            _ => return Err(not_at_top_level()),
        },
        inner => inner,
    };
    part.with = None;
    *part.body = match &inner {
        Statement::Insert(_) => ast::SetExpr::Insert(inner),
        Statement::Update(_) => ast::SetExpr::Update(inner),
        Statement::Delete(_) => ast::SetExpr::Delete(inner),
        _ => return Err(SqlError::internal("a change of rows that is none")),
    };
    Ok(())
}

/// Whether some common tables of a query's WITH change rows.
pub fn changes_rows(query: &ast::Query) -> bool {
    query.with.iter().flat_map(|with| &with.cte_tables).any(|cte| is_change(&cte.query))
}

/// Whether a query is an INSERT, UPDATE, DELETE or MERGE, as it may be in WITH.
pub fn is_change(query: &ast::Query) -> bool {
    use ast::SetExpr as S;
    matches!(*query.body, S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_))
}

/// What PostgreSQL says of a change within the WITH of a query that is a part of another.
pub fn not_at_top_level() -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "WITH clause containing a data-modifying statement must be at the top level",
    )
}

/// Calls `f` with each name without a schema that stands for a relation within a query.
pub fn for_each_relation(query: &ast::Query, f: &mut dyn FnMut(&str)) {
    let _ = ast::visit_relations(query, |name| {
        if let Some(name) = own_name(name) {
            f(&name);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// A WITH whose tables are put where they are named.
struct Inlining {
    with: ast::With,
    tables: Vec<CommonTable>,
    /// Names of relations in their queries.
    used: FxHashSet<String>,
    /// Text of the WITH, once for each copy.
    copied: usize,
    text_len: usize,
    /// No WITH may stand within, whose tables would be seen by what is put there, and nothing is put into expressions and LATERAL, where columns are.
    is_alone: bool,
    /// Expressions, and LATERAL, around the place of the walk.
    within: usize,
}

struct CommonTable {
    name: String,
    /// Names others of its list, or itself.
    names_others: bool,
    /// May have other rows the next time.
    once: bool,
    /// Does something by being computed.
    acts: bool,
    copies: usize,
}

impl Inlining {
    fn new(mut with: ast::With) -> SqlResult<Inlining> {
        let names: Vec<String> = with.cte_tables.iter().map(|cte| fold_ident(&cte.alias.name)).collect();
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
        let mut tables = Vec::with_capacity(names.len());
        for (cte, name) in with.cte_tables.iter_mut().zip(&names) {
            let mut found = Found { names: &names, ..Found::default() };
            let _ = cte.query.visit(&mut found);
            let Found { others, once, acts, .. } = found;
            tables.push(CommonTable { name: name.clone(), names_others: others, once, acts, copies: 0 });
        }
        // One that names another is as little to be computed twice as that.
        let (once, acts) =
            tables.iter().fold((false, false), |(once, acts), table| (once | table.once, acts | table.acts));
        for table in tables.iter_mut().filter(|table| table.names_others) {
            (table.once, table.acts) = (table.once | once, table.acts | acts);
        }
        let text_len = with.to_string().len();
        let mut used = FxHashSet::default();
        for cte in &with.cte_tables {
            for_each_relation(&cte.query, &mut |name| {
                used.insert(name.to_owned());
            });
        }
        Ok(Inlining { with, tables, used, copied: 0, text_len, is_alone: false, within: 0 })
    }

    /// Whether some of the tables stand nowhere.
    fn leaves_some(&self) -> bool {
        self.tables.iter().any(|table| table.copies == 0 && !self.used.contains(&table.name))
    }

    fn visit(&mut self, node: &mut impl VisitMut) -> SqlResult<()> {
        match node.visit(self) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// An INSERT's source, which keeps the WITH where its tables name each other or are to be computed once; rows of VALUES stay such.
    fn source(&mut self, mut source: Box<ast::Query>) -> SqlResult<Box<ast::Query>> {
        let mut names_some = false;
        for_each_relation(&source, &mut |name| {
            names_some |= self.tables.iter().any(|table| table.name == name);
        });
        if !names_some {
            return Ok(source);
        }
        let is_plain =
            !self.with.recursive && !self.tables.iter().any(|table| table.names_others || table.once);
        if is_plain || matches!(*source.body, ast::SetExpr::Values(_)) {
            self.visit(&mut *source)?;
            return Ok(source);
        }
        if self.tables.iter().any(|table| table.once && table.copies > 0) {
            return Err(twice());
        }
        // It has all of them now.
        self.tables.iter_mut().for_each(|table| table.copies += 1);
        if source.with.is_none() {
            source.with = Some(self.with.clone());
            return Ok(source);
        }
        let mut around = parse_query("SELECT 1")?;
        around.body = Box::new(ast::SetExpr::Query(source));
        around.with = Some(self.with.clone());
        Ok(Box::new(around))
    }

    /// What stands for the common table at that place of the list.
    fn derived(&mut self, at: usize, alias: Option<ast::TableAlias>) -> SqlResult<TableFactor> {
        self.copied += self.text_len;
        let table = &mut self.tables[at];
        table.copies += 1;
        let is_once = table.once || table.acts;
        if is_once && table.copies > 1 {
            return Err(twice());
        }
        if self.copied > COPIED_LEN_MAX {
            let message = "the common tables of a statement are named too often for their length";
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let cte = &self.with.cte_tables[at];
        let mut alias = alias.unwrap_or_else(|| ast::TableAlias { columns: Vec::new(), ..cte.alias.clone() });
        let subquery = if table.names_others {
            let mut all = parse_query("SELECT * FROM t")?;
            if let ast::SetExpr::Select(select) = &mut *all.body
                && let Some(TableFactor::Table { name, .. }) =
                    select.from.first_mut().map(|from| &mut from.relation)
            {
                *name = ast::ObjectName::from(vec![cte.alias.name.clone()]);
            }
            let mut with = self.with.clone();
            if !with.recursive {
                with.cte_tables.truncate(at + 1);
            }
            all.with = Some(with);
            Box::new(all)
        } else {
            // The columns that the place does not name have their names from the WITH.
            let more = cte.alias.columns.iter().skip(alias.columns.len()).cloned();
            alias.columns.extend(more);
            cte.query.clone()
        };
        let subquery = if is_once && self.within > 0 { made_once(subquery)? } else { subquery };
        Ok(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
    }
}

impl VisitorMut for Inlining {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<SqlError> {
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        let mut own = with.cte_tables.iter().map(|cte| fold_ident(&cte.alias.name));
        let is_taken =
            |name: String| self.used.contains(&name) || self.tables.iter().any(|table| table.name == name);
        if self.is_alone || own.any(is_taken) {
            return ControlFlow::Break(SqlError::unsupported(
                "a WITH within a change by another of the same names",
            ));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<SqlError> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<SqlError> {
        self.within -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.within += usize::from(is_lateral(factor));
        ControlFlow::Continue(())
    }

    /// Behind what is within: what is put there is not looked at again.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.within -= usize::from(is_lateral(factor));
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Some(at) = own_name(name).and_then(|name| self.tables.iter().position(|t| t.name == name)) else {
            return ControlFlow::Continue(());
        };
        if self.is_alone && self.within > 0 {
            return ControlFlow::Break(SqlError::unsupported("a common table within an expression"));
        }
        match self.derived(at, alias.take()) {
            Ok(derived) => {
                *factor = derived;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// `SELECT * FROM (query) AS "…"`, which [`is_made_once`] tells.
fn made_once(query: Box<ast::Query>) -> SqlResult<Box<ast::Query>> {
    let mut all = parse_query("SELECT * FROM t")?;
    let name = ast::Ident::with_quote('"', ONCE);
    let alias = Some(ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    if let ast::SetExpr::Select(select) = &mut *all.body
        && let Some(from) = select.from.first_mut()
    {
        from.relation = TableFactor::Derived { lateral: false, subquery: query, alias, sample: None };
    }
    Ok(Box::new(all))
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}

/// What a common table's query has in it.
#[derive(Default)]
struct Found<'n> {
    names: &'n [String],
    others: bool,
    once: bool,
    acts: bool,
}

impl VisitorMut for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        self.once |= !query.locks.is_empty();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = factor {
            self.others |= own_name(name).is_some_and(|name| self.names.contains(&name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(last) = function.name.0.last().and_then(|part| part.as_ident())
        {
            let name = fold_ident(last);
            self.once |= VOLATILE.contains(&name.as_str());
            self.acts |= ACTING.contains(&name.as_str());
        }
        ControlFlow::Continue(())
    }
}

/// A name without a schema.
fn own_name(name: &ast::ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(fold_ident),
        _ => None,
    }
}

fn twice() -> SqlError {
    SqlError::unsupported(
        "a common table that locks rows or calls a volatile function, named more than once in a change",
    )
}

#[cfg(test)]
mod tests {
    use base::SqlState;

    use crate::session::testing::Bench;

    #[test]
    fn a_common_table_is_put_nowhere_where_its_names_are_others() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE t (id int); CREATE TABLE x (id int); INSERT INTO t VALUES (1); INSERT INTO x VALUES (1), (99)",
        );
        // In `a` stands the table `t`.
        let change = "WITH a AS (SELECT id FROM t) DELETE FROM x WHERE id IN";
        let refused = bench.fail(
            &mut session,
            &format!("{change} (WITH t AS (SELECT 99 AS id) SELECT a.id FROM a JOIN t ON t.id > a.id)"),
        );
        assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(bench.run(&mut session, &format!("{change} (SELECT id FROM a)")).tags, ["DELETE 1"]);
        assert_eq!(bench.run(&mut session, "SELECT id FROM x").lines(), ["99"]);
    }

    #[test]
    fn a_common_table_that_takes_a_lock_takes_it_once() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        let tables =
            "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";
        bench.run(&mut session, tables);
        let with = "WITH l AS (SELECT pg_try_advisory_lock(7) AS got)";
        let update = format!("{with} UPDATE t SET a = (SELECT 5 FROM l WHERE got AND t.id > 0)");
        assert_eq!(bench.run(&mut session, &update).tags, ["UPDATE 3"]);
        let unlock = "SELECT pg_advisory_unlock(7)";
        assert_eq!([unlock; 2].map(|sql| bench.run(&mut session, sql).lines()), [["t"], ["f"]]);
        let twice = format!("{with} UPDATE t SET a = 6 WHERE (SELECT got FROM l) AND (SELECT got FROM l)");
        assert_eq!(bench.fail(&mut session, &twice).state(), SqlState::FEATURE_NOT_SUPPORTED);
    }

    #[test]
    fn a_common_table_that_nothing_names_is_read_and_never_run() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        let tables = "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)";
        bench.run(&mut session, tables);
        let changes = [
            "UPDATE t SET a = 7 WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
            "INSERT INTO t VALUES (3, 3)",
            "INSERT INTO t SELECT 4, 4",
        ];
        for change in changes {
            for (table, state) in [
                ("SELECT nosuch FROM t", SqlState::UNDEFINED_COLUMN),
                ("SELECT 1 FROM nosuch", SqlState::UNDEFINED_TABLE),
                ("SELECT 1), d AS (SELECT id FROM c, nosuch", SqlState::UNDEFINED_TABLE),
            ] {
                let refused = bench.fail(&mut session, &format!("WITH c AS ({table}) {change}"));
                assert_eq!(refused.state(), state, "{table}, {change}");
            }
            // The last one is the analytical path's.
            for table in ["SELECT id FROM t FOR UPDATE", "SELECT rank() OVER (ORDER BY a) FROM t"] {
                let sql = format!("BEGIN; WITH c AS ({table}) {change}; ROLLBACK");
                let tags = bench.run(&mut session, &sql).tags;
                assert!(tags[1].ends_with(" 1"), "{sql}: {tags:?}");
            }
        }
        let prepare = "PREPARE p AS WITH c AS (SELECT $1::int AS x) UPDATE t SET a = $2 WHERE id = 1";
        bench.run(&mut session, prepare);
        bench.run(&mut session, "EXECUTE p (5, 9)");
        assert_eq!(bench.run(&mut session, "SELECT a FROM t WHERE id = 1").lines(), ["9"]);
        let declared = "BEGIN; DECLARE k CURSOR FOR WITH c AS (SELECT 1) UPDATE t SET a = 0";
        assert_eq!(bench.fail(&mut session, declared).state(), SqlState::FEATURE_NOT_SUPPORTED);
        bench.run(&mut session, "ROLLBACK");
        assert_eq!(bench.run(&mut session, "SELECT count(*) FROM t WHERE a > 0").lines(), ["2"]);
    }
}
