//! EXPLAIN: a plan as lines of text, with counts and times when it was run.
//!
//! The form follows PostgreSQL's; the first line says which path the statement takes. `rows` is an estimate of rows given
//! out, `cost` of rows looked at; neither is PostgreSQL's unit of cost.

mod expr_text;
mod json;

use base::{Nanos, SqlError, SqlResult, SqlState};
use sqlparser::ast;

use crate::exec::{ExecDone, Profile};
use crate::expr::{AggregateCall, AggregateKind, BoundExpr, fold_ident};
use crate::parse::boolean;
use crate::plan::{
    AccessPath, AggregatePlan, BoundPlan, ChangeSource, ConflictAction, DistinctPlan, InsertPlan,
    InsertSource, KeyPart, Node, NodeId, NodeKind, POINT_ROWS_MAX, PlanKind, PointPlan, PointStatement,
    RangeBound, ScanNode, SelectPlan, TableFunction,
};

use expr_text::{Names, text};

pub use json::json;

/// What EXPLAIN was asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExplainOptions {
    /// Run it and show counts and times.
    pub analyze: bool,
    /// Show the output columns too.
    pub verbose: bool,
    /// Leave the times out.
    pub timing_off: bool,
    /// Leave the estimates out.
    pub costs_off: bool,
    /// Say how long planning and the run took.
    pub summary: bool,
    /// As [`json()`] has it, else line by line.
    pub as_json: bool,
}

/// What a run told.
pub struct Analyzed<'a> {
    pub profile: &'a Profile<'a>,
    pub done: ExecDone,
    pub execution: Nanos,
}

/// Reads EXPLAIN: its options and the statement it is about.
///
/// # Errors
/// 42601 for an unknown option, or a value that one does not take; 22023 for TIMING without ANALYZE and an unknown format; 0A000 for
/// a format other than text and JSON, and for what is only shown elsewhere.
pub fn explain_options(statement: &ast::Statement) -> SqlResult<(ExplainOptions, &ast::Statement)> {
    let ast::Statement::Explain {
        describe_alias,
        analyze,
        verbose,
        query_plan,
        estimate,
        statement,
        format,
        options,
    } = statement
    else {
        return Err(SqlError::internal("not an EXPLAIN"));
    };
    if !matches!(describe_alias, ast::DescribeAlias::Explain) || *query_plan || *estimate || format.is_some()
    {
        return Err(SqlError::unsupported("this form of EXPLAIN"));
    }
    let mut read = ExplainOptions { analyze: *analyze, verbose: *verbose, ..ExplainOptions::default() };
    let (mut timing, mut summary) = (None, None);
    for ast::UtilityOption { name, arg } in options.iter().flatten() {
        let name = fold_ident(name);
        let value = arg.as_ref().map(|arg| arg.to_string().trim_matches('\'').to_owned());
        let on = || boolean(&name, value.as_deref());
        match name.as_str() {
            "analyze" | "analyse" => read.analyze = on()?,
            "verbose" => read.verbose = on()?,
            "costs" => read.costs_off = !on()?,
            "timing" => timing = Some(on()?),
            "summary" => summary = Some(on()?),
            "format" => read.as_json = is_json(value.as_deref())?,
            "buffers" | "wal" | "settings" => {
                if on()? {
                    return Err(SqlError::unsupported(format!("EXPLAIN option {name}")));
                }
            }
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    if timing == Some(true) && !read.analyze {
        let message = "EXPLAIN option TIMING requires ANALYZE";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    read.timing_off = timing == Some(false);
    read.summary = summary.unwrap_or(read.analyze && !read.timing_off);
    Ok((read, statement))
}

fn is_json(format: Option<&str>) -> SqlResult<bool> {
    let Some(format) = format else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "format requires a parameter"));
    };
    match format.to_lowercase().as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        "xml" | "yaml" => Err(SqlError::unsupported(format!("EXPLAIN format {format}"))),
        _ => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{format}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// The lines of EXPLAIN for a statement that was not run, or was on the point path.
pub fn explain(
    plan: &BoundPlan,
    options: ExplainOptions,
    planning: Nanos,
    analyzed: Option<&Analyzed<'_>>,
) -> Vec<String> {
    let point = match &plan.kind {
        PlanKind::Analytic { reason, .. } => return vec![format!("Analytical path: {reason}")],
        PlanKind::Point(point) => point,
    };
    let mut tree = Tree { plan: point, options, analyzed, lines: Vec::new() };
    let why = match point.external.as_deref() {
        Some(external) => format!("Point path, its source on the analytical path: {}", external.reason),
        None if let (Some(each), PointStatement::Select(select)) =
            (point.cost_of_leading_row, &point.statement) =>
        {
            let name = select.leading_scan().map_or("", |scan| &scan.name);
            let most = POINT_ROWS_MAX / each;
            format!(
                "Point path if its range of {name} has at most {most:.0} rows, else analytical path: about {:.0} rows to look at",
                point.cost
            )
        }
        None if plan.read_only => {
            format!("Point path: about {:.0} rows to look at", point.cost.max(1.0))
        }
        None => "Point path: it changes or locks rows, or calls functions with effects".to_owned(),
    };
    tree.lines.push(why);
    tree.statement(&point.statement, 0);
    for part in &point.parts {
        tree.lines.push(format!("CTE {}", part.name));
        tree.statement(&part.statement, 1);
    }
    for (i, subquery) in point.subqueries.iter().enumerate() {
        let kind = if subquery.correlated { "SubPlan" } else { "InitPlan" };
        tree.lines.push(format!("{kind} {}", i + 1));
        tree.select(subquery, 1);
    }
    if let Some(analyzed) = analyzed {
        tree.lines.push(format!("Rows Examined: {}", analyzed.done.examined));
    }
    if options.summary {
        tree.lines.push(format!("Planning Time: {} ms", millis(planning)));
        if let Some(analyzed) = analyzed {
            tree.lines.push(format!("Execution Time: {} ms", millis(analyzed.execution)));
        }
    }
    tree.lines
}

fn millis(time: Nanos) -> String {
    format!("{:.3}", time.0 as f64 / 1e6)
}

struct Tree<'a> {
    plan: &'a PointPlan,
    options: ExplainOptions,
    analyzed: Option<&'a Analyzed<'a>>,
    lines: Vec<String>,
}

