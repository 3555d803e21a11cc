//! Replaying tenants with much in the log while the log is still being read, on threads of its own.
//!
//! A start reads all logs before anyone is served, and replaying needs nothing but what was read so far: so the two go on side
//! by side, on two threads: one reads and sorts records, the other applies them. What comes of it is a tenant as it was at one of its commits, which nobody may see before the logs were found sound
//! and made durable; its home takes it over when the tenant is opened, and replays the rest. Nothing is written. A head start
//! that fails, or that nobody could begin, is none: the home reads root and log by itself, and meets what was wrong.
//!
//! What the threads take is on the tenant's ledger once its home takes over ([`HeadStarts::take_time`]), and holds nobody up: it was before there was anybody, or beside workers that run
//! with priority.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use base::{ByteCount, Nanos, TenantId, VolumeNo};
use env::{Disk, Env, JoinHandle};
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use rustc_hash::FxHashMap;
use storage::MemoryBudget;
use storage::redo::RedoIndex;
use tenant::{OpenError, RecordSorter, SortedBatch, Tenant};

use crate::data_dir::tenant_file;
use crate::io_accounts::IoAccounts;

/// The tenants' head starts. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct HeadStarts(Arc<State>);

#[derive(Default)]
struct State {
    tenants: Mutex<FxHashMap<TenantId, HeadStart>>,
    /// Processor time that head starts took, whatever came of them, of tenants that have not been told of it.
    took: Mutex<FxHashMap<TenantId, Nanos>>,
    stopped: AtomicBool,
    /// None begins any more. Set under the lock of `tenants`.
    ended: AtomicBool,
}

enum HeadStart {
    UnderWay(Vec<Waker>),
    /// Under way, of a tenant that is not there.
    Unwanted,
    Done(PathBuf, Box<Tenant>),
    /// Failed, taken, or never to be begun. Known for as long as one might be begun.
    Over,
}

/// What a head start needs.
pub(crate) struct HeadStartRun {
    pub(crate) env: Env,
    pub(crate) io_accounts: IoAccounts,
    pub(crate) redo: RedoIndex,
    pub(crate) memory: Arc<MemoryBudget>,
    /// Where data files are, by the volumes' numbers.
    pub(crate) volumes: Vec<PathBuf>,
    /// A tenant with less in the logs is left to its home.
    pub(crate) len_min: ByteCount,
}

/// Where the tenant's data file is. `None` where several volumes have one of its name: only the catalogue, which is not read yet, knows which is the
/// tenant's, and the others are to stay as they are.
fn place_of(disk: &dyn Disk, volumes: &[PathBuf], id: TenantId) -> Option<(VolumeNo, PathBuf)> {
    let paths = volumes.iter().map(|volume| tenant_file(volume, id));
    let mut found = (0..).map(VolumeNo).zip(paths).filter(|(_, path)| disk.exists(path));
    let (volume, path) = found.next()?;
    // One directory may be several volumes.
    found.all(|(_, other)| other == path).then_some((volume, path))
}

impl HeadStarts {
    /// Begins with the first tenant that turns out to be large, on a thread of its own that ends with the last one.
    ///
    /// # Errors
    /// The system makes no thread.
    pub(crate) fn begin(&self, run: HeadStartRun) -> std::io::Result<HeadStartThread> {
        let starts = self.clone();
        let threads = run.env.threads.clone();
        let body = move || {
            env::block_on(&run.env, starts.run(&run));
            starts.end();
        };
        let thread = threads.spawn("head-start", None, Box::new(body))?;
        Ok(HeadStartThread { starts: self.clone(), thread: Some(thread) })
    }

    async fn run(&self, run: &HeadStartRun) {
        let untouched = |tenant| tenant != TenantId::SYSTEM && !self.lock().contains_key(&tenant);
        while let Some(tenant) = run.redo.large_tenant(run.len_min, untouched).await {
            if self.is_stopped() {
                return;
            }
            let Some(under_way) = self.claim(tenant) else { continue };
            // The thread does nothing else.
            let began = run.env.clock.thread_cpu();
            let replayed = self.replay(run, tenant).await;
            self.add_time(tenant, run.env.clock.thread_cpu() - began);
            match replayed {
                Ok(Some((path, replayed))) => under_way.done(path, replayed),
                Ok(None) => {}
                // Its home will say so where it matters.
                Err(error) => tracing::debug!(tenant = tenant.0, %error, "no head start"),
            }
        }
    }

