//! PostgreSQL's regular expressions: which text a pattern matches, and where.
//!
//! The crate `regex` prefers the alternative that is written first; PostgreSQL prefers the longest match, or the shortest one where
//! the pattern's first quantifier says so, and divides it among the groups from the left. So the crate says whether and from where
//! on a text matches, which is the same by both rules, and linear in the text, and automata of our own ([`program`]) say up to where
//! and how the groups lie ([`dissect`]). Where the crate lacks something (back-references, looking around, our notion of a word), it
//! is asked about a pattern that matches more. One search takes a bounded number of steps, or fails.

mod char_set;
mod dissect;
mod native;
mod parse;
mod program;
mod tree;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

use base::{SqlError, SqlResult, SqlState};
use rustc_hash::FxHashMap;

use self::dissect::{Dissection, Groups};
use self::native::Native;
pub(crate) use self::parse::Options;
use self::parse::{Failed, Parsed};
use self::program::{Budget, Found, GaveUp, STATES_MAX};
use self::tree::{Node, Traits};

/// Compiled patterns kept for each thread, and states of them, of some hundred bytes each; cleared when full.
const CACHE_PATTERNS_MAX: usize = 64;
const CACHE_STATES_MAX: usize = STATES_MAX;

/// States from which on, and steps at worst beyond which, the crate is not asked.
const NATIVE_STATES_MIN: usize = 64;
const NATIVE_STEPS_MAX: usize = 1 << 29;

/// Bytes that the crate may look at for the matches of one search. It does not say how far it looked: for some patterns that is to the text's end for each
/// match, so that much is counted, which makes two seconds' work at most. What is left then is for our automata, whose steps are known.
const NATIVE_BYTES_MAX: usize = 1 << 31;

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

#[derive(Default)]
struct Cache {
    patterns: FxHashMap<(Options, String), Rc<Pattern>>,
    states: usize,
}

/// A pattern ready to search for.
#[derive(Debug)]
pub(crate) struct Pattern {
    tree: Node,
    groups: usize,
    fold_case: bool,
    native: Option<Native>,
    /// Of the automaton of the whole.
    states: usize,
    /// States that its automata may still have.
    states_left: Cell<usize>,
}

/// Where the groups of a match lie, the whole match first.
pub(crate) type Match = Groups;

fn refused(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}

fn gave_up(why: GaveUp) -> SqlError {
    match why {
        GaveUp::TooLarge => refused(parse::TOO_COMPLEX),
        GaveUp::TooLong => SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "regular expression takes too many steps on this text",
        ),
    }
}

impl Pattern {
    /// # Errors
    /// 2201B in PostgreSQL's words; 0A000 for basic regular expressions.
    pub(crate) fn compile(pattern: &str, options: Options) -> SqlResult<Rc<Pattern>> {
        let key = (options, pattern.to_owned());
        if let Some(found) = CACHE.with_borrow(|cache| cache.patterns.get(&key).cloned()) {
            return Ok(found);
        }
        let Parsed { tree, groups, fold_case } =
            parse::parse(pattern, options).map_err(|failed| match failed {
                Failed::Refused(reason) => refused(reason),
                Failed::Basic => SqlError::unsupported("a basic regular expression"),
            })?;
        let native = Native::of(&tree.part.re);
        let states_left = Cell::new(STATES_MAX);
        let mut pattern = Pattern { tree, groups, fold_case, native, states: 0, states_left };
        // What is too large is said at once, as PostgreSQL does, and not for some texts only.
        let budget = Budget::new(&pattern.states_left, 0);
        let program = pattern.tree.part.forward(&budget).map_err(gave_up)?;
        pattern.states = program.states();
        let pattern = Rc::new(pattern);
        CACHE.with_borrow_mut(|cache| {
            // Of a pattern that is long for other reasons its text counts.
            let states = pattern.states.max(key.1.len() / 8);
            if cache.patterns.len() >= CACHE_PATTERNS_MAX || cache.states + states > CACHE_STATES_MAX {
                *cache = Cache::default();
            }
            cache.states += states;
            cache.patterns.insert(key, pattern.clone());
        });
        Ok(pattern)
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// # Errors
    /// 54000 if that takes too long.
    pub(crate) fn is_match(&self, text: &str) -> SqlResult<bool> {
        match self.native_for(text) {
            Some(native) if native.exact => Ok(native.regex.is_match(text)),
            Some(native) if !native.regex.is_match(text) => Ok(false),
            _ if self.tree.traits.has(Traits::BACKREF) => Ok(self.search(text).find(0, false)?.is_some()),
            _ => Ok(self.search(text).first_end(0).map_err(gave_up)?.is_some()),
        }
    }

    /// The crate's form of the pattern, unless it could take too long on `text`: nothing bounds its steps, which are as many as
    /// the states times the characters at worst. Our automata keep to their budget.
    fn native_for(&self, text: &str) -> Option<&Native> {
        let too_long =
            self.states > NATIVE_STATES_MIN && self.states.saturating_mul(text.len()) > NATIVE_STEPS_MAX;
        self.native.as_ref().filter(|_| !too_long)
    }

    /// A search through `text` for any number of matches, whose steps are bounded together.
    pub(crate) fn search<'a>(&'a self, text: &'a str) -> Search<'a> {
        let native_left = Cell::new(NATIVE_BYTES_MAX);
        Search { pattern: self, text, budget: Budget::new(&self.states_left, text.len()), native_left }
    }
}

/// A pattern and a text that is searched for it.
pub(crate) struct Search<'a> {
    pattern: &'a Pattern,
    text: &'a str,
    budget: Budget<'a>,
    native_left: Cell<usize>,
}

