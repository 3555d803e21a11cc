//! CREATE, ALTER, DROP SIZE and RUNAWAY RULE, ALTER SERVER, ALTER VOLUME, and what shows them.

use base::{SqlError, SqlResult};

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
    if tokens.take_words(&["SHOW", "SERVER"]) {
        return Ok(Some(HostStatement::ShowServer));
    }
    if tokens.take_words(&["SHOW", "VOLUMES"]) {
        return Ok(Some(HostStatement::ShowVolumes));
    }
    // Anything else that is called so is PostgreSQL's foreign server.
    if ["SET", "RESET"].iter().any(|word| tokens.peek_words(&["ALTER", "SERVER", word])) {
        tokens.next();
        tokens.next();
        return Ok(Some(HostStatement::AlterServer { change: change(tokens)? }));
    }
    if tokens.take_words(&["ALTER", "VOLUME"]) {
        let name = tokens.name()?;
        return Ok(Some(HostStatement::AlterVolume { name, change: change(tokens)? }));
    }
    if tokens.take_words(&["SHOW", "RUNAWAY", "RULES"]) {
        return Ok(Some(HostStatement::ShowRunawayRules));
    }
    if tokens.take_words(&["CREATE", "RUNAWAY", "RULE"]) {
        let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
        let name = tokens.name()?;
        let tenant = if tokens.take_words(&["FOR", "TENANT"]) { Some(tokens.name()?) } else { None };
        tokens.expect_word("AS")?;
        let options = options(tokens)?;
        return Ok(Some(HostStatement::CreateRunawayRule { name, tenant, options, if_not_exists }));
    }
    if tokens.take_words(&["ALTER", "RUNAWAY", "RULE"]) {
        let name = tokens.name()?;
        return Ok(Some(HostStatement::AlterRunawayRule { name, change: change(tokens)? }));
    }
    if tokens.take_words(&["DROP", "RUNAWAY", "RULE"]) {
        let if_exists = tokens.take_if_exists();
        return Ok(Some(HostStatement::DropRunawayRule { name: tokens.name()?, if_exists }));
    }
    if tokens.peek_words(&["ALTER", "SYSTEM"]) {
        return Err(SqlError::unsupported("ALTER SYSTEM").with_hint(
            "Use ALTER SERVER in the database \"rowhouse\", or the options that the server is started with.",
        ));
    }
    Ok(None)
}
