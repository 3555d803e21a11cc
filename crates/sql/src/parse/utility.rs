//! Renaming and ownership, comments, locks, and what is refused by name.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::tokenizer::Token;

use super::altered::{self, AlteredTable};
use super::tokens::Tokens;
use super::tuning::{self, Tuning};
use super::vacuum::{self, TableColumns};

/// Kinds of object that can be renamed, moved, owned or commented on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    Table,
    Index,
    View,
    Sequence,
    Type,
    Schema,
    Column,
    Constraint,
    Database,
    Role,
    Extension,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Utility {
    /// No tables: all. There is nothing to vacuum; `analyze` is carried out.
    Vacuum {
        tables: Vec<TableColumns>,
        analyze: bool,
    },
    /// No tables: all.
    Analyze {
        tables: Vec<TableColumns>,
    },
    Checkpoint,
    /// `mode` as PostgreSQL names it, in upper case without MODE.
    LockTable {
        tables: Vec<Vec<String>>,
        mode: String,
        nowait: bool,
    },
    Rename {
        kind: ObjectKind,
        name: Vec<String>,
        to: String,
        if_exists: bool,
    },
    SetSchema {
        kind: ObjectKind,
        name: Vec<String>,
        schema: String,
        if_exists: bool,
    },
    SetOwner {
        kind: ObjectKind,
        name: Vec<String>,
        owner: String,
        if_exists: bool,
    },
    /// A column's or constraint's table is the first part of `name`s; `None` removes the comment.
    Comment {
        kind: ObjectKind,
        name: Vec<String>,
        text: Option<String>,
    },
    CreateExtension {
        name: String,
        if_not_exists: bool,
        schema: Option<String>,
        version: Option<String>,
    },
    DropExtension {
        names: Vec<String>,
        if_exists: bool,
    },
    /// `None` for ALL.
    Deallocate(Option<String>),
    ReassignOwned {
        from: Vec<String>,
        to: String,
    },
    DropOwned {
        roles: Vec<String>,
        cascade: bool,
    },
    AlterConstraint(AlterConstraint),
    DropExpression(DropExpression),
    /// Has no effect.
    Tune(Tuning),
    /// Stops listening, which nobody can begin: pools send it when they take a connection back.
    Unlisten,
    /// LISTEN: accepted by name only to be refused with one message.
    Refused(&'static str),
}

impl Utility {
    /// Whether it has something to write.
    pub(crate) fn changes_catalog(&self) -> bool {
        match self {
            Utility::Vacuum { analyze, .. } => *analyze,
            Utility::Analyze { .. }
            | Utility::Rename { .. }
            | Utility::SetSchema { .. }
            | Utility::SetOwner { .. }
            | Utility::Comment { .. }
            | Utility::CreateExtension { .. }
            | Utility::DropExtension { .. }
            | Utility::ReassignOwned { .. }
            | Utility::DropOwned { .. }
            | Utility::AlterConstraint(_)
            | Utility::DropExpression(_) => true,
            Utility::Checkpoint
            | Utility::LockTable { .. }
            | Utility::Deallocate(_)
            | Utility::Tune(_)
            | Utility::Unlisten
            | Utility::Refused(_) => false,
        }
    }
}

/// `ALTER TABLE table ALTER CONSTRAINT constraint …`, standing alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterConstraint {
    pub table: AlteredTable,
    pub constraint: String,
    /// DEFERRABLE or NOT DEFERRABLE.
    pub deferrable: Option<bool>,
    /// INITIALLY DEFERRED or INITIALLY IMMEDIATE.
    pub initially_deferred: Option<bool>,
}

/// `ALTER TABLE table ALTER column DROP EXPRESSION`, standing alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropExpression {
    pub table: AlteredTable,
    pub column: String,
    /// `DROP EXPRESSION IF EXISTS`.
    pub if_generated: bool,
}