impl Tree<'_> {
    /// A node's line: its name, its estimate, and what it did.
    fn line(&mut self, depth: usize, what: &str, rows: Option<f64>, node: Option<NodeId>) {
        let indent =
            if depth == 0 { String::new() } else { format!("{}->  ", "      ".repeat(depth - 1) + "  ") };
        let mut line = format!("{indent}{what}");
        if let (Some(rows), false) = (rows, self.options.costs_off) {
            line.push_str(&format!("  (rows={:.0})", rows.max(1.0)));
        }
        if let (Some(analyzed), Some(node)) = (self.analyzed, node) {
            let did = analyzed.profile.node(node);
            if did.loops == 0 {
                line.push_str(" (never executed)");
            } else {
                let rows = did.rows / did.loops;
                let time = match self.options.timing_off {
                    true => String::new(),
                    false => format!("time={} ", millis(Nanos(did.time.0 / did.loops))),
                };
                line.push_str(&format!(" (actual {time}rows={rows} loops={})", did.loops));
            }
        }
        self.lines.push(line);
    }

    fn detail(&mut self, depth: usize, label: &str, value: &str) {
        let indent = if depth == 0 { "  ".to_owned() } else { "      ".repeat(depth) + "  " };
        self.lines.push(format!("{indent}{label}: {value}"));
    }

    fn statement(&mut self, statement: &PointStatement, depth: usize) {
        match statement {
            PointStatement::Select(select) => self.select(select, depth),
            PointStatement::Insert(insert) => self.insert(insert, depth),
            PointStatement::Update(update) => {
                self.line(depth, &format!("Update on {}", update.table.name), None, None);
                self.change(&update.source, &update.slot_names, depth + 1);
            }
            PointStatement::Delete(delete) => {
                self.line(depth, &format!("Delete on {}", delete.table.name), None, None);
                self.change(&delete.source, &delete.slot_names, depth + 1);
            }
        }
    }

    fn insert(&mut self, insert: &InsertPlan, depth: usize) {
        self.line(depth, &format!("Insert on {}", insert.table.name), None, None);
        match &insert.on_conflict {
            None => {}
            Some(ConflictAction::Nothing(_)) => self.detail(depth, "Conflict Resolution", "NOTHING"),
            Some(ConflictAction::Update { .. }) => self.detail(depth, "Conflict Resolution", "UPDATE"),
        }
        let depth = depth + 1;
        match &insert.source {
            InsertSource::Values(rows) if rows.len() == 1 => self.line(depth, "Result", Some(1.0), None),
            InsertSource::Values(rows) => self.line(depth, "Values Scan", Some(rows.len() as f64), None),
            InsertSource::Select { plan, .. } => self.select(plan, depth),
            InsertSource::External { .. } => self.line(depth, "Analytical Query", None, None),
        }
    }

    fn change(&mut self, source: &ChangeSource, slot_names: &[String], depth: usize) {
        match source {
            ChangeSource::Node(node) => self.node(node, &Names::new(slot_names), depth),
            ChangeSource::External { .. } => self.line(depth, "Analytical Query", None, None),
        }
    }

    fn select(&mut self, select: &SelectPlan, mut depth: usize) {
        let names = Names::new(&select.slot_names);
        if select.limit.is_some() || select.offset.is_some() {
            self.line(depth, "Limit", Some(select.rows), None);
            depth += 1;
        }
        if !select.locks.is_empty() {
            self.line(depth, "LockRows", None, None);
            depth += 1;
        }
        match &select.distinct {
            DistinctPlan::No => {}
            DistinctPlan::All | DistinctPlan::On(_) => {
                self.line(depth, "Unique", None, None);
                depth += 1;
            }
        }
        let after = match &select.aggregate {
            Some(aggregate) => group_names(&names, aggregate),
            None => names.clone(),
        };
        if !select.sort.is_empty() {
            self.line(depth, "Sort", None, None);
            let keys: Vec<String> = select
                .sort
                .iter()
                .map(|s| {
                    let mut key = text(&select.project[s.column], &after);
                    if s.descending {
                        key.push_str(" DESC");
                    }
                    if s.nulls_first != s.descending {
                        key.push_str(if s.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
                    }
                    key
                })
                .collect();
            self.detail(depth, "Sort Key", &keys.join(", "));
            depth += 1;
        }
        if self.options.verbose {
            let output: Vec<String> =
                select.project[..select.visible].iter().map(|expr| text(expr, &after)).collect();
            self.detail(depth, "Output", &output.join(", "));
        }
        if let Some(aggregate) = &select.aggregate {
            let what = if aggregate.grouped { "HashAggregate" } else { "Aggregate" };
            self.line(depth, what, None, None);
            if aggregate.grouped {
                let keys: Vec<String> = aggregate.keys.iter().map(|key| text(key, &names)).collect();
                self.detail(depth, "Group Key", &keys.join(", "));
            }
            if let Some(having) = &aggregate.having {
                self.detail(depth, "Filter", &condition(having, &after));
            }
            if aggregate.first_row_decides {
                self.detail(depth, "Reads", "the first row only");
            }
            depth += 1;
        }
        self.node(&select.from, &names, depth);
    }

    fn node(&mut self, node: &Node, names: &Names, depth: usize) {
        let id = Some(node.id);
        let rows = Some(node.rows);
        match &node.kind {
            NodeKind::OneRow => self.line(depth, "Result", rows, id),
            NodeKind::Scan(scan) => self.scan(scan, node, names, depth),
            NodeKind::Values { .. } => self.line(depth, "Values Scan", rows, id),
            NodeKind::Common { name, .. } => self.line(depth, &format!("CTE Scan on {name}"), rows, id),
            NodeKind::Derived { name, .. } => self.line(depth, &format!("Subquery Scan on {name}"), rows, id),
            NodeKind::Function { name, function, .. } => {
                let function = match function {
                    TableFunction::Series { .. } => "generate_series",
                    TableFunction::Unnest(_) => "unnest",
                    TableFunction::Scalar(_) => "function",
                };
                self.line(depth, &format!("Function Scan on {function} {name}"), rows, id);
            }
            NodeKind::NestedLoop { left_outer, .. } => {
                let what = if *left_outer { "Nested Loop Left Join" } else { "Nested Loop" };
                self.line(depth, what, rows, id);
            }
            NodeKind::HashJoin { left_outer, left_keys, right_keys, on, .. } => {
                let what = if *left_outer { "Hash Left Join" } else { "Hash Join" };
                self.line(depth, what, rows, id);
                let keys: Vec<String> = left_keys
                    .iter()
                    .zip(right_keys)
                    .map(|(l, r)| format!("({} = {})", text(l, names), text(r, names)))
                    .collect();
                self.detail(depth, "Hash Cond", &keys.join(" AND "));
                if let Some(on) = on {
                    self.detail(depth, "Join Filter", &condition(on, names));
                }
            }
        }
        if let Some(filter) = &node.filter {
            self.detail(depth, "Filter", &condition(filter, names));
            if let Some(analyzed) = self.analyzed {
                let filtered = analyzed.profile.node(node.id).filtered;
                if filtered > 0 {
                    self.detail(depth, "Rows Removed by Filter", &filtered.to_string());
                }
            }
        }
        match &node.kind {
            NodeKind::Derived { plans, .. } => plans.iter().for_each(|plan| self.select(plan, depth + 1)),
            NodeKind::NestedLoop { left, right, .. } | NodeKind::HashJoin { left, right, .. } => {
                self.node(left, names, depth + 1);
                self.node(right, names, depth + 1);
            }
            _ => {}
        }
        debug_assert!(node.id.0 < self.plan.nodes);
    }

    fn scan(&mut self, scan: &ScanNode, node: &Node, names: &Names, depth: usize) {
        let table = match scan.name == scan.table.name.as_str() {
            true => scan.name.clone(),
            false => format!("{} {}", scan.table.name, scan.name),
        };
        match &scan.path {
            AccessPath::Full { backward: _ } => {
                self.line(depth, &format!("Seq Scan on {table}"), Some(node.rows), Some(node.id));
            }
            AccessPath::Index { index, parts, lower, upper, backward } => {
                let definition = &scan.table.indexes[*index];
                let way = if *backward { " Backward" } else { "" };
                let what = format!("Index Scan{way} using {} on {table}", definition.name);
                self.line(depth, &what, Some(node.rows), Some(node.id));
                let conditions = index_conditions(scan, *index, parts, lower.as_ref(), upper.as_ref(), names);
                if !conditions.is_empty() {
                    self.detail(depth, "Index Cond", &joined(&conditions));
                }
            }
            AccessPath::Alternatives(ways) => {
                self.line(depth, &format!("Index Or Scan on {table}"), Some(node.rows), Some(node.id));
                for way in ways {
                    let AccessPath::Index { index, parts, lower, upper, .. } = &way.path else { continue };
                    let conditions =
                        index_conditions(scan, *index, parts, lower.as_ref(), upper.as_ref(), names);
                    let index = &scan.table.indexes[*index].name;
                    self.detail(depth, "Index Cond", &format!("{} using {index}", joined(&conditions)));
                }
            }
        }
    }
}

