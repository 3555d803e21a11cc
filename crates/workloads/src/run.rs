//! A run of any workload: the databases are filled, clients work on them, a warm-up passes, the rest is measured, what the
//! workload demands is checked.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::Result;
use crate::copy::Progress;
use crate::load::{self, Live, Plan, Tally};
use crate::report::{RunReport, since_1970_us};
use crate::target::Target;
use crate::workload::Workload;

/// What a run is, whatever the workload.
#[derive(Clone, Debug)]
pub struct Options {
    pub clients_per_tenant: usize,
    pub plan: Plan,
    pub seed: u64,
    /// Check the workload's conditions afterwards.
    pub check: bool,
}

/// Makes and fills a workload's tables in a database that has none of them.
///
/// # Errors
/// When the server refuses.
pub async fn load(
    workload: &impl Workload,
    client: &Client,
    seed: u64,
    progress: Progress<'_>,
) -> Result<()> {
    workload.create(client).await?;
    workload.fill(client, seed, progress).await?;
    workload.complete(client).await
}

/// Makes a workload's tables with their keys and indexes, without rows.
///
/// # Errors
/// When the server refuses.
pub async fn create_schema(workload: &impl Workload, client: &Client) -> Result<()> {
    workload.create(client).await?;
    workload.complete(client).await
}

/// A seed for each client, far from the others'.
fn seed_of(seed: u64, tenant: usize, number: usize) -> u64 {
    seed ^ ((tenant as u64) << 32 | number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Runs a workload on databases that [`load`] has filled. `live` has an entry for each tenant and may be watched meanwhile.
/// Must run within a `tokio::task::LocalSet`.
///
/// # Errors
/// When a client fails for another reason than a conflict.
pub async fn run<W: Workload>(
    target: &Target,
    workload: &W,
    options: &Options,
    live: &[Arc<Live>],
) -> Result<RunReport> {
    let (plan, tenants) = (options.plan, target.databases.len());
    let product = target.product().await?;
    let mut clients = Vec::new();
    for tenant in 0..tenants {
        for number in 0..options.clients_per_tenant {
            let connection = target.open(tenant).await?;
            let seed = seed_of(options.seed, tenant, number);
            clients.push((tenant, workload.client(connection, seed, u32::try_from(number)?).await?));
        }
    }
    let tally = Rc::new(RefCell::new(Tally::new(tenants, workload.kinds().len(), plan.series)));
    let start = Instant::now();
    let measured_from = SystemTime::now() + plan.warm_up;
    // Clients hang up when the run is dropped, or one of them fails.
    let mut running = JoinSet::new();
    for (tenant, client) in clients {
        let (live, tally) = (Arc::clone(&live[tenant]), Rc::clone(&tally));
        running.spawn_local(load::run_client(client, tenant, plan, start, live, tally));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let mut tally = tally.take();
    let measured = tally.finish(&plan);
    let mut violations = Vec::new();
    if options.check {
        for (tenant, database) in target.databases.iter().enumerate() {
            let found = workload.check(&target.connect(tenant).await?).await?;
            violations.extend(found.into_iter().map(|violation| format!("{database}: {violation}")));
        }
    }
    let seconds = measured.as_secs_f64();
    // Of a run in which nothing is measured all rates are zero.
    let over = if measured.is_zero() { 1.0 } else { seconds };
    Ok(RunReport {
        workload: workload.name(),
        server: product.label(),
        tenants,
        databases: target.databases.to_vec(),
        clients_per_tenant: options.clients_per_tenant,
        setting: format!("{}; {}", workload.setting(), plan.pace),
        measured_from_us: since_1970_us(measured_from),
        seconds,
        transactions: tally.count(),
        transactions_per_second: tally.count() as f64 / over,
        rates: workload.rates(&tally, over / 60.0),
        tenant_tps: tally.tenant_counts().map(|count| count as f64 / over).collect(),
        kinds: tally.reports(workload.kinds()),
        series: tally.series,
        log: tally.log,
        violations,
    })
}