const REFUSED: &[(&[&str], &str)] = &[
    (&["LISTEN"], "LISTEN"),
    (&["NOTIFY"], "NOTIFY"),
    (&["CREATE", "UNLOGGED"], "an unlogged table"),
    (&["CREATE", "TRIGGER"], "CREATE TRIGGER"),
    (&["CREATE", "CONSTRAINT", "TRIGGER"], "CREATE TRIGGER"),
    (&["CREATE", "FUNCTION"], "CREATE FUNCTION"),
    (&["CREATE", "OR", "REPLACE", "FUNCTION"], "CREATE FUNCTION"),
    (&["CREATE", "OR", "REPLACE", "PROCEDURE"], "CREATE PROCEDURE"),
    (&["CREATE", "PROCEDURE"], "CREATE PROCEDURE"),
    (&["CREATE", "LANGUAGE"], "CREATE LANGUAGE"),
    (&["CREATE", "RULE"], "CREATE RULE"),
    (&["CREATE", "OR", "REPLACE", "RULE"], "CREATE RULE"),
    (&["CREATE", "MATERIALIZED"], "CREATE MATERIALIZED VIEW"),
    (&["CREATE", "AGGREGATE"], "CREATE AGGREGATE"),
    (&["CREATE", "OPERATOR"], "CREATE OPERATOR"),
    (&["CREATE", "CAST"], "CREATE CAST"),
    (&["CREATE", "POLICY"], "CREATE POLICY"),
    (&["CREATE", "PUBLICATION"], "CREATE PUBLICATION"),
    (&["CREATE", "SUBSCRIPTION"], "CREATE SUBSCRIPTION"),
    (&["CREATE", "TABLESPACE"], "CREATE TABLESPACE"),
    (&["CREATE", "DOMAIN"], "CREATE DOMAIN"),
    (&["ALTER", "DATABASE"], "this form of ALTER DATABASE"),
    (&["ALTER", "EXTENSION"], "ALTER EXTENSION"),
    (&["CREATE", "STATISTICS"], "CREATE STATISTICS"),
    (&["CREATE", "EVENT"], "CREATE EVENT TRIGGER"),
    (&["CREATE", "FOREIGN"], "a foreign table"),
    (&["CREATE", "SERVER"], "a foreign server"),
    (&["CREATE", "COLLATION"], "CREATE COLLATION"),
    (&["CREATE", "CONVERSION"], "CREATE CONVERSION"),
    (&["CREATE", "TEXT", "SEARCH"], "text search"),
    (&["CREATE", "ACCESS", "METHOD"], "CREATE ACCESS METHOD"),
    (&["CREATE", "TRANSFORM"], "CREATE TRANSFORM"),
    (&["REFRESH", "MATERIALIZED"], "REFRESH MATERIALIZED VIEW"),
    (&["DO"], "DO, an anonymous block of code,"),
    (&["CALL"], "CALL"),
    (&["CLUSTER"], "CLUSTER"),
    (&["REINDEX"], "REINDEX"),
    (&["SECURITY", "LABEL"], "SECURITY LABEL"),
    (&["IMPORT", "FOREIGN"], "IMPORT FOREIGN SCHEMA"),
    (&["MERGE"], "MERGE"),
    (&["LOAD"], "LOAD"),
];

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<Utility>> {
    if let Some((_, what)) = REFUSED.iter().find(|(words, _)| tokens.peek_words(words)) {
        tokens.take_rest();
        return Ok(Some(Utility::Refused(what)));
    }
    if tokens.peek_words(&["CREATE", "DATABASE"]) || tokens.peek_words(&["DROP", "DATABASE"]) {
        return Err(SqlError::unsupported("CREATE and DROP DATABASE").with_hint(
            "A tenant is a database: use CREATE TENANT and DROP TENANT in the database \"rowhouse\".",
        ));
    }
    if let Some(statement) = vacuum::parse(tokens)? {
        return Ok(Some(statement));
    }
    if tokens.take_word("CHECKPOINT") {
        return Ok(Some(Utility::Checkpoint));
    }
    if tokens.take_word("UNLISTEN") {
        if !tokens.take(&Token::Mul) {
            tokens.name()?;
        }
        return Ok(Some(Utility::Unlisten));
    }
    if tokens.take_word("LOCK") {
        return lock(tokens).map(Some);
    }
    if tokens.take_word("DEALLOCATE") {
        tokens.take_word("PREPARE");
        let name = if tokens.take_word("ALL") { None } else { Some(tokens.identifier()?) };
        return Ok(Some(Utility::Deallocate(name)));
    }
    if tokens.take_words(&["REASSIGN", "OWNED", "BY"]) {
        let from = tokens.names()?;
        tokens.expect_word("TO")?;
        return Ok(Some(Utility::ReassignOwned { from, to: tokens.name()? }));
    }
    if tokens.take_words(&["DROP", "OWNED", "BY"]) {
        let roles = tokens.names()?;
        let cascade = tokens.take_word("CASCADE");
        if !cascade {
            tokens.take_word("RESTRICT");
        }
        return Ok(Some(Utility::DropOwned { roles, cascade }));
    }
    if tokens.take_words(&["CREATE", "EXTENSION"]) {
        return create_extension(tokens).map(Some);
    }
    if tokens.take_words(&["DROP", "EXTENSION"]) {
        let if_exists = tokens.take_if_exists();
        let names = tokens.names()?;
        if !tokens.take_word("CASCADE") {
            tokens.take_word("RESTRICT");
        }
        return Ok(Some(Utility::DropExtension { names, if_exists }));
    }
    if tokens.take_words(&["COMMENT", "ON"]) {
        return comment(tokens).map(Some);
    }
    if let Some(statement) = alter_constraint(tokens)? {
        return Ok(Some(Utility::AlterConstraint(statement)));
    }
    if let Some(statement) = drop_expression(tokens)? {
        return Ok(Some(Utility::DropExpression(statement)));
    }
    if let Some(statement) = tuning::parse(tokens)? {
        return Ok(Some(Utility::Tune(statement)));
    }
    if is_alter_of_object(tokens) {
        return alter(tokens).map(Some);
    }
    Ok(None)
}

