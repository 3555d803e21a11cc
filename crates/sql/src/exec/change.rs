//! UPDATE and DELETE, and what all changes share: new rows, CHECK, RETURNING.

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use tenant::Updated;
use tenant::catalog::Table;
use types::{Datum, Row, row_memory};

use super::insert::cast_row;
use super::{Cx, ExecError, ExternalRows, Flow, Halt, Key, RowSink, Run};
use crate::expr::{BoundExpr, eval_bool};
use crate::plan::{ChangeSource, CheckPlan, DeletePlan, Node, ReturningPlan, TargetColumn, UpdatePlan};

/// Changes that foreign keys ask for which a slice makes at most besides its own, of tables and indexes: some 500 us.
const CASCADED_A_SLICE: usize = 1024;

/// Likewise the first try of a change, which runs in slices where there are more.
const CASCADED_A_TURN: usize = 8192;

/// A row to change and the level's row it was found with.
struct Target {
    key: Key,
    row: Row,
    /// As [`row_memory`] says of the row.
    memory: usize,
}

/// A target as it is when it is changed.
enum AsFound {
    /// As it was found.
    Same(Target),
    /// Changed since, and still one of those the statement wants.
    Other(Target),
    /// Not there any more, or not wanted.
    Gone,
}

impl Run<'_, '_> {
    /// Runs an UPDATE; answers how many rows were changed.
    pub(super) fn update(
        &self,
        plan: &UpdatePlan,
        cx: &Cx<'_>,
        external: Option<ExternalRows<'_>>,
        sink: &mut dyn RowSink,
    ) -> Halt<u64> {
        // New rows are all made before the first change, so that no expression sees one.
        let mut targets = SmallVec::<[Target; 1]>::new();
        match &plan.source {
            ChangeSource::Node(from) => {
                self.targets(from, plan.key, plan.width, plan.joined, cx, &mut |target| {
                    if plan.in_part {
                        self.note_copied()?;
                    }
                    let target = self.assigned(plan, cx, target)?;
                    self.note_bytes(target.memory)?;
                    targets.push(target);
                    Ok(())
                })?;
            }
            ChangeSource::External { assigned } => {
                let columns = plan.table.live_columns().count();
                self.external_targets(
                    &plan.table,
                    external,
                    columns + assigned.len(),
                    cx,
                    &mut |mut target, row, types| {
                        let given = &row[columns..];
                        let given = cast_row(given, &types[columns..], assigned, cx)?;
                        let (ctx, mut bytes) = (cx.row(&given), 0);
                        for (column, value) in &plan.assignments {
                            target.row[*column] = self.part(value, &ctx, &mut bytes)?;
                        }
                        self.generate(&plan.generated, cx, &mut target.row)?;
                        target.memory = row_memory(&target.row);
                        self.note_bytes(target.memory)?;
                        targets.push(target);
                        Ok(())
                    },
                )?;
            }
        }
        let columns = plan.table.columns.len();
        let mut changed = 0;
        for target in targets {
            self.step()?;
            if !self.is_first_change(&plan.table, &target.key)? {
                continue;
            }
            let found = (&plan.source, plan.key, plan.width);
            let target = match self.as_it_is_now(&plan.table, found, cx, target)? {
                AsFound::Same(target) => target,
                AsFound::Other(target) => self.assigned(plan, cx, target)?,
                AsFound::Gone => continue,
            };
            let new = &target.row[..columns];
            self.check(&plan.table, &plan.checks, cx, new)?;
            let updated = if plan.in_part {
                let of = |(column, _): &(usize, BoundExpr)| (*column, &target.row[*column]);
                let changed: SmallVec<[(usize, &Datum); 4]> = plan.assignments.iter().map(of).collect();
                self.view.borrow_mut().update_in_part(&plan.table, &target.key, &changed)?
            } else {
                self.view.borrow_mut().update(&plan.table, &target.key, new)?
            };
            match updated {
                Updated::Gone => continue,
                Updated::Row(key) if key != target.key => {
                    self.is_first_change(&plan.table, &key)?;
                }
                Updated::Row(_) => {}
            }
            changed += 1;
            if let Some(returning) = &plan.returning {
                self.give_returning(returning, cx, &target.row, sink)?;
            }
        }
        Ok(changed)
    }

