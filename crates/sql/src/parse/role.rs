//! CREATE, ALTER, DROP ROLE / USER / GROUP, and membership by GRANT role TO role.

use std::mem::discriminant;

use base::{SqlError, SqlResult, SqlState};

use super::tokens::Tokens;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleOption {
    Superuser(bool),
    CreateDb(bool),
    CreateRole(bool),
    Inherit(bool),
    Login(bool),
    Replication(bool),
    BypassRls(bool),
    ConnectionLimit(i64),
    /// `None` for PASSWORD NULL.
    Password(Option<String>),
    ValidUntil(String),
    InRole(Vec<String>),
    /// Roles that become members of the new one.
    Members(Vec<String>),
    /// The same, and may pass membership on.
    Admins(Vec<String>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleStatement {
    /// `login` by default for CREATE USER.
    Create {
        name: String,
        options: Vec<RoleOption>,
        if_not_exists: bool,
    },
    Alter {
        name: String,
        options: Vec<RoleOption>,
    },
    Rename {
        name: String,
        to: String,
    },
    Drop {
        names: Vec<String>,
        if_exists: bool,
    },
    GrantMembership {
        roles: Vec<String>,
        members: Vec<String>,
        admin_option: bool,
        granted_by: Option<String>,
    },
    RevokeMembership {
        roles: Vec<String>,
        members: Vec<String>,
        only_admin_option: bool,
        granted_by: Option<String>,
    },
}

const KINDS: [&str; 3] = ["ROLE", "USER", "GROUP"];

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<RoleStatement>> {
    for kind in KINDS {
        if tokens.take_words(&["CREATE", kind]) {
            let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
            let name = tokens.name()?;
            let mut options = options(tokens, true)?;
            if kind == "USER" {
                options.insert(0, RoleOption::Login(true));
            }
            return Ok(Some(RoleStatement::Create { name, options, if_not_exists }));
        }
        if tokens.take_words(&["DROP", kind]) {
            let if_exists = tokens.take_if_exists();
            return Ok(Some(RoleStatement::Drop { names: tokens.names()?, if_exists }));
        }
        if tokens.take_words(&["ALTER", kind]) {
            return alter(tokens).map(Some);
        }
    }
    Ok(None)
}

fn alter(tokens: &mut Tokens<'_>) -> SqlResult<RoleStatement> {
    let name = tokens.name()?;
    if tokens.take_words(&["RENAME", "TO"]) {
        return Ok(RoleStatement::Rename { name, to: tokens.name()? });
    }
    if tokens.take_words(&["ADD", "USER"]) {
        let members = tokens.names()?;
        return Ok(RoleStatement::GrantMembership {
            roles: vec![name],
            members,
            admin_option: false,
            granted_by: None,
        });
    }
    if tokens.take_words(&["DROP", "USER"]) {
        let members = tokens.names()?;
        return Ok(RoleStatement::RevokeMembership {
            roles: vec![name],
            members,
            only_admin_option: false,
            granted_by: None,
        });
    }
    Ok(RoleStatement::Alter { name, options: options(tokens, false)? })
}

/// `new`: of CREATE, which alone has those on membership.
///
/// # Errors
/// 42601 for one that is given twice, with its contrary too.
fn options(tokens: &mut Tokens<'_>, new: bool) -> SqlResult<Vec<RoleOption>> {
    tokens.take_word("WITH");
    let mut options: Vec<RoleOption> = Vec::new();
    while !tokens.at_end() {
        if new && tokens.take_word("SYSID") {
            tokens.integer()?;
            continue;
        }
        let option = option(tokens, new)?;
        if options.iter().any(|known| discriminant(known) == discriminant(&option)) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
        }
        options.push(option);
    }
    Ok(options)
}

fn option(tokens: &mut Tokens<'_>, new: bool) -> SqlResult<RoleOption> {
    use RoleOption::{
        Admins, BypassRls, ConnectionLimit, CreateDb, CreateRole, InRole, Inherit, Login, Members, Password,
        Replication, Superuser, ValidUntil,
    };
    const FLAGS: [(&str, &str, fn(bool) -> RoleOption); 7] = [
        ("SUPERUSER", "NOSUPERUSER", Superuser),
        ("CREATEDB", "NOCREATEDB", CreateDb),
        ("CREATEROLE", "NOCREATEROLE", CreateRole),
        ("INHERIT", "NOINHERIT", Inherit),
        ("LOGIN", "NOLOGIN", Login),
        ("REPLICATION", "NOREPLICATION", Replication),
        ("BYPASSRLS", "NOBYPASSRLS", BypassRls),
    ];
    for (yes, no, option) in FLAGS {
        if tokens.take_word(yes) {
            return Ok(option(true));
        }
        if tokens.take_word(no) {
            return Ok(option(false));
        }
    }
    Ok(if tokens.take_words(&["CONNECTION", "LIMIT"]) {
        ConnectionLimit(tokens.integer()?)
    } else if tokens.take_words(&["UNENCRYPTED", "PASSWORD"]) {
        return Err(SqlError::unsupported("UNENCRYPTED PASSWORD"));
    } else if tokens.take_words(&["ENCRYPTED", "PASSWORD"]) || tokens.take_word("PASSWORD") {
        Password(if tokens.take_word("NULL") { None } else { Some(tokens.string()?) })
    } else if tokens.take_words(&["VALID", "UNTIL"]) {
        ValidUntil(tokens.string()?)
    } else if new && (tokens.take_words(&["IN", "ROLE"]) || tokens.take_words(&["IN", "GROUP"])) {
        InRole(tokens.names()?)
    } else if new && (tokens.take_word("ROLE") || tokens.take_word("USER")) {
        Members(tokens.names()?)
    } else if new && tokens.take_word("ADMIN") {
        Admins(tokens.names()?)
    } else {
        return Err(tokens.unexpected());
    })
}