fn alter_constraint(tokens: &mut Tokens<'_>) -> SqlResult<Option<AlterConstraint>> {
    let mut ahead = tokens.ahead();
    let Some(table) = altered::take_table(&mut ahead) else { return Ok(None) };
    if !ahead.take_words(&["ALTER", "CONSTRAINT"]) {
        return Ok(None);
    }
    let constraint = ahead.name()?;
    let (mut deferrable, mut initially_deferred) = (None, None);
    while !ahead.at_end() {
        let (said, value) = if ahead.take_words(&["NOT", "DEFERRABLE"]) {
            (&mut deferrable, false)
        } else if ahead.take_word("DEFERRABLE") {
            (&mut deferrable, true)
        } else if ahead.take_words(&["INITIALLY", "DEFERRED"]) {
            (&mut initially_deferred, true)
        } else if ahead.take_words(&["INITIALLY", "IMMEDIATE"]) {
            (&mut initially_deferred, false)
        } else if *ahead.peek() == Token::Comma {
            return Err(SqlError::unsupported("ALTER CONSTRAINT beside another operation"));
        } else {
            return Err(ahead.unexpected());
        };
        if said.is_some_and(|said| said != value) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting constraint properties"));
        }
        *said = Some(value);
    }
    tokens.take_rest();
    Ok(Some(AlterConstraint { table, constraint, deferrable, initially_deferred }))
}

fn drop_expression(tokens: &mut Tokens<'_>) -> SqlResult<Option<DropExpression>> {
    let mut ahead = tokens.ahead();
    let Some(table) = altered::take_table(&mut ahead) else { return Ok(None) };
    let Some(column) = altered::take_column(&mut ahead) else { return Ok(None) };
    if !ahead.take_words(&["DROP", "EXPRESSION"]) {
        return Ok(None);
    }
    let if_generated = ahead.take_if_exists();
    if !altered::stands_alone(&ahead)? {
        return Ok(None);
    }
    tokens.take_rest();
    Ok(Some(DropExpression { table, column, if_generated }))
}

