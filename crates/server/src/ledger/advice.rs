//! `rowhouse.advise`: the candidates for a tenant's promise, held against what is on record of it.

use base::{ByteCount, Nanos, SqlError, SqlResult, SqlState, TenantId};
use governor::{
    Advice, Assessment, CachePoint, DemandRecord, Goal, PageIo, Promise, PromiseKey, RollUpBlock,
    ShareForGoal, Shortfall, TooLittle, WallMinute, advise,
};
use sql::session::{AdviceEntry, AdviceFound, AdviceShortfall};

use crate::shared::Shared;
use crate::tenants::statements;
use crate::work_memory::granted;

/// What a tenant has, and could have.
pub(super) struct Candidates {
    pub(super) tenant: TenantId,
    present: Promise,
    size: Option<String>,
    /// What each size says, over the defaults; from small to large.
    sizes: Vec<(String, Promise)>,
}

impl Candidates {
    /// Of the tenant `name`, for a session of the tenant `asks`, or of the administrator for `None`.
    ///
    /// # Errors
    /// 42501 for a tenant that asks for another, whether that exists or not; 3D000 for one that does not exist.
    pub(super) fn of(shared: &Shared, asks: Option<TenantId>, name: &str) -> SqlResult<Candidates> {
        let entry = shared.tenants.named(name);
        if asks.is_some_and(|asks| entry.as_ref().is_none_or(|entry| entry.id != asks)) {
            let message = format!("permission denied for tenant \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .with_detail("A tenant is advised on itself only; the administrator is on all."));
        }
        let entry = entry.ok_or_else(|| statements::missing(name))?;
        let row = entry.row();
        let mut sizes: Vec<(String, Promise)> = match entry.id {
            // It has no size.
            TenantId::SYSTEM => Vec::new(),
            _ => {
                let size = |(name, options): (String, governor::PromiseOptions)| {
                    (name, options.over(&Promise::default()))
                };
                shared.sizes.list().into_iter().map(size).collect()
            }
        };
        sizes.sort_by_key(|(_, size)| (size.cpu.reserved, size.io.iops, size.memory.memory));
        Ok(Candidates { tenant: entry.id, present: row.promise, size: row.size, sizes })
    }

    /// The answer, from what is on record, the tenant's cache-size curve and the volumes' names.
    pub(super) fn advise(
        &self,
        recorded: &RollUpBlock,
        curve: &[(ByteCount, PageIo)],
        p99: Option<Nanos>,
        volumes: &[String],
    ) -> Vec<AdviceEntry> {
        let cache: Vec<CachePoint> =
            curve.iter().map(|(memory, io)| CachePoint { memory: *memory, ios: io.total() }).collect();
        let record = DemandRecord::new(self.tenant, &recorded.rows, &recorded.samples, &cache);
        let goal = Goal { statement_p99: p99, ..Goal::default() };
        let sizes: Vec<Promise> = self.sizes.iter().map(|(_, size)| in_force(size)).collect();
        let Some(mut advice) = advise(&record, &goal, &in_force(&self.present), &sizes) else {
            return vec![AdviceEntry { note: Some(NOTHING.to_owned()), ..self.present_entry() }];
        };
        if advice.assessment.work_memory.1 == 0 {
            advice.promise.memory.work_memory = self.present.memory.work_memory;
        }
        let since = recorded.rows.iter().map(|row| row.from).min().unwrap_or_default();
        let found = |assessment: &Assessment| Some(found(assessment, volumes, since));
        let mut entries = vec![
            AdviceEntry {
                found: found(&advice.assessment),
                note: Some(note(&advice, &goal, &record, &cache)),
                ..entry("proposed", None, &advice.promise)
            },
            AdviceEntry { found: found(&advice.present), ..self.present_entry() },
        ];
        for (index, ((name, size), assessment)) in self.sizes.iter().zip(&advice.sizes).enumerate() {
            let candidate = if advice.size == Some(index) { "proposed size" } else { "size" };
            entries.push(AdviceEntry { found: found(assessment), ..entry(candidate, Some(name), size) });
        }
        entries
    }

    fn present_entry(&self) -> AdviceEntry {
        entry("present", self.size.as_ref(), &self.present)
    }
}

/// What a promise comes to: of working memory everybody has some.
fn in_force(promise: &Promise) -> Promise {
    Promise { memory: granted(&promise.memory), ..promise.clone() }
}

const NOTHING: &str = "nothing is on record yet: a minute is, once it is over";

fn entry(candidate: &'static str, size: Option<&String>, promise: &Promise) -> AdviceEntry {
    AdviceEntry {
        candidate,
        size: size.cloned(),
        cpu: f64::from(promise.cpu.reserved.0) / 1000.0,
        iops: promise.io.iops,
        memory: promise.get(PromiseKey::Memory),
        work_memory: promise.get(PromiseKey::WorkMemory),
        found: None,
        note: None,
    }
}

fn found(assessment: &Assessment, volumes: &[String], since: WallMinute) -> AdviceFound {
    let io = assessment.io.iter().max_by_key(|(_, short)| (short.intervals_max, short.missing_max));
    let io = io.map(|(volume, short)| {
        let name = volumes.get(*volume as usize).cloned().unwrap_or_else(|| volume.to_string());
        (name, shortfall(short, 1.0))
    });
    let names: Vec<&str> = assessment.too_little.iter().map(|what| option_of(*what)).collect();
    AdviceFound {
        too_little: (!names.is_empty()).then(|| names.join(", ")),
        cpu: shortfall(&assessment.cpu, 1e9),
        io,
        cache_excess: assessment.cache_excess,
        spills: assessment.work_memory,
        keeps_p99: assessment.keeps_goal,
        since: crate::session::from_unix_seconds(i64::from(since.0) * 60),
    }
}

fn option_of(what: TooLittle) -> &'static str {
    match what {
        TooLittle::Cpu => PromiseKey::Cpu.as_str(),
        TooLittle::Iops => PromiseKey::Iops.as_str(),
        TooLittle::Memory => PromiseKey::Memory.as_str(),
        TooLittle::WorkMemory => PromiseKey::WorkMemory.as_str(),
        TooLittle::StatementP99 => "p99_ms",
    }
}

