//! Appending to a log, in memory.
//!
//! Records gather in the buffer they will be written from. A full buffer is sealed and queued, so appending never
//! waits; how far the flusher is behind shows in [`LogWriter::backlog`], which admission looks at, and in [`LogWriter::far_behind`], which
//! those ask who can wait.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use base::{ByteCount, CommitNo, Lsn, TenantId};
use env::IoBuf;

use super::durable::{WaitDurable, Waiters};
use super::error::{LogFailed, Refused};
use super::format::{
    FRAGMENT_COMMIT_LEN, FRAGMENT_HEADER_LEN, FragmentCommit, GROUP_HEADER_LEN, GROUP_LEN_MAX,
    PAYLOAD_LEN_MAX, RECORD_HEADER_LEN, RecordHeader, RecordKind, write_record_header,
};
use super::log_dir::LogDir;

/// What a group makes its segment keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pin {
    /// Until the tenant's root covers the commit.
    Commit(TenantId, CommitNo),
    /// A tenant's fragment: until its set is committed or given up.
    Fragment(u64, TenantId),
    /// Turns what the set pins, and its commit record, into a pin of the commit.
    CommitSet(u64, TenantId, CommitNo),
    /// Frees what the set pins: it will never be committed.
    GiveUpSet(u64),
}

/// Records on their way to one group write.
pub(super) struct Group {
    pub(super) buf: IoBuf,
    /// Bytes used in `buf`, header space included.
    pub(super) used: usize,
    pub(super) start: Lsn,
    pub(super) pins: Vec<Pin>,
    /// Whose records they are: bytes, in order of appending, neighbours of one tenant together.
    members: Vec<(TenantId, ByteCount)>,
}

