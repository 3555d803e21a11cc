//! Plans of prepared statements, each once in memory for all sessions, of whatever tenants, that have equal ones.
//!
//! Many tenants have one schema and one program, and so have their plans, the definitions of tables in them included. What a statement reads of its
//! plan is then in the processor's caches whoever ran it last. Each session makes its plan as if there were no other, and gives it up for an equal one
//! that is there: so nothing here has to know what a plan depends on. What differs from session to session (the catalog's version, who was let in, whether
//! the tables have outgrown it) is beside it, in [`Planned`]. Estimates are in it: numbers of rows are taken in steps for statements with names, so that tables
//! which grow side by side do not make each plan another one.
//!
//! The truth are the plans; here are texts, and by them weak references. Each session counts its plans in full, shared or not. The texts are nobody's; there
//! is room for a bounded number, of which each tenant has as many as the others where they want more.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base::TenantId;
use rustc_hash::FxHashMap;
use tenant::catalog::{Catalog, Table};
use types::{Datum, PgType};

use super::prepared::Planned;
use super::reply::Field;
use super::{Home, Session};
use crate::plan::BoundPlan;

/// Bytes of a plan that is shared, by estimate: two are compared within a turn.
const PLAN_SIZE_MAX: usize = 64 << 10;
/// Bytes of its statement's text.
const TEXT_LEN_MAX: usize = 4 << 10;
/// Texts that are remembered.
const TEXTS_MAX: usize = 1 << 10;
/// After so many new plans, and as many as there are texts, the texts are forgotten whose plans are gone: that looks at each plan, under the lock.
const LOOK_AFTER_MIN: usize = 64;
/// Columns of a table of such a plan, with indexes, constraints and privileges; and bytes of its defaults and conditions. Two are compared with the plan,
/// and one that its tenant has changed or dropped stays for as long as somebody else's plan has it.
const TABLE_PARTS_MAX: usize = 256;
const TABLE_TEXTS_LEN_MAX: usize = 16 << 10;
/// Different plans of one text: those of tenants whose tables are not quite the same, or have other numbers of rows. A new one takes the place of
/// what the fewest have, of those of the tenant that has brought the most of them.
const VARIANTS_MAX: usize = 8;
/// Texts of which the one goes that the fewest have, where a tenant gives one up for another tenant's: under the lock.
const GIVEN_UP_OF: usize = 16;

const _: () = assert!(TEXTS_MAX * TEXT_LEN_MAX <= 4 << 20);

/// The plans that the sessions of a server have in common.
#[derive(Default)]
pub struct SharedPlans(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_text: FxHashMap<Box<str>, Text>,
    /// How many of them each tenant has brought that has brought any.
    brought: FxHashMap<TenantId, usize>,
    /// Plans that came so far, and with which of them it is looked again.
    noted: usize,
    next_look: usize,
    /// So many texts are passed over before it is looked again which of the others are of use to nobody.
    to_pass_over: usize,
}

/// A text with its plans.
struct Text {
    /// Whose session came with it first.
    of: TenantId,
    plans: Vec<Shared>,
}

impl Text {
    /// How many have the plan of it that the most have.
    fn had_by(&self) -> usize {
        self.plans.iter().map(|plan| plan.bound.strong_count()).max().unwrap_or(0)
    }
}

/// A plan with what goes with it.
#[derive(Clone)]
struct Shared {
    /// Whose session came with it first.
    of: TenantId,
    bound: Weak<BoundPlan>,
    parameters: Weak<[PgType]>,
    fields: Option<Weak<[Field]>>,
}

impl Shared {
    fn of(of: TenantId, planned: &Planned) -> Shared {
        Shared {
            of,
            bound: Arc::downgrade(&planned.bound),
            parameters: Arc::downgrade(&planned.parameters),
            fields: planned.fields.as_ref().map(Arc::downgrade),
        }
    }

    fn is_there(&self) -> bool {
        self.bound.strong_count() > 0
    }

    /// Puts it in the place of an equal one; false where it is another one, or gone.
    fn replace(&self, planned: &mut Planned) -> bool {
        let Some(bound) = self.bound.upgrade().filter(|bound| *bound == planned.bound) else { return false };
        planned.bound = bound;
        if let Some(parameters) = self.parameters.upgrade() {
            planned.parameters = parameters;
        }
        if let Some(fields) = self.fields.as_ref().and_then(Weak::upgrade) {
            planned.fields = Some(fields);
        }
        true
    }
}