fn create_extension(tokens: &mut Tokens<'_>) -> SqlResult<Utility> {
    let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
    let name = tokens.name()?;
    let (mut schema, mut version) = (None, None);
    tokens.take_word("WITH");
    while !tokens.at_end() {
        if tokens.take_word("SCHEMA") {
            schema = Some(tokens.name()?);
        } else if tokens.take_word("VERSION") {
            let is_word = matches!(tokens.peek(), Token::Word(_));
            version = Some(if is_word { tokens.name()? } else { tokens.string()? });
        } else if !tokens.take_word("CASCADE") {
            return Err(tokens.unexpected());
        }
    }
    Ok(Utility::CreateExtension { name, if_not_exists, schema, version })
}

fn lock(tokens: &mut Tokens<'_>) -> SqlResult<Utility> {
    tokens.take_word("TABLE");
    let mut tables = Vec::new();
    loop {
        tokens.take_word("ONLY");
        tables.push(tokens.object_name()?);
        if !tokens.take(&Token::Comma) {
            break;
        }
    }
    let mut mode = String::from("ACCESS EXCLUSIVE");
    if tokens.take_word("IN") {
        let mut words = Vec::new();
        while !tokens.take_word("MODE") {
            words.push(tokens.name()?.to_uppercase());
        }
        mode = words.join(" ");
    }
    let nowait = tokens.take_word("NOWAIT");
    Ok(Utility::LockTable { tables, mode, nowait })
}

fn kind(tokens: &mut Tokens<'_>) -> Option<ObjectKind> {
    const KINDS: [(&str, ObjectKind); 11] = [
        ("TABLE", ObjectKind::Table),
        ("INDEX", ObjectKind::Index),
        ("VIEW", ObjectKind::View),
        ("SEQUENCE", ObjectKind::Sequence),
        ("TYPE", ObjectKind::Type),
        ("SCHEMA", ObjectKind::Schema),
        ("COLUMN", ObjectKind::Column),
        ("CONSTRAINT", ObjectKind::Constraint),
        ("DATABASE", ObjectKind::Database),
        ("ROLE", ObjectKind::Role),
        ("EXTENSION", ObjectKind::Extension),
    ];
    KINDS.iter().find(|(word, _)| tokens.take_word(word)).map(|(_, kind)| *kind)
}

fn comment(tokens: &mut Tokens<'_>) -> SqlResult<Utility> {
    let Some(kind) = kind(tokens) else {
        return Err(SqlError::unsupported("a comment on this kind of object"));
    };
    let mut name = tokens.object_name()?;
    if kind == ObjectKind::Constraint {
        tokens.expect_word("ON")?;
        let mut table = tokens.object_name()?;
        table.append(&mut name);
        name = table;
    }
    tokens.expect_word("IS")?;
    let text = if tokens.take_word("NULL") { None } else { Some(tokens.string()?) };
    Ok(Utility::Comment { kind, name, text })
}

/// True for `ALTER kind name RENAME TO | SET SCHEMA | OWNER TO`, which read alike for every kind. Table columns and
/// constraints are renamed by ALTER TABLE proper.
pub(super) fn is_alter_of_object(tokens: &Tokens<'_>) -> bool {
    let mut ahead = tokens.ahead();
    if !ahead.take_word("ALTER") || kind(&mut ahead).is_none() {
        return false;
    }
    ahead.take_if_exists();
    ahead.take_word("ONLY");
    ahead.object_name().is_ok()
        && (ahead.peek_words(&["RENAME", "TO"])
            || ahead.peek_words(&["SET", "SCHEMA"])
            || ahead.peek_words(&["OWNER", "TO"]))
}

fn alter(tokens: &mut Tokens<'_>) -> SqlResult<Utility> {
    tokens.expect_word("ALTER")?;
    let Some(kind) = kind(tokens) else { return Err(tokens.unexpected()) };
    let if_exists = tokens.take_if_exists();
    tokens.take_word("ONLY");
    let name = tokens.object_name()?;
    if tokens.take_words(&["RENAME", "TO"]) {
        return Ok(Utility::Rename { kind, name, to: tokens.name()?, if_exists });
    }
    if tokens.take_words(&["SET", "SCHEMA"]) {
        return Ok(Utility::SetSchema { kind, name, schema: tokens.name()?, if_exists });
    }
    tokens.take_words(&["OWNER", "TO"]);
    Ok(Utility::SetOwner { kind, name, owner: tokens.name()?, if_exists })
}
