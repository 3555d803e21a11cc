//! The current values of sequences: outside transactions, and never given out twice, crashes included.
//!
//! What is logged runs ahead by [`LOG_AHEAD`] values, so most calls of `nextval` log nothing; a crash skips what was logged
//! but not given out. A new definition is logged with the value as it is. A sequence made or restarted by a transaction lives in the transaction until it commits; what is given out of it then stays given
//! out too, whatever is rolled back but its making. What a run of a statement that is taken back has drawn of others the statement's next run gives out.
//!
//! A statement of a session may call them once a row, and each call of `setval` is logged. So it waits as a commit does, for its tenant's limit of log writes
//! and for a log that is far behind, once before each call that is logged: it is taken back, and goes on behind the calls that it has made. Those beyond what
//! is remembered do not wait.

use base::{Lsn, Nanos, Oid, SqlError, SqlResult, SqlState};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::catalog::{Decode, Encode, Malformed, RecordKind, Sequence, decode_record, encode_record};
use crate::interrupt::{Interrupt, Step};
use crate::view::View;

/// Values logged ahead, as PostgreSQL's `SEQ_LOG_VALS`.
const LOG_AHEAD: u32 = 32;

/// A sequence's position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SequenceState {
    /// The last value given out, or the one to give out next if `called` is false.
    pub(crate) last: i64,
    pub(crate) called: bool,
    /// Values that may be given out before the log must be written again.
    pub(crate) logged_ahead: u32,
}

/// What a sequence shows of its state (`SELECT * FROM seq`, `pg_sequences`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceValue {
    pub last_value: i64,
    pub is_called: bool,
}

impl Encode for SequenceState {
    fn encode(&self, out: &mut Vec<u8>) {
        self.last.encode(out);
        self.called.encode(out);
    }
}
impl Decode for SequenceState {
    fn decode(input: &mut &[u8]) -> Result<SequenceState, Malformed> {
        Ok(SequenceState { last: i64::decode(input)?, called: bool::decode(input)?, logged_ahead: 0 })
    }
}

impl SequenceState {
    pub(crate) fn at_start(sequence: &Sequence) -> SequenceState {
        SequenceState { last: sequence.start, called: false, logged_ahead: 0 }
    }

    pub(crate) fn record(&self) -> Vec<u8> {
        encode_record(self)
    }

    pub(crate) fn of_record(value: &[u8]) -> Result<SequenceState, Malformed> {
        decode_record(value)
    }

    /// The state after giving out `steps` more values, stopping short of the sequence's end.
    fn advanced(self, sequence: &Sequence, steps: u32) -> SequenceState {
        let mut state = self;
        for _ in 0..steps {
            match state.next(sequence) {
                Ok(next) => state = SequenceState { last: next, called: true, ..state },
                Err(_) => break,
            }
        }
        state
    }

    /// The value that comes next. Errors: 2200H at the end of a sequence that does not cycle.
    fn next(self, sequence: &Sequence) -> SqlResult<i64> {
        if !self.called {
            return Ok(self.last);
        }
        match self.last.checked_add(sequence.increment) {
            Some(next) if sequence.increment > 0 && next <= sequence.max && next >= sequence.min => Ok(next),
            Some(next) if sequence.increment < 0 && next >= sequence.min && next <= sequence.max => Ok(next),
            _ if sequence.cycle => Ok(if sequence.increment > 0 { sequence.min } else { sequence.max }),
            _ => Err(exhausted(sequence)),
        }
    }
}

