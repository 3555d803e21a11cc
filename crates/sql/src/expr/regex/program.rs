//! Nondeterministic automata over texts, walked from a position on or back from one, all states at once.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use super::char_set::{CharSet, is_word};
use super::tree::{Assertion, Look, Part, Re};

/// Steps that one search may take, of some ten nanoseconds each: a third of a second's work, more in a long text, and at most some
/// seconds'.
const STEPS_MIN: u64 = 1 << 25;
const STEPS_A_BYTE: u64 = 32;
const STEPS_MAX: u64 = 1 << 28;

/// States that the automata of one pattern may have together.
pub(super) const STATES_MAX: usize = 200_000;

/// Why a search was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GaveUp {
    /// It would have taken more than its steps.
    TooLong,
    /// The pattern's automata are too large.
    TooLarge,
}

pub(super) type Found<T> = Result<T, GaveUp>;

/// What one search has left, and the states that automata may still have.
pub(super) struct Budget<'p> {
    steps: Cell<u64>,
    states: &'p Cell<usize>,
}

impl Budget<'_> {
    pub(super) fn new(states: &Cell<usize>, text_len: usize) -> Budget<'_> {
        let steps = STEPS_MIN + STEPS_A_BYTE * text_len as u64;
        Budget { steps: Cell::new(steps.min(STEPS_MAX)), states }
    }

    pub(super) fn spend(&self, steps: usize) -> Found<()> {
        let left = self.steps.get().checked_sub(steps as u64).ok_or(GaveUp::TooLong)?;
        self.steps.set(left);
        Ok(())
    }
}

type StateNo = u32;

#[derive(Debug)]
enum State {
    Accept,
    Char(Rc<CharSet>, StateNo),
    Split(StateNo, StateNo),
    Assert(Assertion, StateNo),
    Look(Rc<Look>, StateNo),
}

/// The automaton of one expression.
#[derive(Debug)]
pub(super) struct Program {
    states: Vec<State>,
    start: StateNo,
    /// Kept from one walk to the next, for its memory.
    scratch: RefCell<Scratch>,
}

#[derive(Debug, Default)]
struct Scratch {
    now: Vec<StateNo>,
    next: Vec<StateNo>,
    stack: Vec<StateNo>,
    /// In which round a state was reached last.
    reached: Vec<u64>,
    round: u64,
}

struct Compiler<'p> {
    states: Vec<State>,
    left: &'p Cell<usize>,
}

impl Compiler<'_> {
    fn push(&mut self, state: State) -> Found<StateNo> {
        let left = self.left.get().checked_sub(1).ok_or(GaveUp::TooLarge)?;
        self.left.set(left);
        self.states.push(state);
        Ok(self.states.len() as StateNo - 1)
    }

    /// The state from which `re` leads to `next`.
    fn emit(&mut self, re: &Re, next: StateNo) -> Found<StateNo> {
        match re {
            Re::Empty => Ok(next),
            Re::Set(set) => self.push(State::Char(set.clone(), next)),
            Re::Cat(parts) => parts.iter().rev().try_fold(next, |next, part| self.emit(part, next)),
            Re::Alt(parts) => {
                let mut rest = None;
                for part in parts.iter().rev() {
                    let part = self.emit(part, next)?;
                    rest = Some(match rest {
                        None => part,
                        Some(rest) => self.push(State::Split(part, rest))?,
                    });
                }
                Ok(rest.unwrap_or(next))
            }
            Re::Repeat { of, least, most } => {
                let mut at = next;
                match most {
                    None => {
                        at = self.push(State::Split(next, next))?;
                        let body = self.emit(of, at)?;
                        self.states[at as usize] = State::Split(body, next);
                    }
                    Some(most) => {
                        for _ in *least..*most {
                            let body = self.emit(of, at)?;
                            at = self.push(State::Split(body, next))?;
                        }
                    }
                }
                for _ in 0..*least {
                    at = self.emit(of, at)?;
                }
                Ok(at)
            }
            Re::Assert(assertion) => self.push(State::Assert(*assertion, next)),
            Re::Look(look) => self.push(State::Look(look.clone(), next)),
            Re::Anything => {
                let again = self.push(State::Split(next, next))?;
                let any = self.push(State::Char(Rc::new(CharSet::any(false)), again))?;
                self.states[again as usize] = State::Split(any, next);
                Ok(again)
            }
        }
    }
}