    /// Runs a DELETE; answers how many rows were deleted.
    pub(super) fn delete(
        &self,
        plan: &DeletePlan,
        cx: &Cx<'_>,
        external: Option<ExternalRows<'_>>,
        sink: &mut dyn RowSink,
    ) -> Halt<u64> {
        let mut targets = SmallVec::<[Target; 1]>::new();
        match &plan.source {
            ChangeSource::Node(from) => {
                self.targets(from, plan.key, plan.width, plan.joined, cx, &mut |target| {
                    targets.push(target);
                    Ok(())
                })?;
            }
            ChangeSource::External { .. } => {
                let columns = plan.table.live_columns().count();
                self.external_targets(&plan.table, external, columns, cx, &mut |target, _, _| {
                    targets.push(target);
                    Ok(())
                })?;
            }
        }
        let mut deleted = 0;
        for target in targets {
            self.step()?;
            if !self.is_first_change(&plan.table, &target.key)? {
                continue;
            }
            let found = (&plan.source, plan.key, plan.width);
            let target = match self.as_it_is_now(&plan.table, found, cx, target)? {
                AsFound::Same(target) | AsFound::Other(target) => target,
                AsFound::Gone => continue,
            };
            if !self.view.borrow_mut().delete(&plan.table, &target.key)? {
                continue;
            }
            deleted += 1;
            if let Some(returning) = &plan.returning {
                self.give_returning(returning, cx, &target.row, sink)?;
            }
        }
        Ok(deleted)
    }

    /// The target with its new values.
    fn assigned(&self, plan: &UpdatePlan, cx: &Cx<'_>, mut target: Target) -> Halt<Target> {
        let (ctx, mut bytes) = (cx.row(&target.row), 0);
        let mut values = SmallVec::<[Datum; 4]>::new();
        for (_, value) in &plan.assignments {
            values.push(Datum::Null);
            let slot = values.last_mut().expect("it was just pushed");
            self.part_into(value, &ctx, &mut bytes, slot)?;
        }
        for ((column, _), value) in plan.assignments.iter().zip(values) {
            target.memory += value.heap_bytes();
            let before = std::mem::replace(&mut target.row[*column], value);
            target.memory -= before.heap_bytes();
        }
        if !plan.generated.is_empty() {
            self.generate(&plan.generated, cx, &mut target.row)?;
            target.memory = row_memory(&target.row);
        }
        debug_assert_eq!(target.memory, row_memory(&target.row), "as if all of the row were looked at");
        Ok(target)
    }

    /// Works out generated columns of a row whose others have their values.
    pub(super) fn generate(
        &self,
        generated: &[(usize, BoundExpr)],
        cx: &Cx<'_>,
        row: &mut [Datum],
    ) -> Halt<()> {
        let mut bytes = 0;
        for (column, value) in generated {
            let value = self.part(value, &cx.row(row), &mut bytes)?;
            row[*column] = value;
        }
        Ok(())
    }

    /// What became of a target since the statement's snapshot: a statement that runs in slices reads that, and others commit
    /// between its slices. A row that is another one now is looked at again: the statement may not want it any more.
    fn as_it_is_now(
        &self,
        table: &Table,
        (source, place, width): (&ChangeSource, usize, usize),
        cx: &Cx<'_>,
        target: Target,
    ) -> Halt<AsFound> {
        let ChangeSource::Node(from) = source else { return Ok(AsFound::Same(target)) };
        if self.limits.slice.is_none() || self.view.borrow_mut().is_as_found(table, &target.key)? {
            return Ok(AsFound::Same(target));
        }
        let mut again = None;
        self.view.borrow_mut().read_newest(true);
        self.only.replace(Some(target.key));
        let found = self.targets(from, place, width, false, cx, &mut |target| {
            again = Some(target);
            Ok(())
        });
        self.only.replace(None);
        self.view.borrow_mut().read_newest(false);
        found?;
        Ok(again.map_or(AsFound::Gone, AsFound::Other))
    }