fn exhausted(sequence: &Sequence) -> SqlError {
    let (bound, value) =
        if sequence.increment > 0 { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
    SqlError::new(
        SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        format!("nextval: reached {bound} value of sequence \"{}\" ({value})", sequence.name),
    )
}

/// The sequences that a transaction made or restarted.
#[derive(Debug, Default)]
pub(crate) struct OwnSequences {
    states: FxHashMap<Oid, SequenceState>,
    /// What each making, restart and drop replaced, in order.
    replaced: Vec<(Oid, Option<SequenceState>)>,
}

/// A place in a transaction for its sequences to go back to.
#[derive(Clone, Debug)]
pub(crate) struct SequencesMark {
    states: Option<Box<FxHashMap<Oid, SequenceState>>>,
    replaced: usize,
}

impl SequencesMark {
    /// It is to be rolled back to only.
    pub(crate) fn forget_values(&mut self) {
        self.states = None;
    }
}

impl OwnSequences {
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Oid, &SequenceState)> {
        self.states.iter()
    }

    pub(crate) fn get(&self, sequence: Oid) -> Option<SequenceState> {
        self.states.get(&sequence).copied()
    }

    fn get_mut(&mut self, sequence: Oid) -> Option<&mut SequenceState> {
        self.states.get_mut(&sequence)
    }

    /// The sequence is made or restarted.
    pub(crate) fn begin(&mut self, sequence: Oid, state: SequenceState) {
        self.replaced.push((sequence, self.states.insert(sequence, state)));
    }

    /// The sequence is dropped.
    pub(crate) fn remove(&mut self, sequence: Oid) {
        if let Some(state) = self.states.remove(&sequence) {
            self.replaced.push((sequence, Some(state)));
        }
    }

    pub(crate) fn mark(&self) -> SequencesMark {
        let states = (!self.is_empty()).then(|| Box::new(self.states.clone()));
        SequencesMark { states, replaced: self.replaced.len() }
    }

    /// All is as it was: nobody has been told of what was given out since.
    pub(crate) fn rewind(&mut self, mark: &SequencesMark) {
        self.states = mark.states.as_deref().cloned().unwrap_or_default();
        self.replaced.truncate(mark.replaced);
    }

    /// What was made, restarted and dropped since was not; what was given out stays given out.
    pub(crate) fn roll_back_to(&mut self, mark: &SequencesMark) {
        for (sequence, before) in self.replaced.drain(mark.replaced.min(self.replaced.len())..).rev() {
            match before {
                Some(state) => self.states.insert(sequence, state),
                None => self.states.remove(&sequence),
            };
        }
    }
}

/// A call of a sequence that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// `nextval`, and what it gave out.
    Next(i64),
    Set {
        value: i64,
        called: bool,
    },
}

/// Calls that are remembered for a statement's next run, 24 bytes each.
const CALLS_MAX: usize = 1 << 14;

/// What the statement under way did with sequences that others use. It stays done where a run is taken back, for others may have seen it; as long as the
/// next run makes the same calls, it is answered as the one before it was.
#[derive(Default, Debug)]
pub(crate) struct SequenceCalls {
    calls: SmallVec<[(Oid, Call); 1]>,
    /// How many of them the present run has made.
    made: usize,
    /// What the next one waits for, before it is made.
    wait: Option<LogWait>,
    /// With fewer of them none waits: each run comes further than the one before.
    wait_from: usize,
}

/// What a statement waits for before it goes on behind [`Interrupt::Asked`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogWait {
    /// Its tenant's limit of log writes, until this instant unless that is lifted.
    Limit(Nanos),
    /// The log, which is far behind, to be durable through this position.
    Durable(Lsn),
}

impl SequenceCalls {
    /// Where a statement begins.
    pub(crate) fn mark(&self) -> usize {
        self.made
    }

    /// The statement that began at `mark` is taken back, and will be run again.
    pub(crate) fn rewind(&mut self, mark: usize) {
        self.made = mark.min(self.calls.len());
    }

    /// There will be no other run.
    pub(crate) fn forget(&mut self) {
        *self = SequenceCalls::default();
    }

    /// What the run that has just been stopped is to wait for, if a call is why.
    pub(crate) fn take_wait(&mut self) -> Option<LogWait> {
        self.wait.take()
    }

    /// Whether the call that is made now may wait: once, and only if those before it are remembered.
    fn may_wait(&self) -> bool {
        (self.wait_from..CALLS_MAX).contains(&self.calls.len())
    }

    fn begin_wait(&mut self, wait: LogWait) {
        (self.wait, self.wait_from) = (Some(wait), self.calls.len() + 1);
    }

    /// What came of the call that is made now, if the run before made the same one at this place.
    fn again<T>(&mut self, sequence: Oid, same: impl FnOnce(Call) -> Option<T>) -> Option<T> {
        let (of, call) = *self.calls.get(self.made)?;
        let known = if of == sequence { same(call) } else { None };
        match known {
            Some(_) => self.made += 1,
            // This run goes another way.
            None => self.calls.truncate(self.made),
        }
        known
    }

    fn note(&mut self, sequence: Oid, call: Call) {
        if self.calls.len() < CALLS_MAX {
            self.calls.push((sequence, call));
            self.made = self.calls.len();
        }
    }
}