fn shortfall(of: &Shortfall, unit: f64) -> AdviceShortfall {
    AdviceShortfall {
        intervals: of.of,
        broken: (of.intervals_min, of.intervals_max),
        missed: (of.missing_min as f64 / unit, of.missing_max as f64 / unit),
    }
}

/// What the proposal rests on, and what is not known.
fn note(advice: &Advice, goal: &Goal, record: &DemandRecord, cache: &[CachePoint]) -> String {
    let mut notes = vec![format!("enough for {} % of what is on record", goal.part * 100.0)];
    if let (Some(p99), Some(share)) = (goal.statement_p99, advice.share_for_goal) {
        notes.push(note_of_goal(p99, share, record.minutes_with_statements()));
    }
    notes.push(match cache.last() {
        Some(largest) if advice.promise.memory.memory == largest.memory => {
            format!(
                "memory: {} is the largest that was simulated, and more may spare more page I/O",
                largest.memory
            )
        }
        Some(largest) => format!(
            "memory: at most {} % more page I/O than with {}, the largest that was simulated",
            DemandRecord::CACHE_EXCESS_PERCENT,
            largest.memory
        ),
        None => {
            "memory as at present: no cache was simulated, which takes a promise of memory and uses of pages"
                .to_owned()
        }
    });
    if advice.assessment.work_memory.1 == 0 {
        notes.push("work_memory as at present: no use of any is on record".to_owned());
    }
    notes.join("; ")
}

fn note_of_goal(p99: Nanos, share: ShareForGoal, minutes: usize) -> String {
    let ms = p99.0 as f64 / 1e6;
    match share {
        ShareForGoal::Enough(share) => format!(
            "99 of 100 statements took at most {ms} ms in the minutes in which it had {share} of a core or more for its tasks, and longer with less"
        ),
        ShareForGoal::AllEnough(share) => format!(
            "99 of 100 statements took at most {ms} ms with every share of a core on record, {share} the smallest: less may do"
        ),
        ShareForGoal::NotForWantOfCpu => format!(
            "statements took longer than {ms} ms with the largest shares of a core on record, too: they do not lack processor time; see rowhouse.tenant_waits"
        ),
        ShareForGoal::TooLittleOnRecord => {
            format!("{minutes} minutes with statements are on record, too few to tell what keeps {ms} ms")
        }
    }
}