    /// Each target row once, with the first row of FROM it meets. `place`: where its key is remembered.
    fn targets(
        &self,
        from: &Node,
        place: usize,
        width: usize,
        joined: bool,
        cx: &Cx<'_>,
        take: &mut dyn FnMut(Target) -> Halt<()>,
    ) -> Halt<()> {
        let mut row = vec![Datum::Null; width];
        let is_only = !joined && self.limits.slice.is_none() && from.finds_one_row();
        let mut met: FxHashSet<Key> = FxHashSet::default();
        self.node(from, cx, &mut row, &mut |row| {
            let key = self.remembered_key(place);
            if joined && !met.insert(key.clone()) {
                return Ok(Flow::More);
            }
            // A lone scan fills every slot anew; a join goes on with the slots of its left side.
            let row = match (joined, is_only) {
                (true, _) => row.clone(),
                // Nobody fills its slots again.
                (false, true) => std::mem::take(row),
                (false, false) => std::mem::replace(row, vec![Datum::Null; width]),
            };
            let memory = row_memory(&row);
            self.note_changed(memory + key.len())?;
            take(Target { key, row, memory })?;
            Ok(Flow::More)
        })?;
        Ok(())
    }

    /// The target rows of a change whose rows were found elsewhere, with the row each was found with. They must not have
    /// changed since.
    fn external_targets(
        &self,
        table: &Table,
        external: Option<ExternalRows<'_>>,
        width: usize,
        cx: &Cx<'_>,
        take: &mut dyn FnMut(Target, &[Datum], &[types::PgType]) -> Halt<()>,
    ) -> Halt<()> {
        let Some(external) = external else {
            return Err(SqlError::internal("the rows of a change were not computed").into());
        };
        if external.types.len() != width {
            return Err(
                SqlError::internal("the rows of a change have other columns than were asked for").into()
            );
        }
        let columns: Vec<TargetColumn> = table
            .live_columns()
            .map(|(_, c)| TargetColumn { name: c.name.to_string(), ty: c.ty, typmod: c.typmod })
            .collect();
        let primary =
            table.primary_index().ok_or_else(|| SqlError::internal("a change by key without a key"))?;
        let mut met: FxHashSet<Key> = FxHashSet::default();
        for found in external.rows {
            let shown = cast_row(&found[..columns.len()], external.types, &columns, cx)?;
            let mut row = vec![Datum::Null; table.columns.len()];
            for ((position, _), value) in table.live_columns().zip(shown) {
                row[position] = value;
            }
            let values: Row = primary.column_positions().map(|c| row[c].clone()).collect();
            let key = tenant::row::keys::primary_key(table, &values);
            if !met.insert(key.clone()) {
                continue;
            }
            self.examine()?;
            let now = match self.view.borrow_mut().get(table, &key)? {
                Some(now) => now.to_row()?,
                None => return Err(changed_since()),
            };
            let same = now.iter().zip(&row).all(|(a, b)| match (a.is_null(), b.is_null()) {
                (false, false) => types::equal(a, b),
                (a, b) => a == b,
            });
            if !same {
                return Err(changed_since());
            }
            let memory = row_memory(&now);
            self.note_changed(memory + key.len())?;
            take(Target { key, row: now, memory }, found, external.types)?;
        }
        Ok(())
    }

    /// Ends a change: carries out what foreign keys ask for, works out the generated columns of the rows that they changed, and checks these. A slice leaves
    /// what is much to the next one.
    ///
    /// # Errors
    /// 23503, 23514, and those of the changes that cascade.
    pub(super) fn finish(&self, cx: &Cx<'_>) -> Halt<()> {
        loop {
            self.finish_references()?;
            let cascaded = self.view.borrow_mut().take_cascaded();
            let mut is_changed = false;
            for (table, key) in cascaded {
                self.step()?;
                let Some(of) = self.plan.cascades.iter().find(|of| of.table.oid == table) else { continue };
                let mut row = match self.view.borrow_mut().get(&of.table, &key)? {
                    Some(row) => row.to_row()?,
                    // Another foreign key deleted it.
                    None => continue,
                };
                let stored = (!of.generated.is_empty()).then(|| row.clone());
                self.generate(&of.generated, cx, &mut row)?;
                self.check(&of.table, &of.checks, cx, &row)?;
                if stored.is_some_and(|stored| stored != row) {
                    self.view.borrow_mut().update(&of.table, &key, &row)?;
                    is_changed = true;
                }
            }
            // Foreign keys may have an interest in what was generated.
            if !is_changed {
                return Ok(());
            }
        }
    }