impl Part {
    pub(super) fn forward(&self, budget: &Budget<'_>) -> Found<Rc<Program>> {
        match self.forward.get() {
            Some(program) => Ok(program.clone()),
            None => {
                let program = Program::of(&self.re, budget)?;
                Ok(self.forward.get_or_init(|| program).clone())
            }
        }
    }

    pub(super) fn backward(&self, budget: &Budget<'_>) -> Found<Rc<Program>> {
        match self.backward.get() {
            Some(program) => Ok(program.clone()),
            None => {
                let program = Program::of(&self.re.reversed(), budget)?;
                Ok(self.backward.get_or_init(|| program).clone())
            }
        }
    }
}

/// Positions between `from` and an end, both in.
pub(super) struct Positions {
    from: usize,
    bits: Vec<u64>,
}

impl Positions {
    pub(super) fn none(from: usize, to: usize, budget: &Budget<'_>) -> Found<Positions> {
        let words = (to - from) / 64 + 1;
        budget.spend(words)?;
        Ok(Positions { from, bits: vec![0; words] })
    }

    pub(super) fn add(&mut self, at: usize) {
        let bit = at - self.from;
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    pub(super) fn has(&self, at: usize) -> bool {
        let bit = at - self.from;
        self.bits[bit / 64] >> (bit % 64) & 1 == 1
    }
}

fn char_before(text: &str, at: usize) -> Option<char> {
    text[..at].chars().next_back()
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

/// Which way a walk goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    On,
    Back,
}

/// Where a walk begins: once, or again and again as it goes.
#[derive(Clone, Copy)]
enum Starts<'a> {
    Once,
    Anywhere,
    At(&'a Positions),
}

impl Starts<'_> {
    fn at(self, at: usize, from: usize) -> bool {
        match self {
            Starts::Once => at == from,
            Starts::Anywhere => true,
            Starts::At(positions) => positions.has(at),
        }
    }

    fn again(self) -> bool {
        !matches!(self, Starts::Once)
    }
}

impl Program {
    fn of(re: &Re, budget: &Budget<'_>) -> Found<Rc<Program>> {
        let mut compiler = Compiler { states: vec![State::Accept], left: budget.states };
        let start = compiler.emit(re, 0)?;
        Ok(Rc::new(Program { states: compiler.states, start, scratch: RefCell::default() }))
    }

    pub(super) fn states(&self) -> usize {
        self.states.len()
    }

