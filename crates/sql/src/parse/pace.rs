//! What the reading of a text takes of others: their turns, and memory.
//!
//! A text may have millions of tokens, each of which takes some hundred bytes and half a microsecond. Whoever has a long one read is asked for both
//! ([`Reading`]): every few hundred steps whether to go on, and before memory is taken whether there is as much. Where there is not, or the reading is to
//! end, it is unwound, since `sqlparser` takes an error for a reason to try something else. Who asks nobody reads at a [`Pace::free`].

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use base::{SqlError, SqlResult};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whose turn and whose memory a reading takes.
pub trait Reading {
    /// Whether the reading is to end. Others may have had their turns when this returns.
    fn is_to_end(&self) -> bool;

    /// The reading takes so many bytes from now on, in place of what it took before.
    ///
    /// # Errors
    /// 53200 where there is no room for them.
    fn hold(&self, bytes: usize) -> SqlResult<()>;
}

/// Why a text was not read to its end.
#[derive(Debug)]
pub enum Unread {
    /// The text is no SQL, or none that is taken.
    Refused(SqlError),
    /// [`Reading::is_to_end`] said so.
    ToEnd,
    /// [`Reading::hold`] said so.
    NoRoom(SqlError),
}

/// Steps between two questions.
const STEPS_A_LOOK: u32 = 256;
/// What a token takes until its statement is read.
pub(super) const TOKEN_SIZE: usize = 112;
/// What a statement takes once it is read, its plan with it: in any case, for each query in it, for each of its tokens but blanks, and for each byte of its
/// text, which its literals are a part of. By estimate: 50,000 times `SELECT 1` take 260 MB once they are read, as many rows of two values in an INSERT 70.
const STATEMENT_SIZE_MIN: usize = 2 << 10;
const QUERY_SIZE: usize = 8 << 10;
const PARSED_SIZE: usize = 256;
const TEXT_COPIES: usize = 4;

/// What a statement of these tokens takes in memory once it is read and planned, by estimate.
pub(super) fn statement_size(tokens: &[TokenWithSpan], text: &str) -> usize {
    let of_token = |token: &TokenWithSpan| match &token.token {
        Token::Whitespace(_) => 0,
        Token::Word(word) if matches!(word.keyword, Keyword::SELECT | Keyword::VALUES) => {
            PARSED_SIZE + QUERY_SIZE
        }
        _ => PARSED_SIZE,
    };
    STATEMENT_SIZE_MIN + tokens.iter().map(of_token).sum::<usize>() + TEXT_COPIES * text.len()
}

/// How a text is read.
#[derive(Clone)]
pub(super) struct Pace(Option<Rc<Asked>>);

/// Who is asked, and what was told.
struct Asked {
    reading: Rc<dyn Reading>,
    steps: Cell<u32>,
    held: Cell<usize>,
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pace({})", if self.0.is_some() { "asking" } else { "free" })
    }
}

impl Pace {
    /// Of a short text.
    pub(super) fn free() -> Pace {
        Pace(None)
    }

    pub(super) fn asking(reading: Rc<dyn Reading>) -> Pace {
        Pace(Some(Rc::new(Asked { reading, steps: Cell::new(0), held: Cell::new(0) })))
    }

    /// Has `read` read at this pace.
    pub(super) fn run<T>(&self, read: impl FnOnce(&Pace) -> SqlResult<T>) -> Result<T, Unread> {
        // What was read so far is dropped in whatever state it is.
        match catch_unwind(AssertUnwindSafe(|| read(self))) {
            Ok(outcome) => outcome.map_err(Unread::Refused),
            Err(panic) => Err(*panic.downcast::<Unread>().unwrap_or_else(|panic| resume_unwind(panic))),
        }
    }

    /// A step, of which a token takes one or a few.
    #[inline]
    pub(super) fn step(&self) {
        if let Some(asked) = &self.0 {
            asked.step();
        }
    }

    /// Takes so many bytes more.
    pub(super) fn take(&self, bytes: usize) {
        if let Some(asked) = &self.0 {
            asked.held.set(asked.held.get() + bytes);
            if let Err(error) = asked.reading.hold(asked.held.get()) {
                resume_unwind(Box::new(Unread::NoRoom(error)));
            }
        }
    }

    /// Gives so many bytes back, before it takes others.
    pub(super) fn give(&self, bytes: usize) {
        if let Some(asked) = &self.0 {
            asked.held.set(asked.held.get() - bytes);
        }
    }

    /// The tokens once more.
    pub(super) fn copied(&self, tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
        let copied = |token: &TokenWithSpan| {
            self.step();
            token.clone()
        };
        tokens.iter().map(copied).collect()
    }
}

impl Asked {
    fn step(&self) {
        let steps = self.steps.get() + 1;
        self.steps.set(steps % STEPS_A_LOOK);
        if steps == STEPS_A_LOOK && self.reading.is_to_end() {
            resume_unwind(Box::new(Unread::ToEnd));
        }
    }
}
