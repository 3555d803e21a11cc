//! The lines of EXPLAIN as the JSON that tools read: an array of one object, whose `Plan` is the tree of the nodes.

use serde_json::{Map, Value};

/// Nodes within nodes, at most: those further down stand beside the last of them. Each is two levels of JSON, of which many readers take 128, and
/// whoever writes them calls itself for each.
const DEPTH_MAX: usize = 60;

/// A node whose parts may follow, and where its text begins, counted from 1.
struct Open {
    begins: usize,
    node: Map<String, Value>,
}

/// `lines` as [`super::explain`] makes them, or the analytical path.
pub fn json(lines: &[String]) -> String {
    let Some((path, lines)) = lines.split_first() else { return "[]".to_owned() };
    let is_point = path.starts_with("Point path");
    let mut whole = Map::new();
    // The first is no node, and gathers those that are in no other.
    let mut open = vec![Open { begins: 0, node: Map::new() }];
    for line in lines {
        let text = line.trim_start();
        let marked = text.strip_prefix("->  ");
        let text = marked.unwrap_or(text);
        let begins = line.len() - text.len() + 1;
        let may_be_detail = marked.is_none() && (is_point || begins == 1);
        match detail(text).filter(|_| may_be_detail) {
            Some((label, value)) if begins == 1 => {
                whole.insert(label.to_owned(), value);
            }
            Some((label, value)) => {
                if let Some(last) = open.last_mut() {
                    last.node.insert(label.to_owned(), value);
                }
            }
            None => {
                close(&mut open, begins);
                open.push(Open { begins, node: node(text, is_point) });
            }
        }
    }
    close(&mut open, 1);
    let mut rest = open.pop().map(|first| first.node).unwrap_or_default();
    let nodes = match rest.remove("Plans") {
        Some(Value::Array(nodes)) => nodes,
        _ => Vec::new(),
    };
    let mut nodes = nodes.into_iter();
    let mut plan = match nodes.next() {
        Some(Value::Object(plan)) => plan,
        _ => Map::new(),
    };
    plan.extend(rest);
    // Other parts of the statement, and its subqueries.
    nodes.for_each(|other| add(&mut plan, other));
    let mut answer = Map::new();
    answer.insert("Plan".to_owned(), Value::Object(plan));
    answer.insert("Path".to_owned(), Value::from(path.as_str()));
    answer.extend(whole);
    format!("{:#}", Value::Array(vec![Value::Object(answer)]))
}

/// Nodes that begin there or behind have no more parts.
fn close(open: &mut Vec<Open>, begins: usize) {
    while open.len() > DEPTH_MAX || open.last().is_some_and(|last| last.begins >= begins) {
        let Some(Open { node, .. }) = open.pop() else { return };
        if let Some(last) = open.last_mut() {
            add(&mut last.node, Value::Object(node));
        }
    }
}

fn add(node: &mut Map<String, Value>, part: Value) {
    match node.get_mut("Plans") {
        Some(Value::Array(plans)) => plans.push(part),
        _ => {
            node.insert("Plans".to_owned(), Value::Array(vec![part]));
        }
    }
}

/// `Label: value`; times and counts are numbers.
fn detail(text: &str) -> Option<(&str, Value)> {
    let (label, value) = text.split_once(": ")?;
    let is_label = label.starts_with(|c: char| c.is_ascii_uppercase())
        && label.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    if !is_label {
        return None;
    }
    let counts = label.ends_with("Time") || label.starts_with("Rows");
    let counted = Some(value.trim_end_matches(" ms")).filter(|_| counts).and_then(number);
    Some((label, counted.unwrap_or_else(|| Value::from(value))))
}

fn number(text: &str) -> Option<Value> {
    match text.parse::<i64>() {
        Ok(whole) => Some(Value::from(whole)),
        Err(_) => text.parse::<f64>().ok().filter(|n| n.is_finite()).map(Value::from),
    }
}