    async fn replay(&self, run: &HeadStartRun, id: TenantId) -> Result<Option<(PathBuf, Tenant)>, OpenError> {
        let Some((volume, path)) = place_of(run.env.disk.as_ref(), &run.volumes, id) else { return Ok(None) };
        let env = run.env.charging(&run.io_accounts.of(id, volume));
        let mut tenant = Tenant::open(&env, &path, id).await?;
        tenant.charge_to(&run.memory);
        let sorter = RecordSorter::new(&tenant, &run.redo);
        let starts = self.clone();
        let mut sorted = match SortedAhead::begin(&run.env, sorter, move |took| starts.add_time(id, took)) {
            Ok(sorted) => sorted,
            Err(error) => {
                tracing::debug!(tenant = id.0, %error, "no thread for a head start");
                return Ok(None);
            }
        };
        let replayed = tenant.replay_so_far(async || sorted.next().await, || !self.is_stopped()).await?;
        drop(sorted);
        let (commits, changes) = (replayed.commits, replayed.changes);
        tracing::info!(tenant = id.0, commits, changes, "redo log replayed while it was read");
        Ok((!run.redo.has_failed()).then_some((path, tenant)))
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, HeadStart>> {
        self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_took(&self) -> MutexGuard<'_, FxHashMap<TenantId, Nanos>> {
        self.0.took.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_time(&self, tenant: TenantId, took: Nanos) {
        *self.lock_took().entry(tenant).or_default() += took;
    }

    /// The processor time that the tenant's head start took, once: whoever asks charges it.
    pub(crate) fn take_time(&self, id: TenantId) -> Nanos {
        self.lock_took().remove(&id).unwrap_or_default()
    }

    /// No other one begins: of those that are over nothing has to be known.
    fn end(&self) {
        let mut tenants = self.lock();
        self.0.ended.store(true, Ordering::Relaxed);
        tenants.retain(|_, start| !matches!(start, HeadStart::Over));
        tenants.shrink_to_fit();
    }

    /// The tenant has none from now on; what there was.
    fn over(&self, tenants: &mut FxHashMap<TenantId, HeadStart>, id: TenantId) -> Option<HeadStart> {
        match self.0.ended.load(Ordering::Relaxed) {
            true => tenants.remove(&id),
            false => tenants.insert(id, HeadStart::Over),
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    fn claim(&self, tenant: TenantId) -> Option<UnderWay<'_>> {
        let mut tenants = self.lock();
        if tenants.contains_key(&tenant) {
            return None;
        }
        tenants.insert(tenant, HeadStart::UnderWay(Vec::new()));
        Some(UnderWay { starts: self, tenant })
    }

    /// The tenant as far as it was replayed, once; waits while it is being replayed. `None` if there was no head start: from then
    /// on there is none.
    pub(crate) async fn take(&self, id: TenantId, path: &Path) -> Option<Box<Tenant>> {
        poll_fn(|cx| {
            let mut tenants = self.lock();
            if let Some(HeadStart::UnderWay(waiters)) = tenants.get_mut(&id) {
                waiters.push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(match self.over(&mut tenants, id) {
                Some(HeadStart::Done(of, tenant)) if of == path => Some(tenant),
                _ => None,
            })
        })
        .await
    }

    /// Forgets a tenant that is not there.
    pub(crate) fn forget(&self, id: TenantId) {
        let mut tenants = self.lock();
        let is_under_way = matches!(tenants.get(&id), Some(HeadStart::UnderWay(_) | HeadStart::Unwanted));
        let before = match is_under_way {
            true => tenants.insert(id, HeadStart::Unwanted),
            false => self.over(&mut tenants, id),
        };
        drop(tenants);
        self.lock_took().remove(&id);
        if let Some(HeadStart::UnderWay(waiters)) = before {
            waiters.into_iter().for_each(Waker::wake);
        }
    }
}

/// The thread of the head starts. Dropped, it ends with the commits that it is at.
pub(crate) struct HeadStartThread {
    starts: HeadStarts,
    thread: Option<JoinHandle>,
}

impl Drop for HeadStartThread {
    fn drop(&mut self) {
        self.starts.0.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Batches of records that a second thread reads and sorts. Dropped, that ends with the one it is at.
struct SortedAhead {
    batches: Option<mpsc::Receiver<Result<SortedBatch, OpenError>>>,
    thread: Option<JoinHandle>,
}

impl SortedAhead {
    /// `ended` is told what the thread took, before it is joined.
    fn begin(
        env: &Env,
        mut sorter: RecordSorter,
        ended: impl FnOnce(Nanos) + Send + 'static,
    ) -> std::io::Result<SortedAhead> {
        let (mut to, batches) = mpsc::channel(0);
        let on_thread = env.clone();
        let sort = async move {
            while let Some(batch) = sorter.next().await.transpose() {
                let fails = batch.is_err();
                // Who applies them may have enough.
                if to.send(batch).await.is_err() || fails {
                    return;
                }
            }
        };
        let body = move || {
            env::block_on(&on_thread, sort);
            ended(on_thread.clock.thread_cpu());
        };
        let thread = env.threads.spawn("head-start-sort", None, Box::new(body))?;
        Ok(SortedAhead { batches: Some(batches), thread: Some(thread) })
    }

    async fn next(&mut self) -> Result<Option<SortedBatch>, OpenError> {
        self.batches.as_mut().expect("dropped with this alone").next().await.transpose()
    }
}

impl Drop for SortedAhead {
    fn drop(&mut self) {
        // Before the thread's end is waited for, which it waits for.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A head start under way. Dropped without [`UnderWay::done`], it has failed.
struct UnderWay<'a> {
    starts: &'a HeadStarts,
    tenant: TenantId,
}

impl UnderWay<'_> {
    fn done(self, path: PathBuf, tenant: Tenant) {
        self.end(HeadStart::Done(path, Box::new(tenant)));
    }

    fn end(&self, with: HeadStart) {
        let mut tenants = self.starts.lock();
        match tenants.remove(&self.tenant) {
            Some(HeadStart::UnderWay(waiters)) => {
                tenants.insert(self.tenant, with);
                drop(tenants);
                waiters.into_iter().for_each(Waker::wake);
            }
            // Nobody would ever take it, and its pages would stay.
            _ => {
                tenants.insert(self.tenant, HeadStart::Over);
            }
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut tenants = self.starts.lock();
        match tenants.get_mut(&self.tenant) {
            Some(HeadStart::UnderWay(waiters)) => waiters.drain(..).for_each(Waker::wake),
            Some(HeadStart::Unwanted) => {}
            _ => return,
        }
        tenants.insert(self.tenant, HeadStart::Over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_several_volumes_have_is_left_to_its_home() {
        let (env, id) = (Env::real(), TenantId(16));
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let volumes = [0, 0, 1].map(|dir: usize| dirs[dir].path().to_owned());
        let place = || place_of(env.disk.as_ref(), &volumes, id);
        for dir in &dirs {
            std::fs::create_dir(dir.path().join("tenants")).unwrap();
        }
        assert_eq!(place(), None);
        let own = tenant_file(&volumes[0], id);
        std::fs::write(&own, "").unwrap();
        assert_eq!(place(), Some((VolumeNo(0), own)), "of one directory by two names");
        std::fs::write(tenant_file(&volumes[2], id), "").unwrap();
        assert_eq!(place(), None);
    }

    #[test]
    fn what_comes_of_a_head_start_of_a_tenant_that_is_not_there_is_let_go_of() {
        let (starts, id) = (HeadStarts::default(), TenantId(16));
        let path = PathBuf::from("16.rowhouse");
        for (is_forgotten, is_done) in [(false, true), (true, true), (true, false)] {
            starts.lock().clear();
            let under_way = starts.claim(id).expect("nobody has begun with it");
            if is_forgotten {
                starts.forget(id);
            }
            match is_done {
                true => under_way.done(path.clone(), Tenant::in_memory(id, "owner")),
                false => drop(under_way),
            }
            let is_kept = matches!(starts.lock().get(&id), Some(HeadStart::Done(..)));
            assert_eq!(is_kept, !is_forgotten);
            assert!(starts.claim(id).is_none(), "it is not begun again");
        }
    }

    #[test]
    fn nothing_is_kept_of_head_starts_that_are_over_once_none_begins_any_more() {
        let (starts, path) = (HeadStarts::default(), PathBuf::from("16.rowhouse"));
        let [done, failed, small] = [16, 17, 18].map(TenantId);
        let take = |id| env::block_on(&Env::real(), starts.take(id, &path)).is_some();
        let under_way = starts.claim(done).expect("nobody has begun with it");
        under_way.done(path.clone(), Tenant::in_memory(done, "owner"));
        drop(starts.claim(failed));
        assert!(!take(small));
        assert!(starts.claim(small).is_none(), "its home has begun");
        starts.end();
        assert_eq!(starts.lock().len(), 1);
        assert_eq!([done, failed, small, done].map(take), [true, false, false, false]);
        starts.forget(small);
        assert!(starts.lock().is_empty());
    }
}