impl Group {
    fn new(start: Lsn) -> Group {
        Group {
            buf: IoBuf::recycled(GROUP_LEN_MAX),
            used: GROUP_HEADER_LEN,
            start,
            pins: Vec::with_capacity(16),
            members: Vec::with_capacity(16),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == GROUP_HEADER_LEN
    }

    /// Position behind the last record.
    pub(super) fn end(&self) -> Lsn {
        Lsn(self.start.0 + (self.used - GROUP_HEADER_LEN) as u64)
    }

    /// Whose records they are, each tenant once.
    pub(super) fn take_members(&mut self) -> Box<[(TenantId, ByteCount)]> {
        let mut members = std::mem::take(&mut self.members);
        members.sort_unstable_by_key(|(tenant, _)| *tenant);
        members.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1 + next.1;
            }
            is_same
        });
        members.into()
    }

    fn has_room_for(&self, payload_len: usize) -> bool {
        self.used + RECORD_HEADER_LEN + payload_len <= GROUP_LEN_MAX
    }

    fn push(&mut self, header: RecordHeader, parts: [&[u8]; 2], pin: Pin) {
        debug_assert_eq!(header.len, parts[0].len() + parts[1].len());
        write_record_header(&mut self.buf[self.used..], header);
        self.used += RECORD_HEADER_LEN;
        for part in parts {
            self.buf[self.used..self.used + part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        let len = ByteCount((RECORD_HEADER_LEN + header.len) as u64);
        match self.members.last_mut() {
            Some((tenant, total)) if *tenant == header.tenant => *total = *total + len,
            _ => self.members.push((header.tenant, len)),
        }
        match (self.pins.last_mut(), pin) {
            // Commit numbers of a tenant only grow, so the last one stands for those before it.
            (Some(Pin::Commit(tenant, commit)), Pin::Commit(same, later)) if *tenant == same => {
                *commit = later
            }
            (Some(last), pin) if *last == pin => {}
            (_, pin) => self.pins.push(pin),
        }
    }
}

/// The position of what is appended to a log that has failed.
const APPENDED_TO_NOTHING: Lsn = Lsn(u64::MAX);

/// Bytes that may wait to be written, four full groups, before commits wait for them. More would be memory that nobody is charged for,
/// and a wait for everybody else: at 100 MB a second this is 10 ms.
const BACKLOG_MAX: u64 = 4 * GROUP_LEN_MAX as u64;

/// Room that a full disk's last segment keeps for what is being written while a commit asks.
const FULL_DISK_SLACK: u64 = 64 << 10;

pub(super) struct State {
    gathering: Group,
    sealed: VecDeque<Group>,
    pub(super) failed: Option<LogFailed>,
    /// Appended and never durable, by what failed then: positions behind the first, through the second.
    lost: Vec<(Lsn, Lsn, LogFailed)>,
    pub(super) waiters: Waiters,
    next_fragment_set: u64,
    flusher: Option<Waker>,
    /// The flusher is told at the end of a turn, not at each record.
    in_turns: bool,
    /// It was told.
    turn_ended: bool,
}

impl State {
    fn has_records(&self) -> bool {
        !self.sealed.is_empty() || !self.gathering.is_empty()
    }

    /// Whether a group may go out: it is full, or no more are to join it.
    fn has_due_group(&self) -> bool {
        !self.sealed.is_empty() || !self.gathering.is_empty() && (self.turn_ended || !self.in_turns)
    }

    /// Why `lsn` will never be durable, if it was lost.
    pub(super) fn lost(&self, lsn: Lsn) -> Option<LogFailed> {
        let is_in = |from: Lsn, to: Lsn| from < lsn && lsn <= to || lsn == APPENDED_TO_NOTHING;
        let lost = self.lost.iter().rev().find(|(from, to, _)| is_in(*from, *to));
        lost.map(|(.., failed)| failed.clone())
    }

    /// Whether sets were given up behind the last record: nothing is to be written for that.
    fn only_gives_up(&self) -> bool {
        self.sealed.is_empty() && self.gathering.is_empty() && !self.gathering.pins.is_empty()
    }
}

struct Shared {
    dir: LogDir,
    /// The end of what survives power loss. Written by the flusher under `state`, read by anyone.
    durable: AtomicU64,
    /// The end of what was appended. Written under `state`, read by anyone.
    appended: AtomicU64,
    /// Bytes left in the segment being written, for groups not yet written. Written by the flusher.
    room: AtomicU64,
    /// Set with `failed`, for those who only want to know whether.
    closed: AtomicBool,
    /// The last position that was lost; 0 while none was.
    lost_through: AtomicU64,
    state: Mutex<State>,
}

/// One worker's log, for those who append to it and wait for it. Clones share the log; they may be used on any thread,
/// but the lock within is meant for one worker's turns and the odd visitor.
#[derive(Clone)]
pub struct LogWriter(Arc<Shared>);

impl LogWriter {
    pub(super) fn new(dir: LogDir) -> LogWriter {
        LogWriter(Arc::new(Shared {
            dir,
            durable: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            room: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            lost_through: AtomicU64::new(0),
            state: Mutex::new(State {
                gathering: Group::new(Lsn(0)),
                sealed: VecDeque::new(),
                failed: None,
                lost: Vec::new(),
                waiters: Waiters::default(),
                next_fragment_set: 1,
                flusher: None,
                in_turns: false,
                turn_ended: false,
            }),
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no one panics while holding the log")
    }

    pub(super) fn dir(&self) -> &LogDir {
        &self.0.dir
    }

    /// Whether a record of `len` bytes can become durable soon. Ask before a commit changes anything; two loads unless the disk
    /// is full.
    ///
    /// # Errors
    /// The log has failed, or the record does not fit what is left of it on a full disk.
    pub fn admit(&self, len: usize) -> Result<(), Refused> {
        if self.0.closed.load(Ordering::Relaxed)
            && let Some(failed) = self.failure()
        {
            return Err(Refused::Failed(failed));
        }
        let Some(want) = self.0.dir.want() else { return Ok(()) };
        // A group in flight, one gathering, and the record's own: each is rounded up to whole blocks.
        let wanted = self.backlog().0 + len as u64 + (len as u64 / 16) + FULL_DISK_SLACK;
        if wanted <= self.0.room.load(Ordering::Relaxed) + self.0.dir.free_room() {
            Ok(())
        } else {
            Err(Refused::Full { dir: self.0.dir.path().to_owned(), want })
        }
    }

    pub(super) fn note_room(&self, room: u64) {
        self.0.room.store(room, Ordering::Relaxed);
    }

    /// Appends `record` as `tenant`'s commit `commit` and returns the position behind it, to wait for. Memory only: does
    /// not block, does not fail, and allocates only when a group of 256 KiB is full. In a log that has failed the
    /// record goes nowhere, and waiting for its position tells so.
    ///
    /// A record longer than a group goes out in fragments before a small commit record, all in line with what others
    /// append; a caller that can wait uses [`LogWriter::begin_parts`] so that others pass it.
    pub fn append(&self, tenant: TenantId, commit: CommitNo, record: &[u8]) -> Lsn {
        if record.len() > PAYLOAD_LEN_MAX {
            return self.append_in_fragments(tenant, commit, record);
        }
        let header = RecordHeader { kind: RecordKind::Whole, len: record.len(), tenant, number: commit.0 };
        self.push(header, [record, &[]], Pin::Commit(tenant, commit))
    }

    fn append_in_fragments(&self, tenant: TenantId, commit: CommitNo, record: &[u8]) -> Lsn {
        let set = self.new_fragment_set();
        let mut parts = 0;
        for part in record.chunks(PAYLOAD_LEN_MAX - FRAGMENT_HEADER_LEN) {
            self.push_fragment(tenant, set, parts, part);
            parts += 1;
        }
        self.push_fragment_commit(tenant, commit, FragmentCommit { set, parts, len: record.len() as u64 })
    }

    pub(super) fn new_fragment_set(&self) -> u64 {
        let mut state = self.state();
        state.next_fragment_set += 1;
        state.next_fragment_set - 1
    }

    pub(super) fn push_fragment(&self, tenant: TenantId, set: u64, part: u32, bytes: &[u8]) -> Lsn {
        let len = FRAGMENT_HEADER_LEN + bytes.len();
        let header = RecordHeader { kind: RecordKind::Fragment, len, tenant, number: set };
        self.push(header, [&part.to_le_bytes(), bytes], Pin::Fragment(set, tenant))
    }

    pub(super) fn push_fragment_commit(&self, tenant: TenantId, commit: CommitNo, of: FragmentCommit) -> Lsn {
        let header = RecordHeader {
            kind: RecordKind::FragmentCommit,
            len: FRAGMENT_COMMIT_LEN,
            tenant,
            number: commit.0,
        };
        self.push(header, [&of.to_bytes(), &[]], Pin::CommitSet(of.set, tenant, commit))
    }

    /// Lets go of fragments that will not be committed, once those still gathering are written.
    pub(super) fn give_up_set(&self, set: u64) {
        let mut state = self.state();
        state.gathering.pins.push(Pin::GiveUpSet(set));
        if state.only_gives_up()
            && let Some(waker) = state.flusher.take()
        {
            drop(state);
            waker.wake();
        }
    }

    fn push(&self, header: RecordHeader, parts: [&[u8]; 2], pin: Pin) -> Lsn {
        let mut state = self.state();
        let state = &mut *state;
        if state.failed.is_some() {
            return APPENDED_TO_NOTHING;
        }
        if !state.gathering.has_room_for(header.len) {
            let next = Group::new(state.gathering.end());
            state.sealed.push_back(std::mem::replace(&mut state.gathering, next));
        }
        state.gathering.push(header, parts, pin);
        self.0.appended.store(state.gathering.end().0, Ordering::Relaxed);
        if !state.in_turns
            && let Some(waker) = state.flusher.take()
        {
            waker.wake();
        }
        state.gathering.end()
    }

    /// From now on the flusher starts only when told by [`LogWriter::end_turn`], so that all commits of a turn go out in one
    /// write.
    pub fn gather_by_turns(&self) {
        self.state().in_turns = true;
    }

    /// Starts the flush of what was appended, if none is under way; else nothing happens, and a later turn's end starts it. One uncontended lock.
    pub fn end_turn(&self) {
        let mut state = self.state();
        if state.has_records()
            && let Some(waker) = state.flusher.take()
        {
            state.turn_ended = true;
            drop(state);
            waker.wake();
        }
    }

    /// The end of what survives power loss. One load.
    #[inline]
    pub fn durable(&self) -> Lsn {
        Lsn(self.0.durable.load(Ordering::Acquire))
    }

    /// The end of what was appended.
    pub fn appended(&self) -> Lsn {
        self.state().gathering.end()
    }

    /// Where the log is to be durable before more is appended, if more than 1 MiB waits to be written: behind all of them. `None` also of a
    /// log that takes no more, as [`LogWriter::admit`] says. Appending neither asks nor waits. Two loads where it is not far behind.
    pub fn far_behind(&self) -> Option<Lsn> {
        let end = self.0.appended.load(Ordering::Relaxed);
        let is_far = end.saturating_sub(self.durable().0) > BACKLOG_MAX;
        let is_written = || !self.0.closed.load(Ordering::Relaxed) && !self.0.dir.is_full();
        (is_far && is_written()).then_some(Lsn(end))
    }

    /// Bytes appended and not yet durable.
    pub fn backlog(&self) -> ByteCount {
        ByteCount(self.appended().0.saturating_sub(self.durable().0))
    }

    /// Waits until everything before `lsn` survives power loss. At once if it does already.
    pub fn wait_durable(&self, lsn: Lsn) -> WaitDurable {
        WaitDurable::new(self.clone(), lsn)
    }

    /// Why the log is closed, if it is.
    pub fn failure(&self) -> Option<LogFailed> {
        self.state().failed.clone()
    }

    /// Tells that `tenant`'s durable root covers its commits through `commit`, in whichever log they are: segments
    /// kept for nothing else become reusable. The same as [`LogDir::release_through`].
    pub fn release_through(&self, tenant: TenantId, commit: CommitNo) {
        self.0.dir.release_through(tenant, commit);
    }

    /// Whether two handles are of the same log.
    pub fn is_same(&self, other: &LogWriter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The group to write next, if anything was appended.
    pub(super) fn take_group(&self) -> Result<Option<Group>, LogFailed> {
        let mut state = self.state();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        if let Some(group) = state.sealed.pop_front() {
            return Ok(Some(group));
        }
        if state.gathering.is_empty() {
            return Ok(None);
        }
        let next = Group::new(state.gathering.end());
        state.turn_ended = false;
        Ok(Some(std::mem::replace(&mut state.gathering, next)))
    }

    /// What was given up where no group is to be written that says so.
    pub(super) fn take_given_up(&self) -> Vec<Pin> {
        let mut state = self.state();
        if state.only_gives_up() { std::mem::take(&mut state.gathering.pins) } else { Vec::new() }
    }

    /// Moves the durable end to `end` and wakes those who waited for it.
    pub(super) fn publish_durable(&self, end: Lsn) {
        let mut state = self.state();
        assert!(self.durable() <= end, "the durable end only grows");
        self.0.durable.store(end.0, Ordering::Release);
        let woken = state.waiters.take_through(end);
        drop(state);
        woken.for_each(Waker::wake);
    }

    /// Closes the log for good and tells all who wait.
    pub(super) fn latch(&self, failed: LogFailed) {
        let mut state = self.state();
        state.failed.get_or_insert(failed);
        self.0.closed.store(true, Ordering::Relaxed);
        state.sealed.clear();
        let woken = state.waiters.take_all();
        drop(state);
        woken.for_each(Waker::wake);
    }

    /// Takes records again after a failure. What was appended and is not durable is lost.
    pub(super) fn resume(&self) {
        let mut state = self.state();
        let failed = state.failed.take().expect("a log that has failed");
        let (durable, end) = (self.durable(), state.gathering.end());
        if durable < end {
            state.lost.push((durable, end, failed));
        } else {
            // Who appended after the failure waits for no position.
            state.lost.push((end, end, failed));
        }
        self.0.lost_through.store(end.0, Ordering::Release);
        // Behind the lost ones, so that the end of what was appended is none of them.
        let next = Lsn(end.0 + 1);
        state.gathering = Group::new(next);
        self.0.appended.store(next.0, Ordering::Relaxed);
        self.0.durable.store(next.0, Ordering::Release);
        self.0.closed.store(false, Ordering::Relaxed);
    }

    /// Why `lsn` will never be durable, if it was lost. One load if nothing was lost since `lsn` was appended.
    pub(super) fn lost(&self, lsn: Lsn) -> Option<LogFailed> {
        if lsn.0 > self.0.lost_through.load(Ordering::Acquire) && lsn != APPENDED_TO_NOTHING || lsn == Lsn(0)
        {
            return None;
        }
        self.state().lost(lsn)
    }

    /// The last position that was lost when the log failed, and how it failed; `None` if it never did, or has not been resumed.
    pub fn newest_loss(&self) -> Option<(Lsn, LogFailed)> {
        if self.0.lost_through.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.state().lost.last().map(|(_, to, failed)| (*to, failed.clone()))
    }

    /// Ends when a group is to be flushed, or the log has failed.
    pub(super) async fn gathered(&self) {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.failed.is_some() || state.has_due_group() || state.only_gives_up() {
                return Poll::Ready(());
            }
            state.flusher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
