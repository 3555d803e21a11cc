//! From text to statements.
//!
//! `sqlparser` reads queries, DML and most DDL. What it does not know, or reads differently from PostgreSQL (transactions,
//! settings, cursors, COPY, roles, privileges, tenants), is read by the small parsers beside this file. A script is read whole
//! before any of it runs, as PostgreSQL does.

mod altered;
mod common_tables;
mod copy;
mod cursor;
mod dialect;
mod governing;
mod identity;
mod literals;
mod nesting;
mod options;
mod pace;
mod parts;
mod print;
mod privilege;
mod record_columns;
mod respell;
mod role;
mod sequence;
mod setting;
mod start_setting;
mod tenant;
mod tokens;
mod transaction;
mod tuning;
mod utility;
mod vacuum;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use base::limits::STATEMENT_TOKENS_MAX;
use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

pub use altered::AlteredTable;
pub use common_tables::{
    changes_rows, for_each_relation, inlined, is_change, is_made_once, not_at_top_level,
};
pub use copy::{CopyDirection, CopyOptions, CopySource, CopyStatement, CopyTextFormat};
pub use cursor::{CursorStatement, FetchDirection};
pub use identity::AddIdentity;
pub use nesting::too_deep;
pub use options::OptionChange;
pub(crate) use options::boolean;
pub use pace::{Reading, Unread};
pub(crate) use print::{spell_out_value, text_of};
pub use privilege::{DefaultPrivileges, GrantStatement, GrantTarget};
pub use respell::{
    LikeClause, LockWord, Overriding, TargetCondition, is_concurrent, is_name_alone, is_variadic,
    like_clause, lock_targets, overriding, spell_out, symmetric, target_condition, target_function,
};
pub use role::{RoleOption, RoleStatement};
pub use sequence::{AlterSequence, CreateSequence, SequenceOption};
pub use setting::{DiscardWhat, SettingStatement, SettingValue};
pub use start_setting::{SessionsOf, SettingChange, StartSetting};
pub use tenant::HostStatement;
pub use transaction::{IsolationLevel, TransactionModes, TransactionStatement};
pub use tuning::{Tuned, Tuning};
pub use utility::{AlterConstraint, DropExpression, ObjectKind, Utility};
pub use vacuum::TableColumns;

use pace::Pace;
use tokens::{Origin, Tokens};

/// Statements of one script; all are kept in memory until the last has run.
const STATEMENTS_MAX: usize = 100_000;

/// A statement as read, before any name in it has been looked up.
#[derive(Clone, Debug)]
pub enum ParsedStatement {
    /// A query, DML or DDL in `sqlparser`'s form.
    Ast(Box<ast::Statement>),
    Transaction(TransactionStatement),
    Setting(SettingStatement),
    Cursor(CursorStatement),
    Copy(Box<CopyStatement>),
    Role(RoleStatement),
    StartSetting(StartSetting),
    Grant(GrantStatement),
    CreateSequence(CreateSequence),
    AlterSequence(AlterSequence),
    AddIdentity(AddIdentity),
    Host(HostStatement),
    Utility(Utility),
    /// `PREPARE name (types) AS statement`
    Prepare {
        name: String,
        types: Vec<ast::DataType>,
        statement: Box<ParsedStatement>,
        sql: String,
        /// As of a [`ScriptStatement`].
        size: usize,
    },
}

/// A statement with the part of the script it stands in.
#[derive(Clone, Debug)]
pub struct ScriptStatement {
    pub statement: ParsedStatement,
    pub sql: String,
    /// What it takes in memory, its plan with it, by estimate.
    pub size: usize,
}

/// Reads all statements of a script; empty ones are left out.
///
/// # Errors
/// 42601 with the position of the first token that does not fit; 0A000 for what PostgreSQL has and we refuse; 54001 for what
/// nests too deeply.
pub fn parse_script(sql: &str) -> SqlResult<Vec<ScriptStatement>> {
    read_script(sql, &Pace::free())
}

/// As [`parse_script`] for a long text, of which others are asked.
///
/// # Errors
/// As [`parse_script`], or `reading` will have it no longer.
pub fn parse_script_at_length(sql: &str, reading: Rc<dyn Reading>) -> Result<Vec<ScriptStatement>, Unread> {
    Pace::asking(reading).run(|pace| read_script(sql, pace))
}

