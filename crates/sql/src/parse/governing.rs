//! CREATE, ALTER, DROP SIZE and SHOW SIZES.

use base::SqlResult;

use super::options::{change, options};
use super::tenant::HostStatement;
use super::tokens::Tokens;

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<HostStatement>> {
    if tokens.take_words(&["SHOW", "SIZES"]) {
        return Ok(Some(HostStatement::ShowSizes));
    }
    if tokens.take_words(&["CREATE", "SIZE"]) {
        let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
        let name = tokens.name()?;
        tokens.expect_word("AS")?;
        return Ok(Some(HostStatement::CreateSize { name, options: options(tokens)?, if_not_exists }));
    }
    if tokens.take_words(&["ALTER", "SIZE"]) {
        let name = tokens.name()?;
        return Ok(Some(HostStatement::AlterSize { name, change: change(tokens)? }));
    }
    if tokens.take_words(&["DROP", "SIZE"]) {
        let if_exists = tokens.take_if_exists();
        return Ok(Some(HostStatement::DropSize { name: tokens.name()?, if_exists }));
    }
    Ok(None)
}