/// `Index Scan using i on t  (rows=5) (actual time=0.010 rows=5 loops=1)`, or an operator of the analytical path's.
fn node(text: &str, is_point: bool) -> Map<String, Value> {
    let mut node = Map::new();
    let mut tell = |key: &str, value: Value| {
        node.insert(key.to_owned(), value);
    };
    if !is_point {
        let (kind, details) = text.split_once(": ").unwrap_or((text, ""));
        tell("Node Type", Value::from(kind.trim_end_matches(':')));
        if !details.is_empty() {
            tell("Details", Value::from(details));
        }
        return node;
    }
    let (text, actual) = text.split_once(" (actual ").unwrap_or((text, ""));
    let (text, is_left_out) = match text.strip_suffix(" (never executed)") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (text, rows) = text.split_once("  (rows=").unwrap_or((text, ""));
    let (kind, relation) = text.split_once(" on ").unwrap_or((text, ""));
    let (kind, index) = kind.split_once(" using ").unwrap_or((kind, ""));
    let (kind, join) = match kind {
        "Hash Left Join" => ("Hash Join", "Left"),
        "Nested Loop Left Join" => ("Nested Loop", "Left"),
        "Hash Join" | "Nested Loop" => (kind, "Inner"),
        kind => (kind, ""),
    };
    tell("Node Type", Value::from(kind));
    let (relation, alias) = relation.split_once(' ').unwrap_or((relation, ""));
    let names = [("Join Type", join), ("Index Name", index), ("Relation Name", relation), ("Alias", alias)];
    for (key, name) in names.into_iter().filter(|(_, name)| !name.is_empty()) {
        tell(key, Value::from(name));
    }
    if let Some(rows) = number(rows.trim_end_matches(')')) {
        tell("Plan Rows", rows);
    }
    if is_left_out {
        tell("Actual Loops", Value::from(0));
    }
    for figure in actual.trim_end_matches(')').split(' ') {
        let Some((name, value)) = figure.split_once('=') else { continue };
        let key = match name {
            "time" => "Actual Total Time",
            "rows" => "Actual Rows",
            _ => "Actual Loops",
        };
        tell(key, number(value).unwrap_or_else(|| Value::from(value)));
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Value {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        serde_json::from_str::<Value>(&json(&lines)).expect("JSON")[0].clone()
    }

    #[test]
    fn each_node_is_in_the_one_above_it() {
        let whole = of(&[
            "Point path: about 5 rows to look at",
            "Limit  (rows=5)",
            "  ->  Hash Left Join  (rows=9) (actual time=0.250 rows=4 loops=1)",
            "        Hash Cond: (a.id = b.id)",
            "        ->  Index Scan using a_pkey on a x  (rows=9) (never executed)",
            "              Index Cond: id = 5",
            "        ->  Seq Scan on b  (rows=3)",
            "              Rows Removed by Filter: 7",
            "SubPlan 1",
            "  ->  Result  (rows=1)",
            "Rows Examined: 12",
            "Planning Time: 0.125 ms",
        ]);
        assert_eq!(whole["Planning Time"].as_f64(), Some(0.125));
        assert_eq!(whole["Rows Examined"].as_i64(), Some(12));
        assert_eq!(whole["Path"], "Point path: about 5 rows to look at");
        let limit = &whole["Plan"];
        assert_eq!(limit["Node Type"], "Limit");
        assert_eq!(limit["Plan Rows"].as_i64(), Some(5));
        let join = &limit["Plans"][0];
        assert_eq!([&join["Node Type"], &join["Join Type"]], ["Hash Join", "Left"]);
        assert_eq!(join["Hash Cond"], "(a.id = b.id)");
        assert_eq!(join["Actual Total Time"].as_f64(), Some(0.25));
        let [scan, other] = [&join["Plans"][0], &join["Plans"][1]];
        assert_eq!([&scan["Index Name"], &scan["Relation Name"], &scan["Alias"]], ["a_pkey", "a", "x"]);
        assert_eq!(scan["Index Cond"], "id = 5");
        assert_eq!(scan["Actual Loops"].as_i64(), Some(0));
        assert_eq!(other["Relation Name"], "b");
        assert_eq!(other["Rows Removed by Filter"].as_i64(), Some(7));
        assert_eq!(limit["Plans"][1]["Node Type"], "SubPlan 1");
        assert_eq!(limit["Plans"][1]["Plans"][0]["Node Type"], "Result");
    }

    #[test]
    fn a_plan_of_the_analytical_path_nests_by_its_blanks_and_no_deeper_than_can_be_written() {
        let lines =
            ["Analytical path: why", "  SortExec: expr=[a@0 ASC]", "    DataSourceExec: x: y", "Rows: 3"];
        let whole = of(&lines);
        assert_eq!([&whole["Plan"]["Node Type"], &whole["Plan"]["Details"]], ["SortExec", "expr=[a@0 ASC]"]);
        assert_eq!(whole["Plan"]["Plans"][0]["Details"], "x: y");
        assert_eq!(whole["Rows"].as_i64(), Some(3));
        let mut lines = vec!["Analytical path: why".to_owned()];
        lines.extend((1..5_000).map(|depth| format!("{}UnionExec", "  ".repeat(depth))));
        let written = json(&lines);
        assert_eq!(written.matches("UnionExec").count(), 4_999);
        assert!(serde_json::from_str::<Value>(&written).is_ok());
    }
}