/// The tokens of a text, which are counted as they come: a message may have fifty times as many as a statement.
///
/// # Errors
/// 42601; 54001 for too many.
fn tokens_of(sql: &str, pace: &Pace) -> SqlResult<Vec<TokenWithSpan>> {
    /// Unwinds the tokenizer, which nothing else ends.
    struct TooMany;
    const TOKENS_A_TAKE: usize = 4096;
    let (mut tokens, mut count) = (Vec::new(), 0);
    let counted = |token| {
        count += 1;
        if count > STATEMENT_TOKENS_MAX {
            resume_unwind(Box::new(TooMany));
        }
        if count % TOKENS_A_TAKE == 0 {
            pace.take(TOKENS_A_TAKE * pace::TOKEN_SIZE);
        }
        pace.step();
        token
    };
    let dialect = dialect::lexing();
    let mut tokenizer = Tokenizer::new(&dialect, sql);
    let tokenize = || tokenizer.tokenize_with_location_into_buf_with_mapper(&mut tokens, counted);
    match catch_unwind(AssertUnwindSafe(tokenize)) {
        Ok(outcome) => outcome.map_err(|error| tokenizer_error(sql, &error))?,
        Err(panic) if panic.is::<TooMany>() => return Err(nesting::too_many_tokens()),
        Err(panic) => resume_unwind(panic),
    }
    nesting::check_tokens(&tokens, pace)?;
    literals::joined(sql, tokens)
}

fn read_script(sql: &str, pace: &Pace) -> SqlResult<Vec<ScriptStatement>> {
    let tokens = tokens_of(sql, pace)?;
    let mut statements = Vec::new();
    let mut offsets = tokens::Offsets::new(sql);
    for part in parts::parts(&tokens) {
        let Some((start, end)) = part_bounds(&mut offsets, part) else { continue };
        if statements.len() == STATEMENTS_MAX {
            let message = format!("a script may have {STATEMENTS_MAX} statements");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let text = sql[start..end].to_owned();
        let size = pace::statement_size(part, &text);
        // The parser has tokens of its own.
        let copies = part.len() * pace::TOKEN_SIZE;
        pace.take(size + copies);
        let statement = parse_part(sql, part, start, pace)?;
        pace.give(copies);
        statements.push(ScriptStatement { statement, sql: text, size });
    }
    Ok(statements)
}

/// Reads exactly one statement (the extended protocol allows no more); `None` for an empty text.
///
/// # Errors
/// As [`parse_script`], and 42601 when there are several.
pub fn parse_one(sql: &str) -> SqlResult<Option<ScriptStatement>> {
    only(parse_script(sql)?)
}

/// As [`parse_one`] for a long text, of which others are asked.
///
/// # Errors
/// As [`parse_one`], or `reading` will have it no longer.
pub fn parse_one_at_length(sql: &str, reading: Rc<dyn Reading>) -> Result<Option<ScriptStatement>, Unread> {
    Pace::asking(reading).run(|pace| only(read_script(sql, pace)?))
}

fn only(mut statements: Vec<ScriptStatement>) -> SqlResult<Option<ScriptStatement>> {
    if statements.len() > 1 {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        ));
    }
    Ok(statements.pop())
}

/// Reads an expression, as stored for a CHECK or DEFAULT.
///
/// # Errors
/// 42601.
pub fn parse_expression(sql: &str) -> SqlResult<ast::Expr> {
    let pace = Pace::free();
    let tokens = tokens_of(sql, &pace)?;
    let respelled = respell::respelled(&tokens, &pace);
    let mut tokens = Tokens::new(sql, &respelled, Origin::of_text(), &pace);
    let expression = tokens.expression()?;
    tokens.expect_end()?;
    Ok(expression)
}

/// Reads a query, as stored for a view.
///
/// # Errors
/// 42601.
pub fn parse_query(sql: &str) -> SqlResult<ast::Query> {
    match parse_one(sql)? {
        Some(ScriptStatement { statement: ParsedStatement::Ast(statement), .. }) => match *statement {
            ast::Statement::Query(query) => Ok(*query),
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a query was expected")),
        },
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a query was expected")),
    }
}

/// How many levels a query nests, out of [`base::limits::NESTING_MAX`].
pub fn nesting(query: &mut ast::Query) -> usize {
    nesting::settle(query).unwrap_or(base::limits::NESTING_MAX)
}

/// `start`: the byte of `sql` at which the statement begins.
fn parse_part(sql: &str, part: &[TokenWithSpan], start: usize, pace: &Pace) -> SqlResult<ParsedStatement> {
    let origin = Origin::of_part(part, start);
    let respelled = respell::respelled(part, pace);
    let ordered = identity::in_order(&respelled, pace);
    let part = &*ordered;
    let mut tokens = Tokens::new(sql, part, origin, pace);
    if let Some(statement) = parse_own(&mut tokens)? {
        tokens.expect_end()?;
        return Ok(statement);
    }
    if let Some(stray) = clause_for_table(part) {
        return Err(near_at(sql, stray));
    }
    let parsed = dialect::parse(part, pace, |parser| Ok((parser.parse_statement()?, parser.peek_token())));
    let (mut statement, rest) =
        parsed.map_err(|error| refused_clause(part).unwrap_or_else(|| parser_error(sql, part, &error)))?;
    if rest.token != Token::EOF {
        return Err(refused_clause(part).unwrap_or_else(|| near_at(sql, &rest)));
    }
    nesting::settle(&mut statement)?;
    let statement = common_tables::without_with(respell::without_into(statement)?)?;
    Ok(ParsedStatement::Ast(Box::new(statement)))
}