fn index_conditions(
    scan: &ScanNode,
    index: usize,
    parts: &[KeyPart],
    lower: Option<&RangeBound>,
    upper: Option<&RangeBound>,
    names: &Names,
) -> Vec<String> {
    let table = &scan.table;
    let keys = table.indexes[index].columns.iter();
    let columns: Vec<String> =
        keys.map(|key| table.key_name(key, &table.columns[key.column].name, true)).collect();
    let list = |items: &[BoundExpr]| items.iter().map(|e| text(e, names)).collect::<Vec<_>>().join(", ");
    let mut conditions: Vec<String> = parts
        .iter()
        .zip(&columns)
        .map(|(part, column)| match part {
            KeyPart::Equal(expr, _) => format!("{column} = {}", text(expr, names)),
            KeyPart::Null => format!("{column} IS NULL"),
            KeyPart::OneOf(items, _) => format!("{column} IN ({})", list(items)),
            KeyPart::InRows(id, _) => format!("{column} = ANY (SubPlan {})", id.0 + 1),
            KeyPart::AnyOf(array, _) => format!("{column} = ANY ({})", text(array, names)),
        })
        .collect();
    for (bound, strict, lax) in [(lower, ">", ">="), (upper, "<", "<=")] {
        if let Some(bound) = bound {
            let operator = if bound.inclusive { lax } else { strict };
            conditions.push(format!("{} {operator} {}", columns[parts.len()], text(&bound.value, names)));
        }
    }
    conditions
}

