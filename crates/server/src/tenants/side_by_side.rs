//! Upkeep of several tenants at a time, of which none holds up the others'.
//!
//! A few are begun at a time, so that clients find the disk free. One that takes long, as that of a tenant at its limits does, goes on by
//! itself, and its place is another's: what a tenant may do a second keeps others waiting for a moment, and once.

use std::future::Future;

use base::{Nanos, TenantId};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use rustc_hash::FxHashMap;

/// Begun at a time. Each writes 64 MiB a second at most where it leaves the disk to others.
const PLACES: usize = 4;
/// How long one keeps its place. A checkpoint of 16 MiB takes as long.
const PLACE_TIME: Nanos = Nanos::from_millis(250);
/// Under way at a time: a checkpoint has up to 2 MiB of writes in flight, so 512 MiB of buffers.
const UNDER_WAY_MAX: usize = 256;

/// Tasks by tenant, one each. Dropped with it.
#[derive(Default)]
pub(super) struct SideBySide {
    began: FxHashMap<TenantId, Nanos>,
    tasks: FuturesUnordered<BoxFuture<'static, TenantId>>,
}

impl SideBySide {
    /// Whether the tenant's task has not ended.
    pub(super) fn has(&mut self, tenant: TenantId) -> bool {
        self.take_ended();
        self.began.contains_key(&tenant)
    }

    /// Whether [`SideBySide::begin`] would not wait.
    pub(super) fn has_place(&mut self) -> bool {
        self.take_ended();
        self.began.len() < UNDER_WAY_MAX && self.next_place(env::now()).is_none()
    }

    /// When a place is free again; `None` if one is.
    fn next_place(&self, now: Nanos) -> Option<Nanos> {
        let kept = self.began.values().map(|began| *began + PLACE_TIME).filter(|until| *until > now);
        let (mut count, mut first) = (0, None);
        for until in kept {
            count += 1;
            first = Some(first.map_or(until, |first: Nanos| first.min(until)));
        }
        first.filter(|_| count >= PLACES)
    }

    /// Waits for a place, then begins a task of the tenant, which has none.
    ///
    /// # Panics
    /// If it has one.
    pub(super) async fn begin<F>(&mut self, tenant: TenantId, begin: impl FnOnce() -> F)
    where
        F: Future + Send + 'static,
    {
        assert!(!self.has(tenant), "one task a tenant");
        while !self.has_place() {
            let until = self.next_place(env::now()).filter(|_| self.began.len() < UNDER_WAY_MAX);
            let _ = env::timeout_at(until, self.ended()).await;
        }
        self.began.insert(tenant, env::now());
        self.tasks.push(begin().map(move |_| tenant).boxed());
    }

    /// Waits until one ends; for ever if there is none.
    pub(super) async fn ended(&mut self) {
        match self.tasks.next().await {
            Some(tenant) => drop(self.began.remove(&tenant)),
            None => std::future::pending().await,
        }
    }

    /// Waits until all have ended.
    pub(super) async fn all_ended(&mut self) {
        while !self.began.is_empty() {
            self.ended().await;
        }
    }

    fn take_ended(&mut self) {
        while let Some(Some(tenant)) = self.tasks.next().now_or_never() {
            self.began.remove(&tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use env::block_on;
    use env::sim::World;

    use super::*;

    const MS: u64 = 1_000_000;

    fn tenant(n: u64) -> TenantId {
        TenantId(16 + n)
    }

    /// Begins a task for each of the times, in order; when each began.
    async fn begins(side_by_side: &mut SideBySide, times_ms: &[u64]) -> Vec<u64> {
        let since = env::now();
        let mut began = Vec::new();
        for (n, time) in (0..).zip(times_ms) {
            side_by_side.begin(tenant(n), || env::sleep(Nanos(time * MS))).await;
            began.push((env::now() - since).0 / MS);
        }
        began
    }

    #[test]
    fn a_few_at_a_time_and_who_takes_long_keeps_nobody_waiting_for_long() {
        block_on(&World::new(1).env(), async {
            let mut side_by_side = SideBySide::default();
            // One is done at 10; three hold on to their places until 250, and who came for the first until 260.
            let times = [100_000, 10, 100_000, 100_000, 400, 20, 20, 20, 20];
            let began = begins(&mut side_by_side, &times).await;
            assert_eq!(began, [0, 0, 0, 0, 10, 250, 250, 250, 260]);
            assert!(side_by_side.has(tenant(0)) && !side_by_side.has(tenant(1)));
            assert!(!side_by_side.has_place());
            side_by_side.all_ended().await;
            assert!(!side_by_side.has(tenant(0)) && side_by_side.has_place());
        });
    }

    #[test]
    fn no_more_are_under_way_than_there_are_buffers_for() {
        block_on(&World::new(2).env(), async {
            let mut side_by_side = SideBySide::default();
            let began = begins(&mut side_by_side, &[100_000; UNDER_WAY_MAX + 1]).await;
            let last_place = (UNDER_WAY_MAX / PLACES - 1) as u64 * PLACE_TIME.0 / MS;
            assert_eq!(began[UNDER_WAY_MAX - 1], last_place);
            assert_eq!(began[UNDER_WAY_MAX], 100_000, "the first has ended");
        });
    }
}
