//! The directory of segments that all workers' logs share: which are in use and by what they are kept, which are free.
//!
//! Segments of one log are freed in order, oldest first, so those left always follow each other and a missing one is
//! seen. Who keeps the oldest is told by [`LogDir::kept_beyond`]; checkpointing those tenants frees it.
//!
//! When no further segment fits the disk, the directory is *full* until one does: commits are refused once their log's
//! segment has no room ([`LogWriter::admit`]), and what was appended before waits. Nothing fails for good.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use base::limits::LOG_SEGMENT_LEN;
use base::{ByteCount, CommitNo, Nanos, TenantId};
use env::{Env, IoBuf};
use rustc_hash::{FxHashMap, FxHashSet};

use super::error::{RedoError, Want};
use super::flusher::LogFlusher;
use super::format::{BLOCK_LEN, GROUP_LEN_MAX, SEGMENT_HEADER_LEN, SegmentId};
use super::index::{RedoIndex, WeakIndex};
use super::scan::{self, Scanned};
use super::segment::SegmentFile;
use super::writer::{LogWriter, Pin};

/// How a directory of logs is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// Bytes of a new segment; default [`LOG_SEGMENT_LEN`], at least 1 MiB.
    pub segment_len: ByteCount,
    /// Free segments kept beyond one a log; those above are removed, one in ten seconds. Default 2.
    pub spare_segments_max: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_len: LOG_SEGMENT_LEN, spare_segments_max: 2 }
    }
}

/// Who keeps logs long: tenants by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogKeepers {
    /// With records that their roots do not cover: a checkpoint lets go of them.
    pub records: BTreeSet<TenantId>,
    /// With parts of transactions that are open: their ends let go of them.
    pub transactions: BTreeSet<TenantId>,
}

/// What the directory's segments are used for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogUsage {
    /// Bytes of all segments in use.
    pub live: ByteCount,
    /// Bytes of all segments that are free.
    pub free: ByteCount,
    pub live_segments: usize,
}

struct LiveSegment {
    segment: SegmentFile,
    /// A writer may still add to it.
    open: bool,
    /// Bytes for groups that are still to be written to it.
    room: u64,
    /// A write to it has failed: it is not to be any other log's.
    is_spoiled: bool,
    pins: FxHashMap<TenantId, CommitNo>,
    /// Parts of transactions that are open.
    fragment_sets: Vec<(u64, TenantId)>,
}

impl LiveSegment {
    /// Of a log that nobody writes to, kept by nobody.
    fn closed(segment: SegmentFile) -> LiveSegment {
        LiveSegment {
            segment,
            open: false,
            room: 0,
            is_spoiled: false,
            pins: FxHashMap::default(),
            fragment_sets: Vec::new(),
        }
    }
}

#[derive(Default)]
struct DirState {
    /// Ordered by log and position, so the first of each log is its oldest.
    live: BTreeMap<SegmentId, LiveSegment>,
    /// Free segments with headers that say so.
    free: Vec<SegmentFile>,
    released: FxHashMap<TenantId, CommitNo>,
    /// When one of them was removed last because there are enough.
    surplus_at: Nanos,
    next_file: u64,
    logs: usize,
    /// One `prepare_ahead` at a time: segments must become free on disk in the order of their log.
    preparing: bool,
    /// Who waits in `running_short`.
    preparer: Option<Waker>,
}

impl DirState {
    /// A free segment that is to be removed, if there is any: one shorter than `len`, or where there are more than `keep` and `may` says so.
    fn take_surplus(
        &mut self,
        len: u64,
        keep: usize,
        may: impl FnOnce(&mut DirState) -> bool,
    ) -> Option<SegmentFile> {
        match self.free.iter().position(|segment| segment.len < len) {
            Some(short) => Some(self.free.swap_remove(short)),
            None if self.free.len() > keep && may(self) => self.free.pop(),
            None => None,
        }
    }

    /// Whether some log would have to make its next segment by itself.
    fn is_short(&self) -> bool {
        self.free.len() < self.logs
    }