    /// Calls `each` with the ends, in order, of the matches that begin at `from` and end at `limit` or before, until it breaks.
    pub(super) fn ends(
        &self,
        text: &str,
        from: usize,
        limit: usize,
        budget: &Budget<'_>,
        mut each: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Found<()> {
        self.walk(text, from, limit, Way::On, Starts::Once, budget, &mut each)
    }

    /// The first end of any match that begins at `from` or behind.
    pub(super) fn first_end(&self, text: &str, from: usize, budget: &Budget<'_>) -> Found<Option<usize>> {
        let mut found = None;
        self.walk(text, from, text.len(), Way::On, Starts::Anywhere, budget, &mut |end| {
            found = Some(end);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Where a match of what this is the reverse of may begin that ends at one of `sources`, between `start` and `end`.
    pub(super) fn starts(
        &self,
        text: &str,
        start: usize,
        end: usize,
        sources: &Positions,
        budget: &Budget<'_>,
    ) -> Found<Positions> {
        let mut found = Positions::none(start, end, budget)?;
        self.walk(text, end, start, Way::Back, Starts::At(sources), budget, &mut |at| {
            found.add(at);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Walks from `from` to `limit`, beginning anew where `starts` says so, and tells `each` where it was accepted.
    #[expect(clippy::too_many_arguments, reason = "one walk serves all of the above")]
    fn walk(
        &self,
        text: &str,
        from: usize,
        limit: usize,
        way: Way,
        starts: Starts<'_>,
        budget: &Budget<'_>,
        each: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Found<()> {
        let mut scratch = self.scratch.take();
        let walked = self.walk_with(&mut scratch, text, from, limit, way, starts, budget, each);
        self.scratch.replace(scratch);
        walked
    }

    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn walk_with(
        &self,
        scratch: &mut Scratch,
        text: &str,
        from: usize,
        limit: usize,
        way: Way,
        starts: Starts<'_>,
        budget: &Budget<'_>,
        each: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Found<()> {
        scratch.reached.resize(self.states.len(), 0);
        scratch.now.clear();
        scratch.next.clear();
        let mut at = from;
        scratch.round += 1;
        let mut accepted = false;
        loop {
            if starts.at(at, from) {
                accepted |= self.follow(scratch, self.start, text, at, budget)?;
            }
            if accepted && each(at).is_break() {
                return Ok(());
            }
            std::mem::swap(&mut scratch.now, &mut scratch.next);
            scratch.next.clear();
            if at == limit || scratch.now.is_empty() && !starts.again() {
                return Ok(());
            }
            let c = match way {
                Way::On => char_at(text, at),
                Way::Back => char_before(text, at),
            };
            let Some(c) = c else { return Ok(()) };
            at = if way == Way::On { at + c.len_utf8() } else { at - c.len_utf8() };
            scratch.round += 1;
            budget.spend(1 + scratch.now.len())?;
            accepted = false;
            let now = std::mem::take(&mut scratch.now);
            for state in &now {
                if let State::Char(set, next) = &self.states[*state as usize]
                    && set.contains(c)
                {
                    accepted |= self.follow(scratch, *next, text, at, budget)?;
                }
            }
            scratch.now = now;
        }
    }

    /// Reaches `state` and what follows it without a character; true if that accepts.
    fn follow(
        &self,
        scratch: &mut Scratch,
        state: StateNo,
        text: &str,
        at: usize,
        budget: &Budget<'_>,
    ) -> Found<bool> {
        let mut accepted = false;
        scratch.stack.clear();
        scratch.stack.push(state);
        while let Some(state) = scratch.stack.pop() {
            if std::mem::replace(&mut scratch.reached[state as usize], scratch.round) == scratch.round {
                continue;
            }
            budget.spend(1)?;
            match &self.states[state as usize] {
                State::Accept => accepted = true,
                State::Char(..) => scratch.next.push(state),
                State::Split(first, second) => scratch.stack.extend([*second, *first]),
                State::Assert(assertion, next) => {
                    if assertion.holds(text, at) {
                        scratch.stack.push(*next);
                    }
                }
                State::Look(look, next) => {
                    if look.holds(text, at, budget)? {
                        scratch.stack.push(*next);
                    }
                }
            }
        }
        Ok(accepted)
    }
}

impl Assertion {
    fn holds(self, text: &str, at: usize) -> bool {
        let before = || char_before(text, at).is_some_and(is_word);
        let after = || char_at(text, at).is_some_and(is_word);
        match self {
            Assertion::TextStart => at == 0,
            Assertion::TextEnd => at == text.len(),
            Assertion::LineStart => at == 0 || text.as_bytes()[at - 1] == b'\n',
            Assertion::LineEnd => at == text.len() || text.as_bytes()[at] == b'\n',
            Assertion::WordStart => !before() && after(),
            Assertion::WordEnd => before() && !after(),
            Assertion::WordBoundary => before() != after(),
            Assertion::NotWordBoundary => before() == after(),
        }
    }
}

impl Look {
    fn holds(&self, text: &str, at: usize, budget: &Budget<'_>) -> Found<bool> {
        // The part is reversed already, if it looks back.
        let program = self.part.forward(budget)?;
        let (limit, way) = if self.behind { (0, Way::Back) } else { (text.len(), Way::On) };
        let mut found = false;
        program.walk(text, at, limit, way, Starts::Once, budget, &mut |_| {
            found = true;
            ControlFlow::Break(())
        })?;
        Ok(found != self.negated)
    }
}