/// Clauses of CREATE and ALTER TABLE that PostgreSQL has and `sqlparser` does not read.
const UNREAD: &[(&[&str], &str)] = &[
    (&["SET", "STATISTICS"], "SET STATISTICS"),
    (&["SET", "STORAGE"], "SET STORAGE"),
    (&["SET", "COMPRESSION"], "SET COMPRESSION"),
    (&["SET", "GENERATED"], "SET GENERATED"),
    (&["SET", "LOGGED"], "SET LOGGED"),
    (&["SET", "UNLOGGED"], "SET UNLOGGED"),
    (&["SET", "WITHOUT"], "SET WITHOUT"),
    (&["SET", "ACCESS"], "SET ACCESS METHOD"),
    (&["SET", "TABLESPACE"], "SET TABLESPACE"),
    (&["DROP", "IDENTITY"], "DROP IDENTITY"),
    (&["DROP", "EXPRESSION"], "DROP EXPRESSION"),
    (&["RESTART"], "RESTART of an identity column"),
    (&["CLUSTER", "ON"], "CLUSTER ON"),
    (&["INHERIT"], "INHERIT"),
    (&["WITH", "NO", "DATA"], "WITH NO DATA"),
];

/// The refusal of a clause that `sqlparser` stumbled over: of a table's or a view's statement one of [`UNREAD`], an exclusion constraint, WITH CHECK OPTION;
/// of a change that of a cursor's row.
fn refused_clause(part: &[TokenWithSpan]) -> Option<SqlError> {
    let solid: Vec<&TokenWithSpan> =
        part.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let is = |at: usize, word: &str| solid.get(at).is_some_and(|token| tokens::is_word(token, word));
    let stands = |words: &[&str]| {
        (2..solid.len()).any(|at| words.iter().enumerate().all(|(i, word)| is(at + i, word)))
    };
    if is(0, "UPDATE") || is(0, "DELETE") {
        return stands(&["WHERE", "CURRENT", "OF"]).then(|| SqlError::unsupported("WHERE CURRENT OF"));
    }
    if !is(0, "CREATE") && !is(0, "ALTER") {
        return None;
    }
    if (1..4).any(|at| is(at, "VIEW")) {
        return stands(&["CHECK", "OPTION"]).then(|| SqlError::unsupported("WITH CHECK OPTION"));
    }
    if !(1..solid.len()).any(|at| is(at, "TABLE")) {
        return None;
    }
    if let Some((_, what)) = UNREAD.iter().find(|(words, _)| stands(words)) {
        return Some(SqlError::unsupported(what));
    }
    let at = (2..solid.len()).find(|at| is(*at, "EXCLUDE"))?;
    let constraint =
        solid.get(at + 1).is_some_and(|token| token.token == Token::LParen) || is(at + 1, "USING");
    constraint.then(|| SqlError::unsupported("an exclusion constraint"))
}

/// The statements we read ourselves, told by their first words; `None` leaves the statement to `sqlparser`.
fn parse_own(tokens: &mut Tokens<'_>) -> SqlResult<Option<ParsedStatement>> {
    if let Some(statement) = transaction::parse(tokens)? {
        return Ok(Some(ParsedStatement::Transaction(statement)));
    }
    // Before settings, which are shown by any name.
    if let Some(statement) = tenant::parse(tokens)? {
        return Ok(Some(ParsedStatement::Host(statement)));
    }
    if let Some(statement) = setting::parse(tokens)? {
        return Ok(Some(ParsedStatement::Setting(statement)));
    }
    if let Some(statement) = cursor::parse(tokens)? {
        return Ok(Some(ParsedStatement::Cursor(statement)));
    }
    if let Some(statement) = copy::parse(tokens)? {
        return Ok(Some(ParsedStatement::Copy(Box::new(statement))));
    }
    // Before the options of roles.
    if let Some(statement) = start_setting::parse(tokens)? {
        return Ok(Some(ParsedStatement::StartSetting(statement)));
    }
    if let Some(statement) = role::parse(tokens)? {
        return Ok(Some(ParsedStatement::Role(statement)));
    }
    if let Some(statement) = privilege::parse(tokens)? {
        return Ok(Some(ParsedStatement::Grant(statement)));
    }
    if let Some(statement) = sequence::parse_create(tokens)? {
        return Ok(Some(ParsedStatement::CreateSequence(statement)));
    }
    if let Some(statement) = sequence::parse(tokens)? {
        return Ok(Some(ParsedStatement::AlterSequence(statement)));
    }
    if let Some(statement) = identity::parse(tokens)? {
        return Ok(Some(ParsedStatement::AddIdentity(statement)));
    }
    if let Some(statement) = parse_prepare(tokens)? {
        return Ok(Some(statement));
    }
    Ok(utility::parse(tokens)?.map(ParsedStatement::Utility))
}