    /// Whether some log has less than `room` in its segment, and no free segment to go on in.
    fn has_log_without(&self, room: u64) -> bool {
        let roomy = self.live.values().filter(|live| live.open && live.room >= room).count();
        self.free.len() + roomy < self.logs
    }
}

struct Inner {
    env: Env,
    /// What was found in it; forgotten as roots cover it.
    found: RedoIndex,
    /// What was found since, as long as somebody keeps it; forgotten in the same way.
    found_again: Mutex<Vec<WeakIndex>>,
    /// The last of them, for a few seconds.
    lately: Mutex<Option<Lately>>,
    /// How many logs were sealed or closed so far.
    sealed: AtomicU64,
    dir: PathBuf,
    options: LogOptions,
    state: Mutex<DirState>,
    /// What the last segment that was to be made was missing: a [`Want`] as a number, or [`MADE`].
    want: AtomicU8,
    /// Nobody will free space any more: logs fail instead of waiting.
    ending: AtomicBool,
}

/// The last segment that was to be made was made.
const MADE: u8 = u8::MAX;

/// Bytes of a segment for which a full disk may still have room.
const LITTLE_LEN: u64 = 1 << 20;
const _: () = assert!(SEGMENT_HEADER_LEN + GROUP_LEN_MAX as u64 <= LITTLE_LEN);

/// What was read a moment ago.
struct Lately {
    index: RedoIndex,
    /// Calls of [`LogDir::prepare_ahead`] since.
    looks: u32,
}

/// Between two surplus segments that are removed. A log that grows and becomes short again each few minutes would otherwise write each of its segments
/// twice: once as zeros.
const SURPLUS_AFTER: Nanos = Nanos::from_secs(10);

/// Calls of [`LogDir::prepare_ahead`], one a second or more, for which what was read is kept for others.
const LATELY_LOOKS_MAX: u32 = 3;

/// A directory of logs. Cheap to clone; may be used on any thread.
#[derive(Clone)]
pub struct LogDir(Arc<Inner>);

impl LogDir {
    /// Opens the logs in `dir`, which is made if needed: reads and checks every segment of earlier starts, closes their
    /// torn tails for good, and makes what they hold durable. Blocks; reads everything. The caller holds the lock
    /// of the data directory.
    pub fn open(env: &Env, dir: &Path, options: LogOptions) -> Result<(LogDir, RedoIndex), RedoError> {
        let index = RedoIndex::default();
        LogDir::open_into(env, dir, options, &index).map(|logs| (logs, index))
    }

    /// As [`LogDir::open`] into an empty index that others look into meanwhile.
    pub fn open_into(
        env: &Env,
        dir: &Path,
        options: LogOptions,
        index: &RedoIndex,
    ) -> Result<LogDir, RedoError> {
        let len = options.segment_len.0;
        assert!(len >= LITTLE_LEN && len.is_multiple_of(BLOCK_LEN as u64));
        env.disk.create_dir_all(dir).map_err(RedoError::io(dir, "making the directory"))?;
        let scanned = scan::scan(env, &[dir.to_owned()], index)?;
        // A start that was killed may have left names that power loss would take with all that is written behind them.
        env.disk.sync_dir(dir).map_err(RedoError::io(dir, "syncing the directory"))?;
        seal_tails(env, &scanned)?;
        let mut state = DirState { next_file: scanned.next_file, ..DirState::default() };
        for path in &scanned.unfinished {
            env.disk.remove(path).map_err(RedoError::io(path, "removing an unfinished segment"))?;
        }
        for (path, says_so_twice) in &scanned.free {
            let segment = SegmentFile::open(env, path)?;
            // Torn at its next use, the first copy would leave it to the second to say whose it is.
            if !says_so_twice && segment.write_headers_blocking(SegmentId::FREE, 0).is_err() {
                remove_for_good(env, dir, &segment)?;
            } else {
                state.free.push(segment);
            }
        }
        for (id, found) in &scanned.segments {
            let segment = SegmentFile::open(env, &found.path)?;
            state.live.insert(*id, LiveSegment { pins: found.pins.clone(), ..LiveSegment::closed(segment) });
        }
        let inner = Inner {
            env: env.clone(),
            found: index.clone(),
            found_again: Mutex::default(),
            lately: Mutex::default(),
            sealed: AtomicU64::new(0),
            dir: dir.to_owned(),
            options,
            state: Mutex::new(state),
            want: AtomicU8::new(MADE),
            ending: AtomicBool::new(false),
        };
        Ok(LogDir(Arc::new(inner)))
    }