impl Known {
    fn note(&mut self, of: TenantId, sql: &str, planned: &Planned) {
        self.noted += 1;
        if self.noted >= self.next_look {
            self.retain(|text, _| {
                text.plans.retain(Shared::is_there);
                !text.plans.is_empty()
            });
            self.next_look = self.noted + self.by_text.len().max(LOOK_AFTER_MIN);
        }
        let is_full = self.by_text.len() >= TEXTS_MAX && !self.by_text.contains_key(sql);
        if is_full && !self.take_from_most(of) && !self.make_room(of) {
            return;
        }
        let Known { by_text, brought, .. } = self;
        let text = by_text.entry(sql.into()).or_insert_with(|| {
            *brought.entry(of).or_default() += 1;
            Text { of, plans: Vec::new() }
        });
        let plans = &mut text.plans;
        plans.retain(Shared::is_there);
        if plans.len() >= VARIANTS_MAX {
            // The new one among them.
            let number_of = |tenant: TenantId| {
                plans.iter().filter(|plan| plan.of == tenant).count() + usize::from(tenant == of)
            };
            // Who has it keeps it; the new one may come to be had by many.
            let fewest = (0..plans.len())
                .min_by_key(|at| (Reverse(number_of(plans[*at].of)), plans[*at].bound.strong_count()));
            fewest.into_iter().for_each(|at| drop(plans.swap_remove(at)));
        }
        plans.push(Shared::of(of, planned));
    }

    /// Forgets the texts of which nobody has a plan that somebody else has: those of `of`, and of tenants that have brought more. Whether there is room then.
    fn make_room(&mut self, of: TenantId) -> bool {
        if self.to_pass_over > 0 {
            self.to_pass_over -= 1;
            return false;
        }
        let own = self.brought_by(of);
        self.retain(|text, brought| text.had_by() > 1 || text.of != of && brought <= own);
        if self.by_text.len() > TEXTS_MAX / 2 {
            self.to_pass_over = TEXTS_MAX;
        }
        self.by_text.len() < TEXTS_MAX
    }

    /// Forgets a text of the tenant that has brought the most, for one that `of` brings; false where `of` would have as many as that tenant then.
    fn take_from_most(&mut self, of: TenantId) -> bool {
        let own = self.brought_by(of);
        let most = self.brought.iter().max_by_key(|(_, texts)| **texts);
        let Some((&most, _)) = most.filter(|(_, texts)| **texts > own + 1) else { return false };
        let texts = self.by_text.iter().filter(|(_, text)| text.of == most).take(GIVEN_UP_OF);
        let fewest = texts.min_by_key(|(_, text)| text.had_by()).map(|(sql, _)| sql.clone());
        let sql = fewest.expect("it has brought some");
        self.by_text.remove(&sql);
        count_one_less(&mut self.brought, most);
        true
    }

    fn brought_by(&self, tenant: TenantId) -> usize {
        self.brought.get(&tenant).copied().unwrap_or(0)
    }

    /// Forgets the texts that are not to stay. `stays` is told how many their tenants have.
    fn retain(&mut self, mut stays: impl FnMut(&mut Text, usize) -> bool) {
        let Known { by_text, brought, .. } = self;
        by_text.retain(|_, text| {
            let is_kept = stays(text, brought[&text.of]);
            if !is_kept {
                count_one_less(brought, text.of);
            }
            is_kept
        });
    }
}

fn count_one_less(brought: &mut FxHashMap<TenantId, usize>, of: TenantId) {
    let texts = brought.get_mut(&of).expect("whoever has a text there has brought it");
    *texts -= 1;
    if *texts == 0 {
        brought.remove(&of);
    }
}

impl SharedPlans {
    /// Puts an equal plan of the same text in the place of this one, or has this one found by others.
    fn share(&self, of: TenantId, sql: &str, catalog: &Catalog, planned: &mut Planned) {
        if sql.len() > TEXT_LEN_MAX || !may_be_shared(planned, catalog) {
            return;
        }
        // Compared without the lock, which all workers have in common.
        let plans = |known: &mut Known| known.by_text.get(sql).map(|text| text.plans.clone());
        let plans = self.known(plans).unwrap_or_default();
        if !plans.iter().any(|plan| plan.replace(planned)) {
            self.known(|known| known.note(of, sql, planned));
        }
    }