/// `PREPARE name [(type, …)] AS statement`. The inner statement may be any that can be prepared.
fn parse_prepare(tokens: &mut Tokens<'_>) -> SqlResult<Option<ParsedStatement>> {
    if !tokens.peek_words(&["PREPARE"]) {
        return Ok(None);
    }
    tokens.expect_word("PREPARE")?;
    let name = tokens.identifier()?;
    let mut types = Vec::new();
    if tokens.take(&Token::LParen) {
        loop {
            types.push(tokens.data_type()?);
            if !tokens.take(&Token::Comma) {
                break;
            }
        }
        tokens.expect(&Token::RParen)?;
    }
    tokens.expect_word("AS")?;
    if tokens.peek_words(&["PREPARE"]) {
        return Err(tokens.unexpected());
    }
    let (start, sql) = tokens.rest_text();
    let inner = tokens.take_rest();
    let statement = Box::new(parse_part(tokens.sql(), inner, start, tokens.pace())?);
    let size = pace::statement_size(inner, sql);
    Ok(Some(ParsedStatement::Prepare { name, types, statement, sql: sql.to_owned(), size }))
}

/// The keyword that stands where FROM wants a table, which `sqlparser` would take for the table's name.
fn clause_for_table(part: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    use sqlparser::keywords::Keyword as K;
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let mut solid = part.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).peekable();
    while let Some(token) = solid.next() {
        let clause = |next: &&TokenWithSpan| {
            matches!(keyword(next), Some(K::WHERE | K::GROUP | K::ORDER | K::HAVING | K::LIMIT | K::UNION))
        };
        if keyword(token) == Some(K::FROM)
            && let Some(next) = solid.peek().copied().filter(clause)
        {
            return Some(next);
        }
    }
    None
}

fn part_bounds(offsets: &mut tokens::Offsets<'_>, part: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let mut solid = part.iter().filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    let first = solid.next()?;
    let last = solid.next_back().unwrap_or(first);
    Some((offsets.of(first.span.start), offsets.of(last.span.end)))
}

/// PostgreSQL's message for a token that does not fit.
fn near(token: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{token}\""))
}

fn near_at(sql: &str, token: &TokenWithSpan) -> SqlError {
    if token.token == Token::EOF {
        return SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input");
    }
    let start = tokens::offset(sql, token.span.start);
    let end = tokens::offset(sql, token.span.end);
    near(&sql[start..end.max(start)]).with_position(tokens::position(sql, start))
}

/// `sqlparser` names what it expected and where it stood; PostgreSQL names the token. The expectation becomes the detail.
fn parser_error(sql: &str, part: &[TokenWithSpan], error: &ParserError) -> SqlError {
    let (ParserError::ParserError(text) | ParserError::TokenizerError(text)) = error else {
        return nesting::too_deep();
    };
    let Some((message, line, column)) = split_location(text) else {
        let detail = text.clone();
        return SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input").with_detail(detail);
    };
    let at = part.iter().find(|t| t.span.start.line == line && t.span.start.column == column);
    let error = match at {
        Some(token) => near_at(sql, token),
        None => near(message.rsplit("found: ").next().unwrap_or(message)),
    };
    error.with_detail(message)
}

fn tokenizer_error(sql: &str, error: &TokenizerError) -> SqlError {
    let start = tokens::offset(sql, error.location);
    let what = error.message.to_lowercase();
    let message = if what.contains("unterminated string") {
        format!("unterminated quoted string at or near \"{}\"", &sql[start..])
    } else if what.contains("comment") {
        format!("unterminated /* comment at or near \"{}\"", &sql[start..])
    } else {
        format!("syntax error at or near \"{}\"", sql[start..].chars().next().unwrap_or(' '))
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message).with_position(tokens::position(sql, start))
}

/// Splits `… at Line: 3, Column: 7`.
fn split_location(text: &str) -> Option<(&str, u64, u64)> {
    let (message, rest) = text.rsplit_once(" at Line: ")?;
    let (line, column) = rest.split_once(", Column: ")?;
    Some((message, line.trim().parse().ok()?, column.trim().parse().ok()?))
}

#[cfg(test)]
mod tests;
