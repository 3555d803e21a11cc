//! CREATE, ALTER, DROP TENANT and SHOW TENANTS: the administrator's statements.

use base::SqlResult;
use sqlparser::tokenizer::Token;

use super::tokens::Tokens;

/// A statement of the administrator's database that the server carries out: tenants and their promises.
#[derive(Clone, Debug, PartialEq)]
pub enum HostStatement {
    /// `CREATE TENANT name [WITH (option = value, …)] [OWNER role] [PASSWORD 'text']`
    CreateTenant {
        name: String,
        options: Vec<(String, String)>,
        owner: Option<String>,
        password: Option<String>,
        if_not_exists: bool,
    },
    /// `ALTER TENANT name SET (option = value, …)`
    AlterTenant { name: String, options: Vec<(String, String)> },
    /// `ALTER TENANT name RENAME TO name`
    RenameTenant { name: String, to: String },
    /// `DROP TENANT [IF EXISTS] name`
    DropTenant { name: String, if_exists: bool },
    /// `SHOW TENANTS`
    ShowTenants,
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<HostStatement>> {
    if tokens.take_words(&["SHOW", "TENANTS"]) {
        return Ok(Some(HostStatement::ShowTenants));
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
        tokens.expect_word("SET")?;
        return Ok(Some(HostStatement::AlterTenant { name, options: options(tokens)? }));
    }
    Ok(None)
}

fn create(tokens: &mut Tokens<'_>) -> SqlResult<HostStatement> {
    let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
    let name = tokens.name()?;
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
    Ok(HostStatement::CreateTenant { name, options: with, owner, password, if_not_exists })
}

/// `(option = value, …)`
fn options(tokens: &mut Tokens<'_>) -> SqlResult<Vec<(String, String)>> {
    tokens.expect(&Token::LParen)?;
    let mut options = Vec::new();
    loop {
        let name = tokens.name()?;
        tokens.expect(&Token::Eq)?;
        options.push((name, option_value(tokens)?));
        if !tokens.take(&Token::Comma) {
            break;
        }
    }
    tokens.expect(&Token::RParen)?;
    Ok(options)
}

fn option_value(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    match tokens.peek() {
        Token::Number(digits, _) => {
            let digits = digits.clone();
            tokens.next();
            Ok(digits)
        }
        Token::Minus => {
            tokens.next();
            Ok(format!("-{}", option_value(tokens)?))
        }
        Token::Word(_) => tokens.name(),
        _ => tokens.string(),
    }
}