#[cfg(test)]
mod tests {
    use governor::{LedgerRow, MilliCores, OwnLimit, Resource, RollUp, Sampled, SparseHistogram};

    use super::*;

    const ACME: TenantId = TenantId(16);
    const SECOND: Nanos = Nanos::from_secs(1);

    fn row(tenant: TenantId, resource: Resource, given: u64, active: u64) -> LedgerRow {
        LedgerRow {
            tenant,
            resource,
            from: Nanos(0),
            to: SECOND,
            promised: 0,
            demanded: 0,
            given,
            missed: 0,
            by_chance: 0,
            over: 0,
            own_limit: OwnLimit::default(),
            active: Nanos(active),
            cause: None,
            delays: None,
            owed_micros: 0,
        }
    }

    fn candidates() -> Candidates {
        let size = |name: &str, options: &str| {
            let options: governor::PromiseOptions = options.parse().unwrap();
            (name.to_owned(), options.over(&Promise::default()))
        };
        let present = size("", "cpu = 0.1, memory = 64MiB, cpu_max = 2").1;
        let sizes = vec![
            size("small", "cpu = 0.05, iops = 50, memory = 64MiB"),
            size("medium", "cpu = 0.5, iops = 200, memory = 256MiB"),
            size("large", "cpu = 4, iops = 800, memory = 1GiB"),
        ];
        Candidates { tenant: ACME, present, size: Some("small".to_owned()), sizes }
    }

    /// 40 minutes in which it had 0.4 of a core whenever it had tasks, in half of the time, asked the second volume for 100 I/Os a second, and answered in 4 ms.
    fn recorded() -> RollUpBlock {
        let (mut roll_up, mut times) = (RollUp::default(), SparseHistogram::default());
        times.record(4_000_000);
        for minute in 7..47 {
            let minute = WallMinute(minute);
            roll_up.add(&row(ACME, Resource::Cpu, 200_000_000, 500_000_000), minute);
            roll_up.add(&row(ACME, Resource::Io { volume: 0 }, 3, 1), minute);
            roll_up.add(&row(ACME, Resource::Io { volume: 1 }, 100, 1), minute);
            roll_up.add(&row(TenantId(17), Resource::Cpu, 900_000_000, 900_000_000), minute);
            roll_up.add_samples(ACME, Sampled::StatementTime, &times, minute);
        }
        let mut recorded = roll_up.take_all();
        recorded.keep_only(ACME);
        recorded
    }

    fn volumes() -> [String; 2] {
        ["default".to_owned(), "fast".to_owned()]
    }

    #[test]
    fn every_candidate_has_a_row_that_says_what_it_is_too_little_for() {
        let rows = candidates().advise(&recorded(), &[], None, &volumes());
        let names: Vec<_> = rows.iter().map(|row| (row.candidate, row.size.as_deref())).collect();
        let expected = [
            ("proposed", None),
            ("present", Some("small")),
            ("size", Some("small")),
            ("proposed size", Some("medium")),
            ("size", Some("large")),
        ];
        assert_eq!(names, expected);
        let found = |at: usize| rows[at].found.as_ref().expect("on record");
        let too_little: Vec<_> = (0..5).map(|at| found(at).too_little.as_deref()).collect();
        assert_eq!(too_little, [None, Some("cpu, iops"), Some("cpu, iops"), None, None]);
        // Wanted is half a core, as it had a task for half of the time.
        assert!((0.5..0.55).contains(&rows[0].cpu) && (100..=110).contains(&rows[0].iops), "{:?}", rows[0]);
        assert_eq!((rows[1].cpu, rows[1].memory.as_str()), (0.1, "64MiB"));
        let short = found(1);
        assert_eq!((short.cpu.intervals, short.cpu.broken), (40, (40, 40)));
        // Between what it got and what it wanted, 0.1 and 0.4 cores in each of 40 seconds, a sixteenth more or less.
        assert!((3.5..=4.0).contains(&short.cpu.missed.0), "{short:?}");
        assert!((16.0..=17.5).contains(&short.cpu.missed.1), "{short:?}");
        let (volume, io) = short.io.as_ref().expect("on record");
        assert_eq!((volume.as_str(), io.intervals, io.broken), ("fast", 40, (40, 40)));
        assert_eq!(found(3).io.as_ref().expect("on record").1.broken, (0, 0));
        assert_eq!((short.cache_excess, short.spills, short.keeps_p99), (None, (0, 0), None));
        assert_eq!(short.since, crate::session::from_unix_seconds(7 * 60));
        let note = rows[0].note.as_deref().expect("a note");
        for part in ["99 %", "memory as at present: no cache", "work_memory as at present"] {
            assert!(note.contains(part), "{note}");
        }
        assert_eq!((rows[0].memory.as_str(), &rows[1].note), ("64MiB", &None));
    }