impl Search<'_> {
    /// The first match that begins at byte `from` or behind, with its groups if these are asked for.
    ///
    /// # Errors
    /// 54000 if the search takes too long.
    pub(crate) fn find(&self, from: usize, with_groups: bool) -> SqlResult<Option<Match>> {
        self.find_within(from, with_groups).map_err(gave_up)
    }

    fn tree(&self) -> &Node {
        &self.pattern.tree
    }

    /// The first end of a match that begins at `from` or behind.
    fn first_end(&self, from: usize) -> Found<Option<usize>> {
        self.tree().part.forward(&self.budget)?.first_end(self.text, from, &self.budget)
    }

    fn find_within(&self, from: usize, with_groups: bool) -> Found<Option<Match>> {
        let tried = self.tree().traits.has(Traits::BACKREF);
        let (mut at, mut last) = (from, self.text.len());
        if let Some(native) = self.native_from(from) {
            let Some(found) = native.regex.find_at(self.text, from) else { return Ok(None) };
            at = found.start();
            if native.exact {
                last = at;
            }
        }
        if at != last && !tried {
            let Some(end) = self.first_end(at)? else { return Ok(None) };
            last = end;
        }
        loop {
            let found =
                if tried { self.tried_at(at)? } else { self.best_at(at)?.map(|range| self.no_groups(range)) };
            if let Some(groups) = found {
                let dissected = with_groups && !tried && self.pattern.groups > 0;
                return Ok(Some(if dissected { self.dissected(groups)? } else { groups }));
            }
            if at >= last {
                return Ok(None);
            }
            at += self.text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }

    /// The crate's form of the pattern, as long as it has not looked at too much.
    fn native_from(&self, from: usize) -> Option<&Native> {
        let left = self.native_left.get();
        self.native_left.set(left.saturating_sub(self.text.len() - from));
        self.pattern.native_for(self.text).filter(|_| left > 0)
    }

    fn no_groups(&self, whole: Range<usize>) -> Match {
        let mut groups = vec![None; self.pattern.groups + 1];
        groups[0] = Some(whole);
        groups
    }

    fn dissection(&self, groups: Groups) -> Dissection<'_> {
        Dissection { text: self.text, fold_case: self.pattern.fold_case, budget: &self.budget, groups }
    }

    fn dissected(&self, groups: Groups) -> Found<Match> {
        let whole = groups[0].clone().expect("the whole match");
        let mut dissection = self.dissection(groups);
        dissection.dissect(self.tree(), whole.start, whole.end)?;
        Ok(dissection.groups)
    }

    /// The match that begins at `at`: the longest, or the shortest if the pattern prefers that.
    fn best_at(&self, at: usize) -> Found<Option<Range<usize>>> {
        let shorter = self.tree().traits.has(Traits::SHORTER);
        let mut best = None;
        let program = self.tree().part.forward(&self.budget)?;
        program.ends(self.text, at, self.text.len(), &self.budget, |end| {
            best = Some(at..end);
            if shorter { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(best)
    }

    /// The match that begins at `at` whose back-references hold, the best end first.
    fn tried_at(&self, at: usize) -> Found<Option<Match>> {
        let mut ends = Vec::new();
        let program = self.tree().part.forward(&self.budget)?;
        program.ends(self.text, at, self.text.len(), &self.budget, |end| {
            ends.push(end);
            ControlFlow::Continue(())
        })?;
        self.budget.spend(ends.len() * dissect::STEPS_A_ROUND)?;
        if !self.tree().traits.has(Traits::SHORTER) {
            ends.reverse();
        }
        for end in ends {
            let mut dissection = self.dissection(vec![None; self.pattern.groups + 1]);
            if dissection.dissect(self.tree(), at, end)? {
                dissection.groups[0] = Some(at..end);
                return Ok(Some(dissection.groups));
            }
        }
        Ok(None)
    }
}