impl View<'_> {
    /// Gives out the next value. Not undone by a rollback; the reply must wait for [`crate::Txn::observed`], as always.
    ///
    /// Errors: 25006 in a read-only transaction, 42P01 for an unknown sequence, 2200H at its end.
    pub fn nextval(&mut self, sequence: Oid) -> Step<i64> {
        self.require_writable("nextval()")?;
        let sequence = self.sequence(sequence)?;
        if let Some(state) = self.txn.sequences.get_mut(sequence.oid) {
            let next = state.next(&sequence)?;
            *state = SequenceState { last: next, called: true, ..*state };
            return Ok(next);
        }
        let given = |call: Call| if let Call::Next(value) = call { Some(value) } else { None };
        if let Some(value) = self.txn.sequence_calls.again(sequence.oid, given) {
            return Ok(value);
        }
        let state = self.tenant.sequence_state(&sequence);
        let next = state.next(&sequence)?;
        let mut state = SequenceState { last: next, called: true, ..state };
        if state.logged_ahead == 0 {
            let ahead = state.advanced(&sequence, LOG_AHEAD);
            self.log_sequence(&sequence, ahead)?;
            state.logged_ahead = LOG_AHEAD;
        } else {
            state.logged_ahead -= 1;
        }
        self.tenant.sequences.insert(sequence.oid, state);
        let logged = self.tenant.sequence_log.get(&sequence.oid).copied().unwrap_or_default();
        if logged > self.tenant.durable {
            self.txn.observe(logged);
        }
        self.txn.sequence_calls.note(sequence.oid, Call::Next(next));
        Ok(next)
    }

    /// Sets the current value; `is_called` says whether `nextval` continues behind it or gives it out.
    ///
    /// Errors: 25006, 42P01, and 22003 for a value out of the sequence's bounds.
    pub fn setval(&mut self, sequence: Oid, value: i64, is_called: bool) -> Step<()> {
        self.require_writable("setval()")?;
        let sequence = self.sequence(sequence)?;
        if value < sequence.min || value > sequence.max {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                    sequence.name, sequence.min, sequence.max
                ),
            )
            .into());
        }
        let state = SequenceState { last: value, called: is_called, logged_ahead: 0 };
        if let Some(own) = self.txn.sequences.get_mut(sequence.oid) {
            *own = state;
            return Ok(());
        }
        let call = Call::Set { value, called: is_called };
        if self.txn.sequence_calls.again(sequence.oid, |made| (made == call).then_some(())).is_some() {
            return Ok(());
        }
        self.log_sequence(&sequence, state)?;
        self.tenant.sequences.insert(sequence.oid, state);
        self.txn.observe(self.tenant.sequence_log[&sequence.oid]);
        self.txn.sequence_calls.note(sequence.oid, call);
        Ok(())
    }

    /// The current value, for showing; the reply must wait for [`crate::Txn::observed`].
    pub fn sequence_value(&mut self, sequence: Oid) -> Step<SequenceValue> {
        let sequence = self.sequence(sequence)?;
        let own = self.txn.sequences.get(sequence.oid);
        let state = own.unwrap_or_else(|| self.tenant.sequence_state(&sequence));
        let logged = self.tenant.sequence_log.get(&sequence.oid).copied().unwrap_or_default();
        if logged > self.tenant.durable {
            self.txn.observe(logged);
        }
        Ok(SequenceValue { last_value: state.last, is_called: state.called })
    }

    /// The sequence as it is now: its value is outside of any snapshot.
    fn sequence(&self, oid: Oid) -> SqlResult<std::sync::Arc<Sequence>> {
        let catalog = self.txn.catalog.as_ref().unwrap_or(&self.tenant.catalog);
        catalog.sequence(oid).cloned().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist"))
        })
    }

    /// Has the statement wait before it logs a call. A transaction that has logged some of its own waits for no limit: everybody's log is kept until it ends.
    ///
    /// Errors: [`Interrupt::Asked`] where it is to wait.
    fn await_log(&mut self) -> Step<()> {
        if self.session.is_none() || !self.txn.sequence_calls.may_wait() {
            return Ok(());
        }
        let wait = match self.redo.far_behind() {
            Some(end) => Some(LogWait::Durable(end)),
            None if self.tenant.has_logged(self.txn) => None,
            None => self.redo.opens_at().map(LogWait::Limit),
        };
        match wait {
            None => Ok(()),
            Some(wait) => {
                self.txn.sequence_calls.begin_wait(wait);
                Err(Interrupt::Asked)
            }
        }
    }

    /// Makes `state` what a restart begins with: a small commit of its own.
    fn log_sequence(&mut self, sequence: &Sequence, state: SequenceState) -> Step<()> {
        self.await_log()?;
        let key = RecordKind::SequenceState.key(sequence.oid.0);
        self.tenant.touch_catalog(&key.to_bytes())?;
        let lsn = self.tenant.commit_records(vec![(key, Some(state.record()))], self.redo)?;
        self.tenant.sequence_log.insert(sequence.oid, lsn);
        Ok(())
    }
}
