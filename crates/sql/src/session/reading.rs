//! Long texts of the client's: read in turns, and within what the sessions of a tenant may keep of their clients' messages.
//!
//! What a session keeps, parsed or not, it tells its server ([`SessionHost::keep`]): before it grows, and what is left of it when it waits for its client. The
//! server refuses what is more than the tenant may have; a text that is to be read then waits for others to let go of theirs, for a while.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::SESSION_KEPT_MAX;
use base::{Nanos, SqlError, SqlResult, SqlState};

use super::copying::CopyIn;
use super::transaction::Open;
use super::{Pause, Session, SessionHost, Underway};
use crate::parse::{self, Reading, ScriptStatement, Unread};

/// Bytes of a text from which on others are asked while it is read: a millisecond's work, or a few.
pub const LONG_TEXT_MIN: usize = 8 << 10;
/// How long a text waits for room, and how often it looks.
const ROOM_WAIT_MAX: Nanos = Nanos::from_secs(5);
const ROOM_LOOK: Nanos = Nanos::from_millis(50);

/// Of one session.
struct AtLength {
    host: Arc<dyn SessionHost>,
    statement: Underway,
    /// What the session keeps besides.
    kept: usize,
    /// What was told last of both, if anything was.
    told: Cell<Option<u64>>,
}

impl Reading for AtLength {
    fn is_to_end(&self) -> bool {
        self.host.is_to_end(&self.statement)
    }

    fn hold(&self, bytes: usize) -> SqlResult<()> {
        let wanted = (self.kept + bytes) as u64;
        self.host.keep(wanted).map(|()| self.told.set(Some(wanted)))
    }
}

impl Session {
    /// The statements of a script.
    ///
    /// # Errors
    /// As [`parse::parse_script`]; a pause while others take the room for it.
    pub(super) fn read_script(&mut self, sql: &str) -> Result<Vec<ScriptStatement>, Pause> {
        if sql.len() < LONG_TEXT_MIN {
            return Ok(parse::parse_script(sql)?);
        }
        let reading = self.reading();
        let read = parse::parse_script_at_length(sql, reading.clone());
        let statements = self.as_read(read, &reading)?;
        self.script_size = statements.iter().map(|statement| statement.size).sum();
        self.tell_kept();
        Ok(statements)
    }

    /// The statement of a text that has one.
    ///
    /// # Errors
    /// As [`parse::parse_one`]; a pause while others take the room for it.
    pub(super) fn read_one(&mut self, sql: &str) -> Result<Option<ScriptStatement>, Pause> {
        if sql.len() < LONG_TEXT_MIN {
            return Ok(parse::parse_one(sql)?);
        }
        let reading = self.reading();
        let read = parse::parse_one_at_length(sql, reading.clone());
        let statement = self.as_read(read, &reading)?;
        self.progress.end();
        Ok(statement)
    }

    /// Asks whether the statement is to end, while it is bound.
    pub(super) fn asked(&self) -> Box<dyn Fn() -> bool + Send> {
        let (host, statement) = (Arc::clone(&self.start.host), self.underway());
        Box::new(move || host.is_to_end(&statement))
    }

    fn reading(&self) -> Rc<AtLength> {
        let (host, statement, kept) = (Arc::clone(&self.start.host), self.underway(), self.kept());
        Rc::new(AtLength { host, statement, kept, told: Cell::default() })
    }

    fn as_read<T>(&mut self, read: Result<T, Unread>, reading: &AtLength) -> Result<T, Pause> {
        let waits = self.waits_for_room.take();
        if let Some(told) = reading.told.get() {
            self.told = told;
        }
        if read.is_err() {
            self.tell_kept();
        }
        match read {
            Ok(read) => Ok(read),
            Err(Unread::Refused(error)) => Err(error.into()),
            Err(Unread::ToEnd) => Err(Pause::Yield),
            Err(Unread::NoRoom(_)) if self.statements.shed_named() => Err(Pause::Yield),
            Err(Unread::NoRoom(error)) => {
                let now = self.start.host.now();
                let since = waits.unwrap_or(now);
                if now - since >= ROOM_WAIT_MAX {
                    return Err(error.into());
                }
                self.waits_for_room = Some(since);
                Err(Pause::OwnCap(ROOM_LOOK))
            }
        }
    }

    /// What the session keeps of its client's messages, in bytes by estimate.
    fn kept(&self) -> usize {
        self.statements.kept_in_all()
            + self.portals.kept_in_all()
            + self.script_size
            + self.copy_in.as_ref().map_or(0, CopyIn::kept)
            + self.transaction.peek().map_or(0, Open::kept)
            + self.settings.borrow().kept()
    }

    /// Is about to keep so much more: if need be, in place of the plans of other statements.
    ///
    /// # Errors
    /// 53200.
    pub(super) fn keep(&mut self, more: usize) -> SqlResult<()> {
        let outcome = self.tell(more);
        if outcome.is_err() && self.statements.shed_named() { self.tell(more) } else { outcome }
    }

    fn tell(&mut self, more: usize) -> SqlResult<()> {
        let wanted = (self.kept() + more) as u64;
        if wanted > self.told {
            self.start.host.keep(wanted)?;
            self.told = wanted;
        }
        Ok(())
    }

    /// Is about to keep so much more that has a name.
    ///
    /// # Errors
    /// 54000 where it is too much for a session, 53200 where it is for the tenant.
    pub(super) fn require_room_to_keep(&mut self, more: usize) -> SqlResult<()> {
        let savepoints = self.transaction.peek().map_or(0, Open::kept);
        let is_too_much = |session: &Session| {
            let kept = session.statements.kept() + session.portals.kept() + savepoints + more;
            kept as u64 > SESSION_KEPT_MAX.0
        };
        if !is_too_much(self) || self.statements.shed_named() && !is_too_much(self) {
            return self.keep(more);
        }
        let message = "too much is kept in prepared statements, cursors and savepoints";
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_detail(format!("Those of a session may take {} by estimate.", SESSION_KEPT_MAX))
            .with_hint("Close those that are not used any more."))
    }

    /// The client is waited for: what is kept is told. Where it `has_all` that it waited for, what it is not likely to ask for again is let go of
    /// before.
    pub fn settle(&mut self, has_all: bool) {
        if self.script.is_none() {
            self.script_size = 0;
        }
        self.copy_in.iter_mut().for_each(CopyIn::settle);
        self.statements.trim();
        self.portals.trim();
        self.transaction.open().into_iter().for_each(Open::trim);
        self.settings.borrow_mut().trim();
        if has_all {
            if self.copy_in.is_none() {
                self.let_go_of_names();
            }
            self.statements.shed();
            self.portals.shed();
            if self.start.host.keeps_much() {
                // Of an idle session nobody else can let go of them.
                self.statements.shed_seldom();
            }
        }
        self.tell_kept();
    }

    fn tell_kept(&mut self) {
        let kept = self.kept() as u64;
        // Where it is more than was asked for, that stays told.
        if kept != self.told && self.start.host.keep(kept).is_ok() {
            self.told = kept;
        }
    }
}
