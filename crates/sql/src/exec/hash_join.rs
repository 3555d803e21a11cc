//! Hash joins: one side in a table by its keys.

use std::ops::Range;

use rustc_hash::FxHashMap;
use types::{Datum, Row, row_memory};

use super::node::Emit;
use super::row_key::push_key_of;
use super::{Cx, Flow, Halt, Key, Run};
use crate::expr::{BoundExpr, eval_filter, eval_ref};
use crate::memory_bound::{Held, require_row_len};
use crate::plan::Node;

/// The rows of a join's right side (its slots only), by key.
pub(super) struct JoinTable<'m> {
    rows: FxHashMap<Box<[u8]>, Vec<Kept>>,
    /// Where the right side remembers keys of its relations that are locked or changed.
    places: Vec<usize>,
    held: Held<'m>,
}

struct Kept {
    values: Row,
    /// The keys that it was found with, one for each place.
    keys: Vec<Key>,
}

impl Run<'_, '_> {
    pub(super) fn build(
        &self,
        right: &Node,
        keys: &[BoundExpr],
        slots: &Range<usize>,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
    ) -> Halt<JoinTable<'_>> {
        let mut places = Vec::new();
        right.key_places(&mut places);
        let mut table = JoinTable { rows: FxHashMap::default(), places, held: self.memory.hold() };
        let mut key = Vec::new();
        self.node(right, cx, row, &mut |row| {
            if self.join_key(keys, cx, row, &mut key)? {
                let right = &row[slots.clone()];
                let keys: Vec<Key> = table.places.iter().map(|place| self.remembered_key(*place)).collect();
                let keys_len: usize = keys.iter().map(|key| size_of::<Key>() + key.len()).sum();
                self.hold(&mut table.held, key.len() + row_memory(right) + keys_len)?;
                let kept = Kept { values: right.to_vec(), keys };
                table.rows.entry(key.as_slice().into()).or_default().push(kept);
            }
            Ok(Flow::More)
        })?;
        Ok(table)
    }

    /// Emits the pairs of the current left row: whether there were any, or `None` when no more are wanted.
    #[expect(clippy::too_many_arguments, reason = "one probe of a join")]
    pub(super) fn probe_table(
        &self,
        table: &JoinTable<'_>,
        keys: &[BoundExpr],
        on: Option<&BoundExpr>,
        slots: &Range<usize>,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Option<bool>> {
        let mut key = Vec::new();
        if !self.join_key(keys, cx, row, &mut key)? {
            return Ok(Some(false));
        }
        let Some(matches) = table.rows.get(key.as_slice()) else { return Ok(Some(false)) };
        let mut matched = false;
        for kept in matches {
            self.step()?;
            row[slots.clone()].clone_from_slice(&kept.values);
            self.note_filled(kept.values.iter().map(Datum::heap_bytes).sum(), cx, row)?;
            for (place, key) in table.places.iter().zip(&kept.keys) {
                self.remember_key(*place, key.clone());
            }
            let holds = match on {
                Some(on) => eval_filter(on, &cx.row(row)).map_err(|error| self.halt(error))?,
                None => true,
            };
            if holds {
                matched = true;
                if emit(row)? == Flow::Stop {
                    return Ok(None);
                }
            }
        }
        Ok(Some(matched))
    }

    /// Writes the key of a row; false if a part is NULL, which joins nothing.
    pub(super) fn join_key(
        &self,
        keys: &[BoundExpr],
        cx: &Cx<'_>,
        row: &[Datum],
        out: &mut Vec<u8>,
    ) -> Halt<bool> {
        out.clear();
        let ctx = cx.row(row);
        for expr in keys {
            let value = eval_ref(expr, &ctx).map_err(|error| self.halt(error))?;
            if value.is_null() {
                return Ok(false);
            }
            push_key_of(expr.ty, &value, out);
            require_row_len(out.len())?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn floats_of_both_widths_are_joined_by_hash() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE a (x real); CREATE TABLE b (y double precision);
             INSERT INTO a VALUES (0.5), (0.1), ('-0'), ('NaN'), (NULL);
             INSERT INTO b VALUES (0.5), (0.1), (0), ('NaN'), (NULL), (0.1::real);
             INSERT INTO b SELECT g FROM generate_series(1000, 2000) g",
        );
        let delete = "DELETE FROM a USING b WHERE a.x = b.y RETURNING y";
        let plan = bench.run(&mut session, &format!("EXPLAIN {delete}")).lines();
        assert!(plan.iter().any(|line| line.contains("Hash Join")), "{plan:?}");
        let mut met = bench.run(&mut session, delete).lines();
        met.sort();
        assert_eq!(met, ["0", "0.10000000149011612", "0.5", "NaN"]);
    }

    #[test]
    fn a_join_by_hash_knows_the_rows_of_its_right_side() {
        let mut bench = Bench::new();
        let (mut session, mut other) = (bench.session(), bench.session());
        bench.run(
            &mut session,
            "CREATE TABLE b (id int, v int); INSERT INTO b SELECT g, g FROM generate_series(1, 1000) g;
             CREATE TABLE q (id int); INSERT INTO q VALUES (3), (4), (5)",
        );
        let delete = "DELETE FROM b USING q WHERE b.id = q.id RETURNING b.id";
        let plan = bench.run(&mut session, &format!("EXPLAIN (COSTS off) {delete}")).lines();
        assert!(plan.iter().any(|line| line.contains("Hash Join")), "{plan:?}");
        assert_eq!(bench.run(&mut session, delete).lines(), ["3", "4", "5"]);
        assert_eq!(bench.run(&mut session, "SELECT count(*), max(id) FROM b").lines(), ["997|1000"]);
        let update = "UPDATE b SET v = 0 FROM q WHERE b.id = q.id + 3 RETURNING b.id";
        assert_eq!(bench.run(&mut session, update).lines(), ["6", "7", "8"]);
        assert_eq!(bench.run(&mut session, "SELECT id FROM b WHERE v = 0").lines(), ["6", "7", "8"]);
        let lock = "BEGIN; SELECT b.id FROM q JOIN b ON b.id = q.id + 10 FOR UPDATE OF b";
        assert_eq!(bench.run(&mut session, lock).lines(), ["13", "14", "15"]);
        let refused = bench.fail(&mut other, "SELECT id FROM b WHERE id = 14 FOR UPDATE NOWAIT");
        assert_eq!(refused.state().to_string(), "55P03");
        assert_eq!(
            bench.run(&mut other, "SELECT id FROM b WHERE id = 1000 FOR UPDATE NOWAIT").lines(),
            ["1000"]
        );
    }
}
