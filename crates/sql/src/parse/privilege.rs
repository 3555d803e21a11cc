//! GRANT and REVOKE of privileges and of membership, ALTER DEFAULT PRIVILEGES.

use base::{SqlError, SqlResult};
use sqlparser::tokenizer::Token;

use super::role::RoleStatement;
use super::tokens::Tokens;

/// What a privilege is granted on; names as `[schema.]name`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrantTarget {
    Tables(Vec<Vec<String>>),
    AllTables(Vec<String>),
    Sequences(Vec<Vec<String>>),
    AllSequences(Vec<String>),
    /// Of schemas; there are none.
    AllFunctions(Vec<String>),
    Schemas(Vec<String>),
    Databases(Vec<String>),
    Types(Vec<Vec<String>>),
}

/// A GRANT or REVOKE of privileges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrantStatement {
    Privileges {
        grant: bool,
        /// Upper-case words; empty for ALL.
        privileges: Vec<String>,
        target: GrantTarget,
        /// `public` stands for everybody.
        grantees: Vec<String>,
        /// WITH GRANT OPTION, or GRANT OPTION FOR.
        grant_option: bool,
        granted_by: Option<String>,
        cascade: bool,
    },
    Membership(RoleStatement),
    Default(DefaultPrivileges),
}

/// `ALTER DEFAULT PRIVILEGES`: of objects that are made later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultPrivileges {
    /// Who makes them; empty for the current role.
    pub roles: Vec<String>,
    /// Where; empty for anywhere.
    pub schemas: Vec<String>,
    pub grant: bool,
    /// Upper-case words; empty for ALL.
    pub privileges: Vec<String>,
    /// `tables`, `sequences`, `schemas`, `functions` or `types`.
    pub kind: &'static str,
    pub grantees: Vec<String>,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub grant_option: bool,
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<GrantStatement>> {
    if tokens.peek_words(&["ALTER", "DEFAULT", "PRIVILEGES"]) {
        return default_privileges(tokens).map(|defaults| Some(GrantStatement::Default(defaults)));
    }
    let grant = tokens.peek_words(&["GRANT"]);
    if !tokens.take_word("GRANT") && !tokens.take_word("REVOKE") {
        return Ok(None);
    }
    let only_option = !grant && tokens.take_words(&["GRANT", "OPTION", "FOR"]);
    let only_admin_option = !grant && !only_option && tokens.take_words(&["ADMIN", "OPTION", "FOR"]);
    let words = words_of(tokens)?;
    // A privilege has no admin option, and a membership no grant option.
    let of_privileges = tokens.peek_words(&["ON"]);
    if of_privileges && only_admin_option || !of_privileges && only_option {
        return Err(tokens.unexpected());
    }
    if !tokens.take_word("ON") {
        let membership = membership(tokens, grant, words, only_admin_option);
        return membership.map(|membership| Some(GrantStatement::Membership(membership)));
    }
    let target = target(tokens)?;
    tokens.expect_word(if grant { "TO" } else { "FROM" })?;
    let grantees = grantees(tokens)?;
    let grant_option = only_option || grant && tokens.take_words(&["WITH", "GRANT", "OPTION"]);
    let granted_by = granted_by(tokens)?;
    let cascade = tokens.take_word("CASCADE");
    if !cascade {
        tokens.take_word("RESTRICT");
    }
    let privileges = privileges_of(&words);
    Ok(Some(GrantStatement::Privileges {
        grant,
        privileges,
        target,
        grantees,
        grant_option,
        granted_by,
        cascade,
    }))
}

/// `SELECT, INSERT`, `ALL PRIVILEGES`, or roles.
fn words_of(tokens: &mut Tokens<'_>) -> SqlResult<Vec<String>> {
    let mut words = vec![tokens.name()?];
    if words[0] == "all" {
        tokens.take_word("PRIVILEGES");
    }
    loop {
        if matches!(tokens.peek(), Token::LParen) {
            return Err(SqlError::unsupported("a privilege on columns"));
        }
        if !tokens.take(&Token::Comma) {
            return Ok(words);
        }
        words.push(tokens.name()?);
    }
}

/// The privileges that words name; none for ALL.
fn privileges_of(words: &[String]) -> Vec<String> {
    if words == ["all"] { Vec::new() } else { words.iter().map(|word| word.to_uppercase()).collect() }
}