    /// What the logs hold now, those of this start among them, for tenants that have forgotten what they had in memory. Blocks; reads
    /// everything. Damage may be a log that is written while it is read: it counts if it is found again.
    pub fn read_again(&self) -> Result<RedoIndex, RedoError> {
        let index = RedoIndex::default();
        scan::scan(&self.0.env, std::slice::from_ref(&self.0.dir), &index)?;
        let mut found_again = self.found_again();
        found_again.retain(|other| other.upgrade().is_some());
        found_again.push(index.downgrade());
        drop(found_again);
        // What it was not told while it was made.
        let state = self.state();
        let live: FxHashSet<PathBuf> = state.live.values().map(|live| live.segment.path.clone()).collect();
        let released: Vec<_> = state.released.iter().map(|(tenant, commit)| (*tenant, *commit)).collect();
        drop(state);
        index.close_unless(|path| live.contains(path));
        released.into_iter().for_each(|(tenant, commit)| index.release_through(tenant, commit));
        Ok(index)
    }

    /// As [`LogDir::read_again`] for one tenant that is not open, if [`LogDir::known_of`] knows nothing.
    pub fn read_again_for(&self, tenant: TenantId) -> Result<RedoIndex, RedoError> {
        if let Some(known) = self.known_of(tenant) {
            return Ok(known);
        }
        let sealed = self.sealed();
        let index = self.read_again()?;
        self.keep_lately(&index, sealed);
        Ok(index)
    }

    pub(super) fn sealed(&self) -> u64 {
        self.0.sealed.load(Ordering::Acquire)
    }

    /// Keeps for others what was read since so many logs were sealed, unless they are more by now: it may have commits that are lost.
    pub(super) fn keep_lately(&self, index: &RedoIndex, sealed: u64) {
        let mut lately = self.lately();
        // Under the lock: who seals a log has that counted before it lets go of what is kept.
        if self.sealed() == sealed {
            *lately = Some(Lately { index: index.clone(), looks: 0 });
        }
    }

    /// What serves for a tenant that is not open without reading the logs: what was read a moment ago, if it has all that is durable of the tenant,
    /// and nothing where its root covers all of that.
    pub fn known_of(&self, tenant: TenantId) -> Option<RedoIndex> {
        let newest = self.state().live.values().filter_map(|live| live.pins.get(&tenant)).max().copied();
        let Some(newest) = newest else { return Some(RedoIndex::default()) };
        let lately = self.lately();
        let index = &lately.as_ref()?.index;
        index.last_commit(tenant).is_some_and(|last| last >= newest).then(|| index.clone())
    }