fn joined(conditions: &[String]) -> String {
    match conditions {
        [one] => format!("({one})"),
        several => {
            let each: Vec<String> = several.iter().map(|c| format!("({c})")).collect();
            format!("({})", each.join(" AND "))
        }
    }
}

fn condition(expr: &BoundExpr, names: &Names) -> String {
    let text = text(expr, names);
    if text.starts_with('(') { text } else { format!("({text})") }
}

/// Names for the row after grouping.
fn group_names(names: &Names, aggregate: &AggregatePlan) -> Names {
    let mut after = names.clone();
    after.0.extend(aggregate.keys.iter().map(|key| text(key, names)));
    after.0.extend(aggregate.calls.iter().map(|call| call_text(call, names)));
    after
}

fn call_text(call: &AggregateCall, names: &Names) -> String {
    let name = match call.kind {
        AggregateKind::CountRows => return "count(*)".to_owned(),
        AggregateKind::Count => "count",
        AggregateKind::Sum => "sum",
        AggregateKind::Avg => "avg",
        AggregateKind::Min => "min",
        AggregateKind::Max => "max",
        kind => return format!("{kind:?}").to_lowercase(),
    };
    let args: Vec<String> = call.args.iter().map(|arg| text(arg, names)).collect();
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    format!("{name}({distinct}{})", args.join(", "))
}