    fn finish_references(&self) -> Halt<()> {
        match (self.limits.slice, self.limits.rows_examined_max) {
            (Some(_), _) => self.view.borrow_mut().finish_part(CASCADED_A_SLICE)?,
            (None, Some(_)) if self.plan.runs_in_slices => {
                self.view.borrow_mut().finish_part(CASCADED_A_TURN)?;
                if self.view.borrow().txn().owes_checks() {
                    return Err(ExecError::Outgrew);
                }
            }
            _ => self.view.borrow_mut().finish_statement()?,
        }
        Ok(())
    }

    pub(super) fn give_returning(
        &self,
        returning: &ReturningPlan,
        cx: &Cx<'_>,
        row: &[Datum],
        sink: &mut dyn RowSink,
    ) -> Halt<()> {
        let mut out = Row::with_capacity(returning.project.len());
        self.project(&returning.project, cx, row, &mut out)?;
        // Every row is changed whether or not the client wants to see more of them.
        sink.row(&out)?;
        Ok(())
    }

    /// # Errors
    /// 23514; 23502 before that, where there is something to check.
    pub(super) fn check(&self, table: &Table, checks: &[CheckPlan], cx: &Cx<'_>, row: &[Datum]) -> Halt<()> {
        if checks.is_empty() {
            return Ok(());
        }
        // Storing the row asks for this too, but after CHECK; PostgreSQL's order is the other one.
        self.view.borrow().require_not_null(table, row)?;
        for check in checks {
            let holds = eval_bool(&check.condition, &cx.row(row)).map_err(|error| self.halt(error))?;
            if holds == Some(false) {
                let message = format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    table.name, check.name
                );
                let view = self.view.borrow();
                let error = SqlError::new(SqlState::CHECK_VIOLATION, message)
                    .with_detail(view.failing_row(table, row))
                    .with_schema(view.catalog().schema_name(table.schema))
                    .with_table(table.name.as_str())
                    .with_constraint(check.name.as_str());
                return Err(error.into());
            }
        }
        Ok(())
    }
}

/// A row that was found on a snapshot is another one now.
fn changed_since() -> ExecError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .into()
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn a_slice_changes_few_long_rows_though_it_reads_little_of_them() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, n int, body text)");
        let rows = "INSERT INTO t SELECT g, 0, repeat('x', 4000) FROM generate_series(1, 4200) g";
        bench.run(&mut session, rows);
        let (answer, turns) = bench.run_in_turns(&mut session, "UPDATE t SET n = n + 1");
        assert_eq!(answer.tags, ["UPDATE 4200"]);
        assert!(turns as usize > 4200 * 4000 / (256 << 10), "{turns} turns");
        let changed = "SELECT count(*), min(length(body)) FROM t WHERE n = 1";
        assert_eq!(bench.run(&mut session, changed).lines(), ["4200|4000"]);
    }

    #[test]
    fn rows_found_by_their_whole_key_or_a_part_of_it_are_changed() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))");
        bench.run(&mut session, "INSERT INTO t SELECT g / 3, g % 3, 'v' || g FROM generate_series(0, 8) g");
        let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
        let one = "UPDATE t SET v = v || '!' WHERE a = 1 AND b = 2 RETURNING a, b, v";
        assert_eq!(lines(one), ["1|2|v5!"]);
        let of_list = "UPDATE t SET v = v || '?' WHERE a = 1 AND b IN (0, 2) RETURNING v";
        assert_eq!(lines(of_list), ["v3?", "v5!?"]);
        let moved = "UPDATE t SET b = b + 10, v = upper(v) WHERE a = 2 RETURNING b, v";
        assert_eq!(lines(moved), ["10|V6", "11|V7", "12|V8"]);
        let joined = "UPDATE t SET v = u.v FROM t u WHERE t.a = 0 AND t.b = 0 AND u.a = 1 RETURNING t.b";
        assert_eq!(lines(joined), ["0"]);
        let gone = "DELETE FROM t WHERE a = 0 AND b = 1 RETURNING v";
        assert_eq!(lines(gone), ["v1"]);
        assert!(lines(gone).is_empty());
    }
}