fn default_privileges(tokens: &mut Tokens<'_>) -> SqlResult<DefaultPrivileges> {
    const KINDS: [(&str, &str); 7] = [
        ("TABLES", "tables"),
        ("SEQUENCES", "sequences"),
        ("SCHEMAS", "schemas"),
        ("FUNCTIONS", "functions"),
        ("ROUTINES", "functions"),
        ("PROCEDURES", "functions"),
        ("TYPES", "types"),
    ];
    tokens.take_words(&["ALTER", "DEFAULT", "PRIVILEGES"]);
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if tokens.take_words(&["FOR", "ROLE"]) || tokens.take_words(&["FOR", "USER"]) {
            roles.append(&mut tokens.names()?);
        } else if tokens.take_words(&["IN", "SCHEMA"]) {
            schemas.append(&mut tokens.names()?);
        } else {
            break;
        }
    }
    let grant = tokens.take_word("GRANT");
    if !grant {
        tokens.expect_word("REVOKE")?;
    }
    let only_option = !grant && tokens.take_words(&["GRANT", "OPTION", "FOR"]);
    let words = words_of(tokens)?;
    tokens.expect_word("ON")?;
    let Some((_, kind)) = KINDS.iter().find(|(word, _)| tokens.take_word(word)) else {
        return Err(tokens.unexpected());
    };
    tokens.expect_word(if grant { "TO" } else { "FROM" })?;
    let grantees = grantees(tokens)?;
    let grant_option = only_option || grant && tokens.take_words(&["WITH", "GRANT", "OPTION"]);
    if !grant && !tokens.take_word("CASCADE") {
        tokens.take_word("RESTRICT");
    }
    Ok(DefaultPrivileges {
        roles,
        schemas,
        grant,
        privileges: privileges_of(&words),
        kind,
        grantees,
        grant_option,
    })
}

fn membership(
    tokens: &mut Tokens<'_>,
    grant: bool,
    roles: Vec<String>,
    only_admin_option: bool,
) -> SqlResult<RoleStatement> {
    tokens.expect_word(if grant { "TO" } else { "FROM" })?;
    let members = grantees(tokens)?;
    let admin_option = grant && tokens.take_words(&["WITH", "ADMIN", "OPTION"]);
    let granted_by = granted_by(tokens)?;
    if !tokens.take_word("CASCADE") {
        tokens.take_word("RESTRICT");
    }
    Ok(if grant {
        RoleStatement::GrantMembership { roles, members, admin_option, granted_by }
    } else {
        RoleStatement::RevokeMembership { roles, members, only_admin_option, granted_by }
    })
}

/// The role of GRANTED BY.
fn granted_by(tokens: &mut Tokens<'_>) -> SqlResult<Option<String>> {
    if tokens.take_words(&["GRANTED", "BY"]) { tokens.name().map(Some) } else { Ok(None) }
}

fn grantees(tokens: &mut Tokens<'_>) -> SqlResult<Vec<String>> {
    let mut names = Vec::new();
    loop {
        tokens.take_word("GROUP");
        names.push(tokens.name()?);
        if !tokens.take(&Token::Comma) {
            return Ok(names);
        }
    }
}

fn target(tokens: &mut Tokens<'_>) -> SqlResult<GrantTarget> {
    if tokens.take_words(&["ALL", "TABLES", "IN", "SCHEMA"]) {
        return Ok(GrantTarget::AllTables(tokens.names()?));
    }
    if tokens.take_words(&["ALL", "SEQUENCES", "IN", "SCHEMA"]) {
        return Ok(GrantTarget::AllSequences(tokens.names()?));
    }
    for functions in ["FUNCTIONS", "PROCEDURES", "ROUTINES"] {
        if tokens.take_words(&["ALL", functions, "IN", "SCHEMA"]) {
            return Ok(GrantTarget::AllFunctions(tokens.names()?));
        }
    }
    if tokens.take_word("SCHEMA") {
        return Ok(GrantTarget::Schemas(tokens.names()?));
    }
    if tokens.take_word("DATABASE") {
        return Ok(GrantTarget::Databases(tokens.names()?));
    }
    if tokens.take_word("SEQUENCE") {
        return Ok(GrantTarget::Sequences(object_names(tokens)?));
    }
    if tokens.take_word("TYPE") || tokens.take_word("DOMAIN") {
        return Ok(GrantTarget::Types(object_names(tokens)?));
    }
    for refused in
        ["FUNCTION", "PROCEDURE", "ROUTINE", "LANGUAGE", "TABLESPACE", "PARAMETER", "LARGE", "FOREIGN"]
    {
        if tokens.peek_words(&[refused]) {
            return Err(SqlError::unsupported(format!("a privilege on a {}", refused.to_lowercase())));
        }
    }
    tokens.take_word("TABLE");
    Ok(GrantTarget::Tables(object_names(tokens)?))
}

fn object_names(tokens: &mut Tokens<'_>) -> SqlResult<Vec<Vec<String>>> {
    let mut names = vec![tokens.object_name()?];
    while tokens.take(&Token::Comma) {
        names.push(tokens.object_name()?);
    }
    Ok(names)
}
