//! How operations of ALTER TABLE begin and end that `sqlparser` does not know: one of them, standing alone.

use base::SqlResult;
use sqlparser::tokenizer::Token;

use super::tokens::Tokens;

/// `ALTER TABLE [IF EXISTS] [ONLY] name`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlteredTable {
    pub name: Vec<String>,
    pub if_exists: bool,
}

/// Takes the beginning; `None` for another statement, which is not to be read on from here.
pub(super) fn take_table(tokens: &mut Tokens<'_>) -> Option<AlteredTable> {
    if !tokens.take_words(&["ALTER", "TABLE"]) {
        return None;
    }
    let if_exists = tokens.take_if_exists();
    tokens.take_word("ONLY");
    let name = tokens.object_name().ok()?;
    Some(AlteredTable { name, if_exists })
}

/// Takes `ALTER [COLUMN] column`; `None` as of [`take_table`].
pub(super) fn take_column(tokens: &mut Tokens<'_>) -> Option<String> {
    if !tokens.take_word("ALTER") {
        return None;
    }
    tokens.take_word("COLUMN");
    tokens.name().ok()
}

/// Whether the statement ends here. Beside another operation it does not: there it is refused by its name.
///
/// # Errors
/// 42601 for anything else.
pub(super) fn stands_alone(tokens: &Tokens<'_>) -> SqlResult<bool> {
    match tokens.peek() {
        Token::EOF => Ok(true),
        Token::Comma => Ok(false),
        _ => Err(tokens.unexpected()),
    }
}
