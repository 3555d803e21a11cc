//! The order of messages: which are handled, which are skipped after an error, and what COPY allows.
//!
//! State: whether the extended protocol skips to the next Sync, and whether a COPY FROM STDIN waits for data. Asked
//! with the tag alone, so that a skipped message is never decoded.

use base::{SqlError, SqlState};

/// What to do with a message.
#[derive(Debug, PartialEq)]
pub enum Route {
    /// Decode and handle it.
    Handle,
    /// Drop it undecoded.
    Skip,
    /// It breaks a running COPY FROM STDIN, which fails with this error; then [`Conversation::failed`].
    BreaksCopy(SqlError),
}

/// Through which sub-protocol a statement came; decides what follows its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Query: ReadyForQuery follows by itself.
    Simple,
    /// Parse, Bind, Execute: everything is skipped until Sync.
    Extended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ready,
    SkipToSync,
    CopyIn(Via),
}

/// Where a session stands in the protocol.
#[derive(Debug)]
pub struct Conversation {
    mode: Mode,
}

impl Default for Conversation {
    fn default() -> Conversation {
        Conversation { mode: Mode::Ready }
    }
}

impl Conversation {
    /// A session that just became ready for its first query.
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// What to do with a message of this tag. A Sync ends skipping.
    pub fn route(&mut self, tag: u8) -> Route {
        match (self.mode, tag) {
            (_, b'X') => Route::Handle,
            (Mode::SkipToSync, b'S') => {
                self.mode = Mode::Ready;
                Route::Handle
            }
            (Mode::SkipToSync, _) => Route::Skip,
            (Mode::CopyIn(_), b'd' | b'c' | b'f') => Route::Handle,
            // A client that pipelines Execute and Sync sends the Sync before it knows of the COPY.
            (Mode::CopyIn(_), b'S' | b'H') => Route::Skip,
            (Mode::CopyIn(_), tag) => Route::BreaksCopy(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("unexpected message type 0x{tag:02X} during COPY from stdin"),
            )),
            // The rest of a COPY that already failed.
            (Mode::Ready, b'd' | b'c' | b'f') => Route::Skip,
            (Mode::Ready, _) => Route::Handle,
        }
    }

    /// A COPY FROM STDIN began and waits for data.
    pub fn copy_in_began(&mut self, via: Via) {
        debug_assert_eq!(self.mode, Mode::Ready);
        self.mode = Mode::CopyIn(via);
    }

    /// The client ended the COPY's data, or the COPY's statement failed otherwise; tells how the COPY was started.
    pub fn copy_in_ended(&mut self) -> Option<Via> {
        match self.mode {
            Mode::CopyIn(via) => {
                self.mode = Mode::Ready;
                Some(via)
            }
            _ => None,
        }
    }

    /// How the COPY FROM STDIN that waits for data was started.
    pub fn copying_in(&self) -> Option<Via> {
        match self.mode {
            Mode::CopyIn(via) => Some(via),
            _ => None,
        }
    }

    /// An error was reported for a message that came `via` this sub-protocol.
    pub fn failed(&mut self, via: Via) {
        self.mode = match via {
            Via::Simple => Mode::Ready,
            Via::Extended => Mode::SkipToSync,
        };
    }

    /// The sub-protocol a message of this tag belongs to.
    pub fn via(tag: u8) -> Via {
        match tag {
            b'P' | b'B' | b'D' | b'E' | b'C' | b'H' => Via::Extended,
            _ => Via::Simple,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_extended_error_all_is_skipped_until_sync() {
        let mut c = Conversation::new();
        c.failed(Conversation::via(b'B'));
        for tag in *b"PBDECHQdcf" {
            assert_eq!(c.route(tag), Route::Skip);
        }
        assert_eq!(c.route(b'S'), Route::Handle);
        assert_eq!(c.route(b'P'), Route::Handle);
    }

    #[test]
    fn a_simple_error_skips_nothing() {
        let mut c = Conversation::new();
        c.failed(Conversation::via(b'Q'));
        assert_eq!(c.route(b'Q'), Route::Handle);
    }

    #[test]
    fn copy_takes_data_only_and_its_late_rest_is_dropped() {
        let mut c = Conversation::new();
        c.copy_in_began(Via::Extended);
        assert_eq!(c.route(b'S'), Route::Skip);
        assert_eq!(c.route(b'd'), Route::Handle);
        assert!(matches!(c.route(b'Q'), Route::BreaksCopy(e) if e.state() == SqlState::PROTOCOL_VIOLATION));
        assert_eq!(c.copy_in_ended(), Some(Via::Extended));
        assert_eq!(c.copy_in_ended(), None);
        assert_eq!(c.route(b'd'), Route::Skip);
        assert_eq!(c.route(b'Q'), Route::Handle);
    }
}
