//! CREATE, ALTER, DROP, BACKUP, RESTORE TENANT, SHOW TENANTS and `SELECT rowhouse.evict`: the administrator's statements on
//! tenants. Those on sizes, the server and volumes are in `governing`.

use base::SqlResult;
use sqlparser::tokenizer::Token;

use super::governing;
use super::options::{OptionChange, change, options};
use super::tokens::Tokens;

/// A statement of the administrator's database that the server carries out: tenants and their promises.
#[derive(Clone, Debug, PartialEq)]
pub enum HostStatement {
    /// `CREATE TENANT name [FROM TEMPLATE tenant] [WITH (option = value, …)] [OWNER role] [PASSWORD 'text']`
    CreateTenant {
        name: String,
        /// The tenant to copy, its roles included.
        template: Option<String>,
        options: Vec<(String, String)>,
        owner: Option<String>,
        password: Option<String>,
        if_not_exists: bool,
    },
    /// `ALTER TENANT name {SET (option = value, …) | RESET (option, …)}`
    AlterTenant { name: String, change: OptionChange },
    /// `ALTER TENANT name SET WORKER {number | DEFAULT}`: makes the worker the tenant's home; `None`: leaves it to the server.
    MoveTenant { name: String, worker: Option<i64> },
    /// `ALTER TENANT name RENAME TO name`
    RenameTenant { name: String, to: String },
    /// `DROP TENANT [IF EXISTS] name`
    DropTenant { name: String, if_exists: bool },
    /// `SHOW TENANTS`
    ShowTenants,
    /// `BACKUP TENANT name TO STDOUT`: the backup as the data of a COPY.
    BackupTenant { name: String },
    /// `RESTORE TENANT [name] FROM STDIN [WITH (option = value, …)]`; without a name the backup's own.
    RestoreTenant { name: Option<String>, options: Vec<(String, String)> },
    /// `SELECT rowhouse.evict('name')`: drops a tenant's pages from memory, for experiments. Only as a statement of its own, the
    /// name as a literal.
    Evict { name: String },
    /// `CREATE SIZE [IF NOT EXISTS] name AS (option = value, …)`
    CreateSize { name: String, options: Vec<(String, String)>, if_not_exists: bool },
    /// `ALTER SIZE name {SET (option = value, …) | RESET (option, …)}`
    AlterSize { name: String, change: OptionChange },
    /// `DROP SIZE [IF EXISTS] name`
    DropSize { name: String, if_exists: bool },
    /// `SHOW SIZES`
    ShowSizes,
    /// `ALTER SERVER {SET (option = value, …) | RESET (option, …)}`
    AlterServer { change: OptionChange },
    /// `SHOW SERVER`
    ShowServer,
    /// `ALTER VOLUME name {SET (option = value, …) | RESET (option, …)}`
    AlterVolume { name: String, change: OptionChange },
    /// `SHOW VOLUMES`
    ShowVolumes,
    /// `CREATE RUNAWAY RULE [IF NOT EXISTS] name [FOR TENANT tenant] AS (option = value, …)`
    CreateRunawayRule {
        name: String,
        /// `None`: it is about all tenants.
        tenant: Option<String>,
        options: Vec<(String, String)>,
        if_not_exists: bool,
    },
    /// `ALTER RUNAWAY RULE name {SET (option = value, …) | RESET (option, …)}`
    AlterRunawayRule { name: String, change: OptionChange },
    /// `DROP RUNAWAY RULE [IF EXISTS] name`
    DropRunawayRule { name: String, if_exists: bool },
    /// `SHOW RUNAWAY RULES`
    ShowRunawayRules,
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<HostStatement>> {
    if tokens.take_words(&["SHOW", "TENANTS"]) {
        return Ok(Some(HostStatement::ShowTenants));
    }
    if let Some(name) = evict(tokens) {
        return Ok(Some(HostStatement::Evict { name }));
    }
    if tokens.take_words(&["CREATE", "TENANT"]) {
        return create(tokens).map(Some);
    }
    if tokens.take_words(&["DROP", "TENANT"]) {
        let if_exists = tokens.take_if_exists();
        return Ok(Some(HostStatement::DropTenant { name: tokens.name()?, if_exists }));
    }
    if tokens.take_words(&["ALTER", "TENANT"]) {
        let name = tokens.name()?;
        if tokens.take_words(&["RENAME", "TO"]) {
            return Ok(Some(HostStatement::RenameTenant { name, to: tokens.name()? }));
        }
        if tokens.take_words(&["SET", "WORKER"]) {
            let worker = if tokens.take_word("DEFAULT") { None } else { Some(tokens.integer()?) };
            return Ok(Some(HostStatement::MoveTenant { name, worker }));
        }
        return Ok(Some(HostStatement::AlterTenant { name, change: change(tokens)? }));
    }
    if tokens.take_words(&["BACKUP", "TENANT"]) {
        let name = tokens.name()?;
        tokens.expect_word("TO")?;
        tokens.expect_word("STDOUT")?;
        return Ok(Some(HostStatement::BackupTenant { name }));
    }
    if tokens.take_words(&["RESTORE", "TENANT"]) {
        let name = if tokens.peek_words(&["FROM", "STDIN"]) { None } else { Some(tokens.name()?) };
        tokens.expect_word("FROM")?;
        tokens.expect_word("STDIN")?;
        let options = if tokens.take_word("WITH") { options(tokens)? } else { Vec::new() };
        return Ok(Some(HostStatement::RestoreTenant { name, options }));
    }
    governing::parse(tokens)
}

/// The name in `SELECT rowhouse.evict('name')`.
fn evict(tokens: &mut Tokens<'_>) -> Option<String> {
    let mut ahead = tokens.ahead();
    let called = ahead.take_words(&["SELECT", "ROWHOUSE"])
        && ahead.take(&Token::Period)
        && ahead.take_word("EVICT")
        && ahead.take(&Token::LParen);
    let name = called.then(|| ahead.string().ok()).flatten()?;
    (ahead.take(&Token::RParen) && ahead.at_end()).then(|| {
        *tokens = ahead;
        name
    })
}

fn create(tokens: &mut Tokens<'_>) -> SqlResult<HostStatement> {
    let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
    let name = tokens.name()?;
    let template = if tokens.take_words(&["FROM", "TEMPLATE"]) { Some(tokens.name()?) } else { None };
    let (mut with, mut owner, mut password) = (Vec::new(), None, None);
    while !tokens.at_end() {
        if tokens.take_word("WITH") {
            with.extend(options(tokens)?);
        } else if tokens.take_word("OWNER") {
            owner = Some(tokens.name()?);
        } else if tokens.take_word("PASSWORD") {
            password = Some(tokens.string()?);
        } else {
            return Err(tokens.unexpected());
        }
    }
    Ok(HostStatement::CreateTenant { name, template, options: with, owner, password, if_not_exists })
}
