//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their kin.

use base::{SqlError, SqlResult};
use sqlparser::tokenizer::Token;

use super::tokens::Tokens;

/// The isolation levels as written; READ UNCOMMITTED behaves as READ COMMITTED, as in PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl IsolationLevel {
    /// The name that `SHOW transaction_isolation` gives.
    pub fn as_str(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// The level of that name.
    pub fn from_name(name: &str) -> Option<IsolationLevel> {
        [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Serializable,
        ]
        .into_iter()
        .find(|level| level.as_str().eq_ignore_ascii_case(name))
    }
}

/// What BEGIN or SET TRANSACTION asks for; `None` leaves the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransactionModes {
    pub isolation: Option<IsolationLevel>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionStatement {
    /// `start` when it was written as START TRANSACTION (its command tag differs).
    Begin {
        modes: TransactionModes,
        start: bool,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    SetTransaction(TransactionModes),
    /// `SET TRANSACTION SNAPSHOT`.
    ImportSnapshot(String),
    /// `PREPARE TRANSACTION`.
    PrepareTransaction,
    /// `COMMIT PREPARED` and `ROLLBACK PREPARED`.
    FinishPrepared {
        commit: bool,
        id: String,
    },
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<TransactionStatement>> {
    let statement = if tokens.take_words(&["START", "TRANSACTION"]) {
        TransactionStatement::Begin { modes: modes(tokens)?, start: true }
    } else if tokens.take_word("BEGIN") {
        noise(tokens);
        TransactionStatement::Begin { modes: modes(tokens)?, start: false }
    } else if tokens.take_words(&["PREPARE", "TRANSACTION"]) {
        tokens.string()?;
        TransactionStatement::PrepareTransaction
    } else if tokens.take_words(&["COMMIT", "PREPARED"]) {
        TransactionStatement::FinishPrepared { commit: true, id: tokens.string()? }
    } else if tokens.take_words(&["ROLLBACK", "PREPARED"]) {
        TransactionStatement::FinishPrepared { commit: false, id: tokens.string()? }
    } else if tokens.take_word("COMMIT") || tokens.take_word("END") {
        noise(tokens);
        TransactionStatement::Commit { chain: chain(tokens)? }
    } else if tokens.take_word("ROLLBACK") || tokens.take_word("ABORT") {
        noise(tokens);
        if tokens.take_word("TO") {
            tokens.take_word("SAVEPOINT");
            TransactionStatement::RollbackTo(tokens.identifier()?)
        } else {
            TransactionStatement::Rollback { chain: chain(tokens)? }
        }
    } else if tokens.take_word("SAVEPOINT") {
        TransactionStatement::Savepoint(tokens.identifier()?)
    } else if tokens.take_word("RELEASE") {
        tokens.take_word("SAVEPOINT");
        TransactionStatement::Release(tokens.identifier()?)
    } else if tokens.peek_words(&["SET", "TRANSACTION"])
        || tokens.peek_words(&["SET", "LOCAL", "TRANSACTION"])
    {
        tokens.expect_word("SET")?;
        let local = tokens.take_word("LOCAL");
        tokens.expect_word("TRANSACTION")?;
        if !tokens.take_word("SNAPSHOT") {
            TransactionStatement::SetTransaction(some_modes(tokens)?)
        } else if local {
            return Err(SqlError::unsupported("SET LOCAL TRANSACTION SNAPSHOT"));
        } else {
            TransactionStatement::ImportSnapshot(tokens.string()?)
        }
    } else {
        return Ok(None);
    };
    Ok(Some(statement))
}

fn noise(tokens: &mut Tokens<'_>) {
    if !tokens.take_word("TRANSACTION") {
        tokens.take_word("WORK");
    }
}

fn chain(tokens: &mut Tokens<'_>) -> SqlResult<bool> {
    if tokens.take_words(&["AND", "NO", "CHAIN"]) {
        return Ok(false);
    }
    Ok(tokens.take_words(&["AND", "CHAIN"]))
}

/// Those of BEGIN, which may be none.
fn modes(tokens: &mut Tokens<'_>) -> SqlResult<TransactionModes> {
    if tokens.at_end() { Ok(TransactionModes::default()) } else { some_modes(tokens) }
}

/// Modes up to the end of the statement, with commas between them or without.
pub(super) fn some_modes(tokens: &mut Tokens<'_>) -> SqlResult<TransactionModes> {
    let mut modes = TransactionModes::default();
    loop {
        if tokens.take_words(&["ISOLATION", "LEVEL"]) {
            modes.isolation = Some(level(tokens)?);
        } else if tokens.take_words(&["READ", "ONLY"]) {
            modes.read_only = Some(true);
        } else if tokens.take_words(&["READ", "WRITE"]) {
            modes.read_only = Some(false);
        } else if tokens.take_words(&["NOT", "DEFERRABLE"]) {
            modes.deferrable = Some(false);
        } else if tokens.take_word("DEFERRABLE") {
            modes.deferrable = Some(true);
        } else {
            return Err(tokens.unexpected());
        }
        if !tokens.take(&Token::Comma) && tokens.at_end() {
            return Ok(modes);
        }
    }
}

fn level(tokens: &mut Tokens<'_>) -> SqlResult<IsolationLevel> {
    if tokens.take_words(&["READ", "COMMITTED"]) {
        Ok(IsolationLevel::ReadCommitted)
    } else if tokens.take_words(&["READ", "UNCOMMITTED"]) {
        Ok(IsolationLevel::ReadUncommitted)
    } else if tokens.take_words(&["REPEATABLE", "READ"]) {
        Ok(IsolationLevel::RepeatableRead)
    } else if tokens.take_word("SERIALIZABLE") {
        Ok(IsolationLevel::Serializable)
    } else {
        Err(tokens.unexpected())
    }
}