    fn known<T>(&self, body: impl FnOnce(&mut Known) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether plans that compare as equal are the same. `==` takes 0 and -0 of floating point for one: those that a statement, a default or a condition
/// names are told by its text, which is compared too; those in a view's query, and those that rows have which are older than their column, are not.
fn may_be_shared(planned: &Planned, catalog: &Catalog) -> bool {
    let Some(plan) = planned.bound.point() else { return false };
    // Else some of its parameters and columns were told elsewhere.
    let is_bound_here = planned.is_described() && planned.parameters[..] == planned.bound.parameters[..];
    let is_view = |oid| catalog.view(oid).is_some();
    let mut tables = plan.tables.iter().filter_map(|(oid, _)| catalog.table(*oid));
    let mut changed_beside = plan.cascades.iter().map(|cascade| &cascade.table);
    is_bound_here
        && !planned.bound.accesses.iter().any(|access| is_view(access.relation))
        && planned.bound.size() <= PLAN_SIZE_MAX
        && tables.all(|table| is_compared_well(table))
        && changed_beside.all(|table| is_compared_well(table))
}

fn is_compared_well(table: &Table) -> bool {
    let Table { columns, indexes, checks, foreign_keys, referenced_by, acl, .. } = table;
    let mut missing = columns.iter().filter_map(|column| column.missing.as_deref());
    let is_float = |value: &Datum| matches!(value, Datum::Float4(_) | Datum::Float8(_) | Datum::Array(_));
    let defaults = columns.iter().filter_map(|column| column.default.as_deref());
    let texts = defaults.chain(checks.iter().map(|check| &*check.expression)).map(str::len);
    let parts = [columns.len(), indexes.len(), checks.len(), foreign_keys.len(), referenced_by.len()];
    let parts = parts.iter().sum::<usize>() + acl.as_ref().map_or(0, |acl| acl.0.len());
    !missing.any(is_float) && parts <= TABLE_PARTS_MAX && texts.sum::<usize>() <= TABLE_TEXTS_LEN_MAX
}

impl Session {
    /// Has the plan of a statement with a name, which is run many times, be one with an equal one of others.
    pub(super) fn share_plan(&self, home: &Home<'_>, name: &str, sql: &str, planned: &mut Arc<Planned>) {
        if !name.is_empty()
            && let Some(plans) = self.start.host.shared_plans()
            && let Some(planned) = Arc::get_mut(planned)
        {
            plans.share(home.tenant.id(), sql, self.peek_catalog(home), planned);
        }
    }
}

#[cfg(test)]
mod tests {
    use env::sim::World;

    use super::*;
    use crate::session::Bind;
    use crate::session::stand_in::{Answer, LoneHost};
    use crate::session::testing::{Bench, OwnAnswers};

    const BIND: Bind<'static> =
        Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };

    struct Server {
        lone: LoneHost,
        plans: SharedPlans,
    }

    impl OwnAnswers for Server {
        fn lone(&self) -> &LoneHost {
            &self.lone
        }
        fn shared_plans(&self) -> Option<&SharedPlans> {
            Some(&self.plans)
        }
    }

    fn server() -> Arc<Server> {
        Arc::new(Server { lone: LoneHost(World::new(7).env()), plans: SharedPlans::default() })
    }

    /// A tenant of a server, with a session.
    fn tenant_of(server: &Arc<Server>) -> (Bench, Session) {
        numbered_tenant_of(server, TenantId(77))
    }

    fn numbered_tenant_of(server: &Arc<Server>, id: TenantId) -> (Bench, Session) {
        let mut bench = Bench::of(id);
        let session = bench.session_from(server.clone());
        (bench, session)
    }

    fn tenants() -> [(Bench, Session); 2] {
        let server = server();
        std::array::from_fn(|_| tenant_of(&server))
    }

    fn prepare((bench, session): &mut (Bench, Session), name: &str, sql: &str) {
        bench.turn(|home| session.parse(home, name, sql, &[], &mut Answer::default())).unwrap();
    }

    fn plan_of((_, session): &(Bench, Session), name: &str) -> Arc<BoundPlan> {
        session.statements[name].plan.as_ref().expect("it is planned").bound.clone()
    }

    fn run((bench, session): &mut (Bench, Session), name: &str) -> Vec<String> {
        let mut out = Answer::default();
        let bind = Bind { statement: name, ..BIND };
        bench.turn(|home| {
            session.bind(home, bind, &mut out).unwrap();
            session.execute(home, "", None, &mut out).unwrap();
            session.sync(home, &mut out).unwrap();
        });
        out.lines()
    }

    /// Runs a script in both.
    fn run_both(tenants: &mut [(Bench, Session); 2], sql: &str) {
        for (bench, session) in tenants {
            bench.run(session, sql);
        }
    }

    #[test]
    fn tenants_with_equal_tables_have_one_plan_and_each_its_own_rows() {
        const SQL: &str = "SELECT v FROM t WHERE id = 1";
        let mut both = tenants();
        run_both(&mut both, "CREATE TABLE t (id int PRIMARY KEY, v text)");
        both.iter_mut().for_each(|tenant| prepare(tenant, "s", SQL));
        let [one, other] = &mut both;
        assert!(Arc::ptr_eq(&plan_of(one, "s"), &plan_of(other, "s")));
        one.0.run(&mut one.1, "INSERT INTO t VALUES (1, 'one')");
        other.0.run(&mut other.1, "INSERT INTO t VALUES (1, 'other')");
        assert_eq!((run(one, "s"), run(other, "s")), (vec!["one".into()], vec!["other".into()]));

        // What one does to its table is no matter of the other's.
        other.0.run(&mut other.1, "ALTER TABLE t ADD COLUMN w int");
        assert_eq!((run(other, "s"), run(one, "s")), (vec!["other".into()], vec!["one".into()]));
        assert!(!Arc::ptr_eq(&plan_of(one, "s"), &plan_of(other, "s")));
        one.0.run(&mut one.1, "ALTER TABLE t ADD COLUMN w int");
        assert_eq!(run(one, "s"), ["one"]);
        assert!(Arc::ptr_eq(&plan_of(one, "s"), &plan_of(other, "s")), "it is planned anew, and equal again");
        one.0.run(&mut one.1, "DROP TABLE t");
        assert_eq!(run(other, "s"), ["other"]);
    }

    #[test]
    fn tables_of_about_one_size_make_one_plan() {
        const SQL: &str = "SELECT count(*) FROM t WHERE a = 1";
        let mut both = tenants();
        run_both(&mut both, "CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))");
        for ((bench, session), rows) in both.iter_mut().zip([1_100, 1_150]) {
            bench.run(session, &format!("INSERT INTO t SELECT g % 10, g FROM generate_series(1, {rows}) g"));
        }
        both.iter_mut().for_each(|tenant| prepare(tenant, "s", SQL));
        let [one, other] = &mut both;
        assert!(Arc::ptr_eq(&plan_of(one, "s"), &plan_of(other, "s")));
        // EXPLAIN of the statement itself tells what there is.
        let explained =
            |(bench, session): &mut (Bench, Session)| bench.run(session, &format!("EXPLAIN {SQL}")).lines();
        assert_ne!(explained(one), explained(other));

        other.0.run(&mut other.1, "INSERT INTO t SELECT 2, g FROM generate_series(10000, 11000) g");
        prepare(other, "larger", SQL);
        assert!(!Arc::ptr_eq(&plan_of(one, "s"), &plan_of(other, "larger")), "twice as many rows");
    }

    #[test]
    fn what_only_looks_equal_is_not_shared() {
        let mut both = tenants();
        run_both(&mut both, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
        for ((bench, session), zero) in both.iter_mut().zip(["-0", "0"]) {
            bench.run(session, &format!("ALTER TABLE t ADD COLUMN f float8 DEFAULT '{zero}'"));
            bench.run(session, "ALTER TABLE t ALTER COLUMN f DROP DEFAULT");
            bench.run(session, &format!("CREATE VIEW w AS SELECT '{zero}'::float8 AS f FROM t"));
        }
        for tenant in &mut both {
            prepare(tenant, "older", "SELECT f FROM t");
            prepare(tenant, "view", "SELECT f FROM w");
            prepare(tenant, "", "SELECT id FROM t WHERE id = 1");
        }
        let [one, other] = &mut both;
        for name in ["older", "view"] {
            assert_eq!((run(one, name), run(other, name)), (vec!["-0".into()], vec!["0".into()]), "{name}");
        }
        let (one, other) = (plan_of(one, ""), plan_of(other, ""));
        assert!(!Arc::ptr_eq(&one, &other), "one without a name is planned each time");
    }

    #[test]
    fn texts_of_which_nobody_shares_a_plan_make_room() {
        let [mut one, mut other] = tenants();
        for n in 0..TEXTS_MAX + 10 {
            prepare(&mut one, &format!("s{n}"), &format!("SELECT {n}"));
        }
        prepare(&mut other, "last", &format!("SELECT {}", TEXTS_MAX + 9));
        let last = format!("s{}", TEXTS_MAX + 9);
        assert!(Arc::ptr_eq(&plan_of(&one, &last), &plan_of(&other, "last")));
    }

    #[test]
    fn one_tenants_texts_leave_room_for_those_of_others() {
        let server = server();
        let [mut greedy, mut one, mut other] =
            [16, 17, 18].map(|id| numbered_tenant_of(&server, TenantId(id)));
        // Each twice: somebody shares its plan.
        let fill = |greedy: &mut (Bench, Session), first: usize| {
            for n in first..first + TEXTS_MAX + 10 {
                for name in ["one", "other"] {
                    prepare(greedy, &format!("{name} {n}"), &format!("SELECT {n}"));
                }
            }
        };
        fill(&mut greedy, 10_000);
        let texts: Vec<_> = (0..20).map(|n| format!("SELECT {n}")).collect();
        for sql in &texts {
            prepare(&mut one, sql, sql);
        }
        fill(&mut greedy, 20_000);
        for sql in &texts {
            prepare(&mut other, sql, sql);
            assert!(Arc::ptr_eq(&plan_of(&one, sql), &plan_of(&other, sql)), "{sql}");
        }
        let brought = server.plans.known(|known| known.brought.clone());
        assert_eq!((brought[&TenantId(16)], brought[&TenantId(17)]), (TEXTS_MAX - texts.len(), texts.len()));
    }

    #[test]
    fn one_tenants_plans_of_a_text_leave_those_of_others_there() {
        const SQL: &str = "SELECT * FROM t";
        let server = server();
        let with_column = |id: u64, column: u64| {
            let mut tenant = numbered_tenant_of(&server, TenantId(id));
            tenant.0.run(&mut tenant.1, &format!("CREATE TABLE t (id int PRIMARY KEY, c{column} int)"));
            tenant
        };
        let others = 1..VARIANTS_MAX as u64;
        let mut all: Vec<_> = others.map(|column| with_column(100 + column, column)).collect();
        all.iter_mut().for_each(|tenant| prepare(tenant, "s", SQL));
        let mut greedy = with_column(16, 0);
        for n in 0..2 * VARIANTS_MAX {
            greedy.0.run(&mut greedy.1, &format!("ALTER TABLE t ADD COLUMN d{n} int"));
            for name in ["one", "another", "third"] {
                prepare(&mut greedy, &format!("{name} {n}"), SQL);
            }
        }
        for (column, tenant) in (1..).zip(&all) {
            let mut twin = with_column(200 + column, column);
            prepare(&mut twin, "s", SQL);
            assert!(Arc::ptr_eq(&plan_of(&twin, "s"), &plan_of(tenant, "s")), "c{column}");
        }
    }

    #[test]
    fn a_plan_finds_others_of_its_kind_behind_many_different_ones() {
        let server = server();
        let mut all = Vec::new();
        for number in 0..VARIANTS_MAX + 2 {
            let mut tenant = tenant_of(&server);
            // The last two have one schema.
            let column = number.min(VARIANTS_MAX);
            tenant.0.run(&mut tenant.1, &format!("CREATE TABLE t (id int PRIMARY KEY, c{column} int)"));
            prepare(&mut tenant, "s", "SELECT * FROM t");
            all.push(tenant);
        }
        let plans: Vec<_> = all.iter().map(|tenant| plan_of(tenant, "s")).collect();
        assert!(Arc::ptr_eq(&plans[VARIANTS_MAX], &plans[VARIANTS_MAX + 1]));
        assert!(!Arc::ptr_eq(&plans[0], &plans[VARIANTS_MAX]));
    }
}