    #[test]
    fn the_goal_and_the_caches_are_told_of() {
        let page_io = |reads| PageIo { reads, write_backs: 0 };
        let curve =
            [(32, 900), (64, 104), (128, 100)].map(|(mib, ios)| (ByteCount::from_mib(mib), page_io(ios)));
        let ask = |ms, curve: &[_]| {
            candidates().advise(&recorded(), curve, Some(Nanos::from_millis(ms)), &volumes())
        };
        let rows = ask(5, &curve);
        let note = rows[0].note.as_deref().expect("a note");
        assert!(
            note.contains("at most 5 ms with every share of a core on record, 0.4 the smallest"),
            "{note}"
        );
        assert!(note.contains("128MiB, the largest that was simulated"), "{note}");
        assert_eq!(rows[0].memory, "64MiB");
        let found = |at: usize| rows[at].found.as_ref().expect("on record");
        assert_eq!((found(2).cache_excess, found(3).cache_excess), (Some(4), Some(0)));
        assert_eq!((found(2).keeps_p99, found(3).keeps_p99), (None, Some(true)), "less may do");
        let rows = ask(2, &curve[..2]);
        let note = rows[0].note.as_deref().expect("a note");
        assert!(note.contains("do not lack processor time"), "{note}");
        assert!(note.contains("64MiB is the largest that was simulated"), "{note}");
        let too_little = &rows[4].found.as_ref().expect("on record").too_little;
        assert_eq!(too_little.as_deref(), Some("p99_ms"), "no size helps");
        let mut short = recorded();
        short.samples.truncate(29);
        let rows = candidates().advise(&short, &[], Some(SECOND), &volumes());
        let note = rows[0].note.as_deref().expect("a note");
        assert!(note.contains("29 minutes with statements are on record, too few"), "{note}");
    }

    #[test]
    fn working_memory_that_everybody_has_is_enough_without_a_promise() {
        let ask = |need: ByteCount| {
            let (mut recorded, mut needs) = (recorded(), SparseHistogram::default());
            needs.record(need.0);
            recorded.samples[0].sampled = Sampled::WorkMemory;
            recorded.samples[0].amounts = needs;
            let rows = candidates().advise(&recorded, &[], None, &volumes());
            let present = rows[1].found.as_ref().expect("on record");
            let proposed: ByteCount = rows[0].work_memory.parse().expect("bytes");
            assert!(proposed >= need, "{proposed}");
            (present.spills, present.too_little.clone().expect("too little"))
        };
        let everybody = granted(&Promise::default().memory).work_memory;
        assert_eq!(ask(everybody), ((0, 1), "cpu, iops".to_owned()));
        assert_eq!(ask(everybody + ByteCount(1)), ((1, 1), "cpu, iops, work_memory".to_owned()));
    }

    #[test]
    fn of_whom_nothing_is_on_record_the_present_promise_is_told() {
        let rows = candidates().advise(&RollUpBlock::default(), &[], None, &volumes());
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].candidate, rows[0].cpu), ("present", 0.1));
        assert!(rows[0].found.is_none());
        assert_eq!(rows[0].note.as_deref(), Some(NOTHING));
    }

    #[test]
    fn what_is_proposed_can_be_promised() {
        let proposed = &candidates().advise(&recorded(), &[], None, &volumes())[0];
        let mut promise = Promise::default();
        for (key, value) in [("cpu", proposed.cpu.to_string()), ("iops", proposed.iops.to_string())] {
            promise.set(key, &value).expect(key);
        }
        promise.set("memory", &proposed.memory).expect("memory");
        promise.set("work_memory", &proposed.work_memory).expect("work_memory");
        assert!(promise.cpu.reserved >= MilliCores(500));
    }
}