    fn lately(&self) -> MutexGuard<'_, Option<Lately>> {
        self.0.lately.lock().expect("no one panics while holding it")
    }

    fn found_again(&self) -> MutexGuard<'_, Vec<WeakIndex>> {
        self.0.found_again.lock().expect("no one panics while holding the list")
    }

    /// What was found in the logs, at the start and since, as far as it is kept.
    fn indexes(&self) -> Vec<RedoIndex> {
        let found_again = self.found_again();
        let kept = found_again.iter().filter_map(WeakIndex::upgrade);
        std::iter::once(self.0.found.clone()).chain(kept).collect()
    }

    /// A new log for one worker. Touches no file before the first flush.
    pub fn writer(&self) -> (LogWriter, LogFlusher) {
        self.state().logs += 1;
        let writer = LogWriter::new(self.clone());
        (writer.clone(), LogFlusher::new(writer, self.new_log_id()))
    }

    /// The number of a log there has never been.
    pub(super) fn new_log_id(&self) -> u64 {
        loop {
            match self.0.env.entropy.u64() {
                0 => {}
                id => return id,
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0.dir
    }

    fn state(&self) -> MutexGuard<'_, DirState> {
        self.0.state.lock().expect("no one panics while holding the directory")
    }

    /// Tells that `tenant`'s durable root covers its commits through `commit`, in whichever log they are.
    pub fn release_through(&self, tenant: TenantId, commit: CommitNo) {
        let mut state = self.state();
        let released = state.released.entry(tenant).or_default();
        *released = commit.max(*released);
        let commit = *released;
        for live in state.live.values_mut() {
            if live.pins.get(&tenant).is_some_and(|pinned| *pinned <= commit) {
                live.pins.remove(&tenant);
            }
        }
        drop(state);
        self.indexes().iter().for_each(|index| index.release_through(tenant, commit));
    }

    /// Tells that `tenant` is gone for good: none of its records are needed.
    pub fn forget(&self, tenant: TenantId) {
        self.release_through(tenant, CommitNo(u64::MAX));
    }

    /// What the segments are used for.
    pub fn usage(&self) -> LogUsage {
        let state = self.state();
        LogUsage {
            live: ByteCount(state.live.values().map(|live| live.segment.len).sum()),
            free: ByteCount(state.free.iter().map(|segment| segment.len).sum()),
            live_segments: state.live.len(),
        }
    }

    /// Who keeps the logs longer than `target` together: the tenants with something in the oldest segments that would have to go. Each log may have an equal part of it: of two with 1 and 5 segments where 4 may be in use, those in
    /// the oldest 3 of the second. A segment that is still written to stays, whoever is in it. Nobody where the logs are as short.
    pub fn kept_beyond(&self, target: ByteCount) -> LogKeepers {
        let state = self.state();
        let mut len_of: BTreeMap<u64, u64> = BTreeMap::new();
        for (id, live) in &state.live {
            *len_of.entry(id.log).or_default() += live.segment.len;
        }
        if len_of.values().sum::<u64>() <= target.0 {
            return LogKeepers::default();
        }
        // All together are longer than the target, so some log is longer than this.
        let part = target.0 / len_of.len() as u64;
        let mut keepers = LogKeepers::default();
        for (id, live) in state.live.iter().filter(|(_, live)| !live.open) {
            let left = len_of.get_mut(&id.log).expect("counted above");
            if *left > part {
                *left -= live.segment.len;
                keepers.records.extend(live.pins.keys().copied());
                keepers.transactions.extend(live.fragment_sets.iter().map(|(_, tenant)| *tenant));
            }
        }
        keepers
    }

    /// Ends when fewer segments are ready than there are logs: time for [`LogDir::prepare_ahead`]. One waiter at a time.
    pub async fn running_short(&self) {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.is_short() && !state.preparing {
                return Poll::Ready(());
            }
            state.preparer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Frees segments that nothing keeps, and sees to it that each log has its next segment ready, filled with zeros.
    /// Writes up to a segment a log through the thread's reactor; the server calls it now and then. A call while another
    /// is under way does nothing. An error leaves the logs as they are: a log that finds no free segment makes one. A segment whose header cannot be
    /// written is removed, and told of when all else is done.
    pub async fn prepare_ahead(&self) -> Result<(), RedoError> {
        {
            let mut state = self.state();
            if state.preparing {
                return Ok(());
            }
            state.preparing = true;
        }
        let _preparing = Preparing(self);
        self.lately().take_if(|lately| {
            lately.looks += 1;
            lately.looks > LATELY_LOOKS_MAX
        });
        for index in self.indexes() {
            index.free_forgotten().await;
        }
        let mut failed = None;
        while let Some((id, segment, is_spoiled)) = self.take_released() {
            let freed = if is_spoiled { None } else { Some(segment.write_headers(SegmentId::FREE, 0).await) };
            match freed {
                Some(Ok(())) => {
                    self.drop_live(id, &segment);
                    self.state().free.push(segment);
                }
                // Whether the file is free is unknown after an error: it goes, for all behind it would have to stay.
                gone => {
                    remove_for_good(&self.0.env, &self.0.dir, &segment)?;
                    self.drop_live(id, &segment);
                    let error = gone.and_then(Result::err);
                    failed = failed.or(error.map(RedoError::io(&segment.path, "freeing a segment")));
                }
            }
        }
        let (wanted, len) = (self.state().logs, self.0.options.segment_len.0);
        let is_short = |segment: &SegmentFile| segment.len < len;
        while self.state().free.iter().filter(|segment| !is_short(segment)).count() < wanted {
            let segment = self.create_filled(len).await?;
            self.state().free.push(segment);
        }
        // Each log has its next one.
        self.0.want.store(MADE, Ordering::Relaxed);
        // Those that a full disk had room for have served.
        let now = env::now();
        self.remove_surplus_if(len, |state| {
            let may = now >= state.surplus_at + SURPLUS_AFTER;
            if may {
                state.surplus_at = now;
            }
            may
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Removes all free segments beyond those that are kept: others need the space now. Those of [`LogDir::prepare_little`] stay: whoever makes room was
    /// let in because of them.
    pub fn remove_surplus(&self) -> Result<(), RedoError> {
        self.remove_surplus_if(0, |_| true)
    }

    fn remove_surplus_if(
        &self,
        len: u64,
        mut may: impl FnMut(&mut DirState) -> bool,
    ) -> Result<(), RedoError> {
        loop {
            let mut state = self.state();
            let keep = state.logs + self.0.options.spare_segments_max;
            let Some(segment) = state.take_surplus(len, keep, &mut may) else { return Ok(()) };
            drop(state);
            segment.remove(&self.0.env)?;
        }
    }

    /// On a full disk, sees to it that each log has room for a megabyte, as far as what the disk has left is enough for that: with segments
    /// that are shorter than others, and go when there is space again. Does nothing for a log that has as much. For who makes room, once nothing
    /// is set aside any more.
    pub async fn prepare_little(&self) -> Result<(), RedoError> {
        {
            let mut state = self.state();
            if state.preparing {
                return Ok(());
            }
            state.preparing = true;
        }
        let _preparing = Preparing(self);
        while self.state().has_log_without(LITTLE_LEN) {
            let segment = self.create_filled(LITTLE_LEN).await?;
            self.state().free.push(segment);
        }
        Ok(())
    }

    /// Whether the last segment that was to be made did not fit the disk, or found no file descriptor. One load.
    pub fn is_full(&self) -> bool {
        self.0.want.load(Ordering::Relaxed) != MADE
    }

    /// What it was missing, if it was.
    pub(super) fn want(&self) -> Option<Want> {
        let number = self.0.want.load(Ordering::Relaxed);
        [Want::Space, Want::Descriptors].into_iter().find(|want| *want as u8 == number)
    }

    /// Of another failure nothing is known: what was missing before may be missing still.
    fn note_want(&self, error: &RedoError) {
        if let Some(want) = error.want() {
            self.0.want.store(want as u8, Ordering::Relaxed);
        }
    }

    /// Bytes for groups in segments that are made already, for whichever log needs another one.
    pub(super) fn free_room(&self) -> u64 {
        // A group that does not fit the end of one goes into the next.
        let unused = SEGMENT_HEADER_LEN + GROUP_LEN_MAX as u64;
        self.state().free.iter().map(|segment| segment.len.saturating_sub(unused)).sum()
    }

    /// Has logs that wait for space fail instead: the server ends, and must not wait for an operator.
    pub fn stop_waiting_for_space(&self) {
        self.0.ending.store(true, Ordering::Relaxed);
    }

    pub(super) fn waits_for_space(&self) -> bool {
        !self.0.ending.load(Ordering::Relaxed)
    }

    /// The oldest segment of some log, if nothing keeps it, and whether it is spoiled.
    fn take_released(&self) -> Option<(SegmentId, SegmentFile, bool)> {
        let state = self.state();
        let mut log = None;
        state.live.iter().find_map(|(id, live)| {
            let oldest = log.replace(id.log) != Some(id.log);
            let kept = live.open || !live.pins.is_empty() || !live.fragment_sets.is_empty();
            (oldest && !kept).then(|| (*id, live.segment.clone(), live.is_spoiled))
        })
    }

    fn drop_live(&self, id: SegmentId, segment: &SegmentFile) {
        self.state().live.remove(&id);
        self.indexes().iter().for_each(|index| index.close(&segment.path));
    }

    /// A new segment of `len` bytes, every one of them written once: a durable write into space that is only allocated would also have to
    /// write the file system's journal, and takes some thirty times as long.
    async fn create_filled(&self, len: u64) -> Result<SegmentFile, RedoError> {
        let number = {
            let mut state = self.state();
            state.next_file += 1;
            state.next_file - 1
        };
        let made = SegmentFile::create(&self.0.env, &self.0.dir, number, len);
        let segment = made.inspect_err(|error| self.note_want(error))?;
        if let Err(error) = segment.fill_with_zeros().await {
            let error = RedoError::io(&segment.path, "filling a segment")(error);
            self.note_want(&error);
            // What cannot be removed is in nobody's way: its name is not used again, and the next start removes it.
            let _ = segment.remove(&self.0.env);
            return Err(error);
        }
        if len >= self.0.options.segment_len.0 {
            self.0.want.store(MADE, Ordering::Relaxed);
        }
        Ok(segment)
    }

    /// A free segment made into `id`, open for its log; the one before it is closed.
    pub(super) async fn open_segment(
        &self,
        id: SegmentId,
        first_sequence: u64,
    ) -> Result<SegmentFile, RedoError> {
        let (free, preparer) = {
            let mut state = self.state();
            (state.free.pop(), state.preparer.take())
        };
        if let Some(preparer) = preparer {
            preparer.wake();
        }
        let segment = match free {
            Some(segment) => segment,
            None => self.create_filled(self.0.options.segment_len.0).await?,
        };
        if let Err(error) = segment.write_headers(id, first_sequence).await {
            // A copy may say that it is the segment `id`, which another file becomes next.
            let error = match remove_for_good(&self.0.env, &self.0.dir, &segment) {
                Ok(()) => error,
                Err(kept) => std::io::Error::other(format!("{error}, and then {kept}")),
            };
            return Err(RedoError::io(&segment.path, "writing a segment's header")(error));
        }
        let room = segment.len - SEGMENT_HEADER_LEN;
        let live = LiveSegment { open: true, room, ..LiveSegment::closed(segment.clone()) };
        let mut state = self.state();
        state.live.insert(id, live);
        if id.number > 0
            && let Some(before) = state.live.get_mut(&SegmentId { number: id.number - 1, ..id })
        {
            before.open = false;
        }
        Ok(segment)
    }

    /// No more will be written to the log's segments.
    pub(super) fn close_log(&self, log: u64) {
        self.state().logs -= 1;
        self.close_segments(log);
    }

    /// No more will be written to segments of the log of this number.
    pub(super) fn close_segments(&self, log: u64) {
        for (_, live) in self.state().live.range_mut(segments_of(log)) {
            live.open = false;
            // Fragments whose commit never became durable.
            live.fragment_sets.clear();
        }
        // It may have read commits that are lost now, and so may who reads at the moment.
        self.0.sealed.fetch_add(1, Ordering::AcqRel);
        *self.lately() = None;
    }

    /// A write to the segment `id` has failed.
    pub(super) fn spoil(&self, id: SegmentId) {
        self.state().live.get_mut(&id).expect("an open segment is live").is_spoiled = true;
    }

    /// Keeps the segment `id` for what the last group in it holds, behind which it has `room` bytes.
    pub(super) fn note_written(&self, id: SegmentId, pins: &[Pin], room: u64) {
        let mut state = self.state();
        state.live.get_mut(&id).expect("an open segment is live").room = room;
        state.pin(id, pins);
    }

    /// Lets go of fragments that were given up without a group that says so.
    pub(super) fn note_given_up(&self, id: SegmentId, pins: &[Pin]) {
        self.state().pin(id, pins);
    }
}

impl DirState {
    /// Keeps the segment `id` for what a group in it holds.
    fn pin(&mut self, id: SegmentId, pins: &[Pin]) {
        let state = self;
        for pin in pins {
            match *pin {
                Pin::Commit(tenant, commit) => {
                    if state.released.get(&tenant).is_none_or(|released| *released < commit) {
                        let live = state.live.get_mut(&id).expect("an open segment is live");
                        live.pins.insert(tenant, commit);
                    }
                }
                Pin::Fragment(set, tenant) => {
                    let live = state.live.get_mut(&id).expect("an open segment is live");
                    if !live.fragment_sets.contains(&(set, tenant)) {
                        live.fragment_sets.push((set, tenant));
                    }
                }
                Pin::CommitSet(set, tenant, commit) => {
                    let is_kept = state.released.get(&tenant).is_none_or(|released| *released < commit);
                    if is_kept {
                        state.live.get_mut(&id).expect("an open segment is live").pins.insert(tenant, commit);
                    }
                    for live in drop_set(&mut state.live, id.log, set).filter(|_| is_kept) {
                        let pinned = live.pins.entry(tenant).or_default();
                        *pinned = commit.max(*pinned);
                    }
                }
                Pin::GiveUpSet(set) => drop_set(&mut state.live, id.log, set).for_each(drop),
            }
        }
    }
}

/// Removes a segment of which nobody knows what it says. After `Ok` it does not come back.
fn remove_for_good(env: &Env, dir: &Path, segment: &SegmentFile) -> Result<(), RedoError> {
    match segment.remove(env) {
        Err(RedoError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    env.disk.sync_dir(dir).map_err(RedoError::io(dir, "syncing the directory"))
}

fn segments_of(log: u64) -> RangeInclusive<SegmentId> {
    SegmentId { log, number: 0 }..=SegmentId { log, number: u64::MAX }
}

/// Takes a fragment set out of the segments of `log` that it pins, and returns those.
fn drop_set(
    live: &mut BTreeMap<SegmentId, LiveSegment>,
    log: u64,
    set: u64,
) -> impl Iterator<Item = &mut LiveSegment> {
    live.range_mut(segments_of(log)).map(|(_, live)| live).filter_map(move |live| {
        let at = live.fragment_sets.iter().position(|(other, _)| *other == set)?;
        live.fragment_sets.swap_remove(at);
        Some(live)
    })
}

/// Ends a `prepare_ahead`, also one that is dropped half-way.
struct Preparing<'a>(&'a LogDir);

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        self.0.state().preparing = false;
    }
}

/// Makes what the scan saw durable, as it may have been read from a cache that power loss would empty, and overwrites
/// the beginning of a torn group, so that no later start can take it for whole. Only the last group of a log can be in doubt, for
/// it was written when all before it was durable. It is written again: a sync alone succeeds for what an earlier one has failed to write.
fn seal_tails(env: &Env, scanned: &Scanned) -> Result<(), RedoError> {
    for tail in &scanned.tails {
        let segment = SegmentFile::open(env, &tail.path)?;
        if tail.torn {
            let zeros = IoBuf::zeroed(BLOCK_LEN);
            segment
                .file
                .write_at(&zeros, tail.offset)
                .map_err(RedoError::io(&tail.path, "closing a torn tail"))?;
        }
        if let Some(start) = tail.last_group {
            let mut group = IoBuf::zeroed((tail.offset - start) as usize);
            segment
                .file
                .read_at(&mut group, start)
                .and_then(|()| segment.file.write_at(&group, start))
                .map_err(RedoError::io(&tail.path, "writing the last group again"))?;
        }
        segment.file.sync_data_blocking().map_err(RedoError::io(&tail.path, "syncing a segment"))?;
    }
    Ok(())
}
