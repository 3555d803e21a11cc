//! A TPC-C run: terminals on every tenant, a warm-up, a measured time, the consistency check.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::random::{NuRand, TpccRandom};
use super::statements::Statements;
use super::transaction::{KINDS, NEW_ORDER, Terminal};
use super::{Scale, check};
use crate::Result;
use crate::load::{self, Live, Outcome, Pace, Plan, Tally, Transactor};
use crate::report::{RunReport, since_1970_us};
use crate::target::Target;

/// What a run is.
#[derive(Clone, Debug)]
pub struct Options {
    pub scale: Scale,
    pub clients_per_tenant: usize,
    pub plan: Plan,
    pub seed: u64,
    /// Check the consistency conditions afterwards.
    pub check: bool,
}

impl Transactor for Terminal {
    fn choose(&mut self) -> usize {
        Terminal::choose(self)
    }

    async fn run(&mut self, _kind: usize) -> Result<Outcome> {
        Terminal::run(self).await
    }
}

/// Runs TPC-C on databases that [`super::load`] has filled. `live` has an entry for each tenant and may be watched meanwhile.
/// Must run within a `tokio::task::LocalSet`.
///
/// # Errors
/// When a client fails for another reason than a conflict.
pub async fn run(target: &Target, options: &Options, live: &[Arc<Live>]) -> Result<RunReport> {
    let product = target.product().await?;
    let mut terminals = Vec::new();
    for tenant in 0..target.databases.len() {
        for number in 0..options.clients_per_tenant {
            let mut connection = target.open(tenant).await?;
            let statements = Statements::prepare(&mut connection).await?;
            let seed =
                options.seed ^ ((tenant as u64) << 32 | number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let random = TpccRandom::new(seed, NuRand::RUN);
            let number = u32::try_from(number)?;
            terminals.push((tenant, Terminal::new(connection, statements, random, options.scale, number)));
        }
    }
    let total = Rc::new(RefCell::new(Tally::new(KINDS.len())));
    let start = Instant::now();
    let measured_from = SystemTime::now() + options.plan.warm_up;
    let running: Vec<_> = terminals
        .into_iter()
        .map(|(tenant, terminal)| {
            let live = Arc::clone(&live[tenant]);
            let client = load::run_client(terminal, options.plan, start, live, Rc::clone(&total));
            (tenant, tokio::task::spawn_local(client))
        })
        .collect();
    let mut tenant_counts = vec![0u64; target.databases.len()];
    for (tenant, client) in running {
        tenant_counts[tenant] += client.await??;
    }
    let total = total.take();
    let seconds = options.plan.run.as_secs_f64();
    let mut violations = Vec::new();
    if options.check {
        for tenant in 0..target.databases.len() {
            let client = target.connect(tenant).await?;
            let found = check(&client, options.scale.first_undelivered() - 1).await?;
            let database = &target.databases[tenant];
            violations.extend(found.into_iter().map(|violation| format!("{database}: {violation}")));
        }
    }
    Ok(RunReport {
        workload: "TPC-C by wire".into(),
        server: product.label(),
        tenants: target.databases.len(),
        clients_per_tenant: options.clients_per_tenant,
        setting: format!("{}; {}", options.scale, pace_in_words(options.plan.pace)),
        measured_from_us: since_1970_us(measured_from),
        seconds,
        transactions: total.count(),
        transactions_per_second: total.count() as f64 / seconds,
        tpmc: Some(total.kind_count(NEW_ORDER) as f64 * 60.0 / seconds),
        tenant_tps: tenant_counts.iter().map(|count| *count as f64 / seconds).collect(),
        kinds: total.reports(&KINDS),
        log: total.log,
        violations,
    })
}

/// A pace as reports print it.
pub(crate) fn pace_in_words(pace: Pace) -> String {
    match pace {
        Pace::Closed => "closed loop, no think time".into(),
        Pace::Open { per_second } => format!("open loop, {per_second} transactions/s a client"),
        Pace::Think(pause) => format!("think time {} ms", Duration::as_millis(&pause)),
    }
}
