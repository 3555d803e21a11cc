//! Joins that look a row up by its key for each row of a scan, where all of them are wanted. Some rows of the scan wait until those that are looked up for
//! them have been asked for from memory together: the processor waits for them side by side, and not for one after the other.

use types::Datum;

use super::node::Emit;
use super::{Cx, Flow, Halt, Key, Run};
use crate::expr::{BoundExpr, ExprKind, Volatility};
use crate::plan::{AccessPath, KeyPart, Node, NodeKind, ScanNode};

/// Rows that wait for each other: as many as a tree looks up side by side.
const GROUP_LEN: usize = 16;
/// Long ones do not wait for others beyond so many bytes.
const WAITING_BYTES: usize = 64 << 10;

/// A scan, and what is looked up for each of its rows.
struct LookUps<'n> {
    join: &'n Node,
    left: &'n Node,
    right: &'n Node,
    scan: &'n ScanNode,
    looked_up: &'n ScanNode,
}

/// Rows of the scan that wait.
#[derive(Default)]
struct Waiting {
    rows: usize,
    /// The values of their columns, row after row.
    values: Vec<Datum>,
    /// Bytes that the values have elsewhere.
    bytes: usize,
    /// Keys of the rows that are looked up for them.
    keys: Vec<Key>,
}

impl Run<'_, '_> {
    /// As [`Run::node`]. `wants_all`: `emit` does not stop before the last row.
    pub(super) fn node_to_end(
        &self,
        node: &Node,
        wants_all: bool,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Flow> {
        let Some(of) = self.look_ups(node).filter(|_| wants_all) else {
            return self.node(node, cx, row, emit);
        };
        let mut waiting = Waiting::default();
        let flow = self.node(of.left, cx, row, &mut |row| {
            waiting.keys.extend(self.whole_key(of.looked_up, cx, row)?);
            waiting.take(of.scan, row);
            match waiting.rows < GROUP_LEN && waiting.bytes < WAITING_BYTES {
                true => Ok(Flow::More),
                false => self.look_up(&of, &mut waiting, cx, row, emit),
            }
        })?;
        match flow {
            Flow::More => self.look_up(&of, &mut waiting, cx, row, emit),
            Flow::Stop => Ok(Flow::Stop),
        }
    }

    /// What a node is if its rows may wait: nothing is to be seen of the order in which the two tables are read.
    fn look_ups<'n>(&self, node: &'n Node) -> Option<LookUps<'n>> {
        let NodeKind::NestedLoop { left, right, left_outer: false, .. } = &node.kind else { return None };
        let (NodeKind::Scan(scan), NodeKind::Scan(looked_up)) = (&left.kind, &right.kind) else {
            return None;
        };
        let is_volatile = |filter: &BoundExpr| filter.volatility() == Volatility::Volatile;
        let is_plain = !left.finds_one_row()
            && right.finds_one_row()
            && has_plain_key(looked_up)
            && scan.key.is_none()
            && looked_up.key.is_none()
            && ![&left.filter, &right.filter, &node.filter].into_iter().flatten().any(is_volatile);
        let is_alone =
            self.limits.profile.is_none() && self.limits.slice.is_none() && self.only.borrow().is_none();
        (is_plain && is_alone).then_some(LookUps { join: node, left, right, scan, looked_up })
    }

    /// Calls `emit` with each waiting row and what is found for it.
    fn look_up(
        &self,
        of: &LookUps<'_>,
        waiting: &mut Waiting,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Flow> {
        if waiting.keys.len() > 1 {
            self.view.borrow().ask_for_rows(&of.looked_up.table, &waiting.keys);
        }
        waiting.keys.clear();
        waiting.bytes = 0;
        let rows = std::mem::take(&mut waiting.rows);
        let mut values = waiting.values.drain(..);
        for _ in 0..rows {
            for column in &of.scan.wanted {
                row[of.scan.first + column] = values.next().expect("each row has left its values");
            }
            let found = self.node(of.right, cx, row, &mut |row| match self.passes(of.join, cx, row)? {
                true => emit(row),
                false => Ok(Flow::More),
            });
            if self.past_miss(found)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::More)
    }
}

impl Waiting {
    /// Takes the scan's values out of a row.
    fn take(&mut self, scan: &ScanNode, row: &mut [Datum]) {
        self.rows += 1;
        for column in &scan.wanted {
            let value = std::mem::take(&mut row[scan.first + column]);
            self.bytes += value.heap_bytes();
            self.values.push(value);
        }
    }
}

/// Whether a key is made of columns and parameters as they are: nothing can fail.
fn has_plain_key(scan: &ScanNode) -> bool {
    let AccessPath::Index { parts, .. } = &scan.path else { return false };
    parts.iter().all(|part| match part {
        KeyPart::Equal(value, _) => {
            matches!(value.kind, ExprKind::Column(_) | ExprKind::Param(_) | ExprKind::Const(_))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    /// The sum of what is in a column of these lines, and how many there are.
    fn summed(lines: &[String]) -> String {
        let sum: i64 = lines.iter().map(|line| line.parse::<i64>().unwrap()).sum();
        format!("{}|{sum}", lines.len())
    }

    #[test]
    fn rows_that_wait_for_each_other_are_joined_as_one_by_one() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE line (id int PRIMARY KEY, item int, body text);
             CREATE TABLE item (id int PRIMARY KEY, n int);
             INSERT INTO item SELECT g, g % 100 FROM generate_series(1, 2000) g;
             INSERT INTO line SELECT g, CASE WHEN g % 7 = 0 THEN NULL ELSE g * 37 % 2500 END,
                 repeat('x', g % 5 * 300) FROM generate_series(1, 300) g",
        );
        let check = |bench: &mut Bench, session: &mut crate::session::Session| {
            for wanted in [
                "line.id BETWEEN 20 AND 90",
                "line.id BETWEEN 20 AND 21",
                "line.id BETWEEN 500 AND 600",
                "line.id > 0 AND item.n < 50",
                "line.id > 100 AND length(line.body) > 300 AND item.n + line.id > 150",
            ] {
                let from = format!("FROM line, item WHERE item.id = line.item AND {wanted}");
                let rows = bench.run(session, &format!("SELECT item.n + length(line.body) {from}")).lines();
                let sums = format!("SELECT count(*), coalesce(sum(item.n + length(line.body)), 0) {from}");
                assert_eq!(bench.run(session, &sums).lines(), [summed(&rows)], "{wanted}");
            }
        };
        check(&mut bench, &mut session);
        bench.run(&mut session, "BEGIN; UPDATE item SET n = n + 1000 WHERE id < 1000");
        bench.run(&mut session, "DELETE FROM item WHERE id BETWEEN 1500 AND 1800");
        check(&mut bench, &mut session);
        bench.run(&mut session, "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ");
        check(&mut bench, &mut session);
    }
}
