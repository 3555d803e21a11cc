//! COPY, in PostgreSQL's present form and the one before 9.0 that clients still send.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::common_tables::without_with;
use super::options::{boolean, check_new, value_if_any};
use super::tokens::Tokens;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyDirection {
    FromClient,
    ToClient,
}

#[derive(Clone, Debug)]
pub enum CopySource {
    Table { name: Vec<String>, columns: Option<Vec<String>> },
    Query { statement: Box<ast::Statement>, sql: String },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CopyTextFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyOptions {
    pub format: CopyTextFormat,
    pub delimiter: Option<u8>,
    pub null: Option<String>,
    pub header: bool,
    /// `HEADER MATCH`: the names in the input's first line must be the columns'.
    pub header_match: bool,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    /// `None`: no column; an empty list: every column (`*`).
    pub force_quote: Option<Vec<String>>,
    pub force_not_null: Vec<String>,
    pub force_null: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct CopyStatement {
    pub source: CopySource,
    pub direction: CopyDirection,
    pub options: CopyOptions,
    /// `WHERE` of a COPY FROM.
    pub filter: Option<ast::Expr>,
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<CopyStatement>> {
    if !tokens.take_word("COPY") {
        return Ok(None);
    }
    let (mut options, mut given) = (CopyOptions::default(), Vec::new());
    if tokens.take_word("BINARY") {
        options.format = CopyTextFormat::Binary;
        given.push("format".to_owned());
    }
    let source = source(tokens)?;
    let direction = direction(tokens)?;
    if direction == CopyDirection::FromClient && matches!(source, CopySource::Query { .. }) {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a query can only be copied TO"));
    }
    tokens.take_word("WITH");
    if tokens.take(&Token::LParen) {
        loop {
            once(tokens, &mut given)?;
            option(tokens, &mut options)?;
            if !tokens.take(&Token::Comma) {
                break;
            }
        }
        tokens.expect(&Token::RParen)?;
    } else {
        while !tokens.at_end() && !tokens.peek_words(&["WHERE"]) {
            once(tokens, &mut given)?;
            old_option(tokens, &mut options)?;
        }
    }
    let filter = if tokens.take_word("WHERE") { Some(tokens.expression()?) } else { None };
    if filter.is_some() && direction == CopyDirection::ToClient {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "WHERE clause not allowed with COPY TO"));
    }
    check(&options)?;
    check_direction(&options, direction)?;
    Ok(Some(CopyStatement { source, direction, options, filter }))
}

fn source(tokens: &mut Tokens<'_>) -> SqlResult<CopySource> {
    if tokens.take(&Token::LParen) {
        let (_, text) = tokens.rest_text();
        let query = ast::Statement::Query(Box::new(tokens.query()?));
        let statement = Box::new(without_with(query)?);
        let (_, rest) = tokens.rest_text();
        let sql = text[..text.len() - rest.len()].trim_end().to_owned();
        tokens.expect(&Token::RParen)?;
        return Ok(CopySource::Query { statement, sql });
    }
    let name = tokens.object_name()?;
    let columns = if tokens.take(&Token::LParen) {
        let columns = tokens.names()?;
        tokens.expect(&Token::RParen)?;
        Some(columns)
    } else {
        None
    };
    Ok(CopySource::Table { name, columns })
}

fn direction(tokens: &mut Tokens<'_>) -> SqlResult<CopyDirection> {
    if tokens.take_word("FROM") {
        if tokens.take_word("STDIN") {
            return Ok(CopyDirection::FromClient);
        }
    } else if tokens.take_word("TO") {
        if tokens.take_word("STDOUT") {
            return Ok(CopyDirection::ToClient);
        }
    } else {
        return Err(tokens.unexpected());
    }
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "COPY reads and writes no files of the server")
        .with_hint("Use COPY FROM STDIN or COPY TO STDOUT, or psql's \\copy."))
}

/// Errors: 42601 for an option that comes next and was given before.
fn once(tokens: &Tokens<'_>, given: &mut Vec<String>) -> SqlResult<()> {
    let mut ahead = tokens.ahead();
    let mut word = || match ahead.next() {
        Token::Word(word) => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let name = match word().as_str() {
        "binary" | "csv" => "format".to_owned(),
        "delimiters" => "delimiter".to_owned(),
        // Of the older form: QUOTE, NULL or NOT NULL.
        "force" => format!("force {}", word()),
        other => other.to_owned(),
    };
    check_new(&name, given.iter())?;
    given.push(name);
    Ok(())
}

/// `name [value]` within the parentheses.
fn option(tokens: &mut Tokens<'_>, options: &mut CopyOptions) -> SqlResult<()> {
    if tokens.take_word("FORMAT") {
        let name = word_or_string(tokens)?;
        options.format = match name.to_lowercase().as_str() {
            "text" => CopyTextFormat::Text,
            "csv" => CopyTextFormat::Csv,
            "binary" => CopyTextFormat::Binary,
            _ => {
                let message = format!("COPY format \"{name}\" not recognized");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
    } else if tokens.take_word("DELIMITER") {
        options.delimiter = Some(one_byte(tokens, "COPY delimiter")?);
    } else if tokens.take_word("NULL") {
        options.null = Some(tokens.string()?);
    } else if tokens.take_word("HEADER") {
        (options.header, options.header_match) = header(tokens)?;
    } else if tokens.take_word("QUOTE") {
        options.quote = Some(one_byte(tokens, "COPY quote")?);
    } else if tokens.take_word("ESCAPE") {
        options.escape = Some(one_byte(tokens, "COPY escape")?);
    } else if tokens.take_word("FORCE_QUOTE") {
        options.force_quote = Some(columns_or_star(tokens)?);
    } else if tokens.take_word("FORCE_NOT_NULL") {
        options.force_not_null = columns(tokens, "force_not_null")?;
    } else if tokens.take_word("FORCE_NULL") {
        options.force_null = columns(tokens, "force_null")?;
    } else if tokens.take_word("FREEZE") {
        // Rows have no visibility to freeze; it would change nothing.
        boolean("freeze", value_if_any(tokens)?.as_deref())?;
    } else if tokens.take_word("ENCODING") {
        utf8_only(&tokens.string()?)?;
    } else {
        return Err(tokens.unexpected());
    }
    Ok(())
}

/// `DELIMITER [AS] ','` and its kin, without parentheses.
fn old_option(tokens: &mut Tokens<'_>, options: &mut CopyOptions) -> SqlResult<()> {
    let string = |tokens: &mut Tokens<'_>| {
        tokens.take_word("AS");
        tokens.string()
    };
    if tokens.take_word("BINARY") {
        options.format = CopyTextFormat::Binary;
    } else if tokens.take_word("CSV") {
        options.format = CopyTextFormat::Csv;
    } else if tokens.take_word("HEADER") {
        options.header = true;
    } else if tokens.take_word("FREEZE") {
    } else if tokens.take_word("DELIMITER") || tokens.take_word("DELIMITERS") {
        tokens.take_word("AS");
        options.delimiter = Some(one_byte(tokens, "COPY delimiter")?);
    } else if tokens.take_word("NULL") {
        options.null = Some(string(tokens)?);
    } else if tokens.take_word("QUOTE") {
        tokens.take_word("AS");
        options.quote = Some(one_byte(tokens, "COPY quote")?);
    } else if tokens.take_word("ESCAPE") {
        tokens.take_word("AS");
        options.escape = Some(one_byte(tokens, "COPY escape")?);
    } else if tokens.take_word("ENCODING") {
        utf8_only(&tokens.string()?)?;
    } else if tokens.take_words(&["FORCE", "QUOTE"]) {
        options.force_quote = Some(if tokens.take(&Token::Mul) { Vec::new() } else { tokens.names()? });
    } else if tokens.take_words(&["FORCE", "NOT", "NULL"]) {
        options.force_not_null = tokens.names()?;
    } else if tokens.take_words(&["FORCE", "NULL"]) {
        options.force_null = tokens.names()?;
    } else {
        return Err(tokens.unexpected());
    }
    Ok(())
}

fn word_or_string(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    if matches!(tokens.peek(), Token::Word(_)) { tokens.name() } else { tokens.string() }
}

fn header(tokens: &mut Tokens<'_>) -> SqlResult<(bool, bool)> {
    let value = value_if_any(tokens)?;
    if value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case("match")) {
        return Ok((true, true));
    }
    match boolean("header", value.as_deref()) {
        Ok(on) => Ok((on, false)),
        Err(error) => Err(SqlError::new(error.state(), format!("{} or \"match\"", error.message()))),
    }
}

fn columns_or_star(tokens: &mut Tokens<'_>) -> SqlResult<Vec<String>> {
    if tokens.take(&Token::Mul) { Ok(Vec::new()) } else { columns(tokens, "force_quote") }
}

/// `(name [, …])`; `*` stands for no list of an `option` that is here.
fn columns(tokens: &mut Tokens<'_>, option: &str) -> SqlResult<Vec<String>> {
    if tokens.take(&Token::Mul) {
        let message = format!("argument to option \"{option}\" must be a list of column names");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    tokens.expect(&Token::LParen)?;
    let names = tokens.names()?;
    tokens.expect(&Token::RParen)?;
    Ok(names)
}

fn one_byte(tokens: &mut Tokens<'_>, what: &str) -> SqlResult<u8> {
    match tokens.string()?.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{what} must be a single one-byte character"),
        )),
    }
}

fn utf8_only(name: &str) -> SqlResult<()> {
    if name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8") {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("COPY in the encoding {name}")))
}

fn check(options: &CopyOptions) -> SqlResult<()> {
    let csv_only = [
        (options.quote.is_some(), "COPY quote available only in CSV mode"),
        (options.escape.is_some(), "COPY escape available only in CSV mode"),
        (options.force_quote.is_some(), "COPY force quote available only in CSV mode"),
        (!options.force_not_null.is_empty(), "COPY force not null available only in CSV mode"),
        (!options.force_null.is_empty(), "COPY force null available only in CSV mode"),
    ];
    if options.format != CopyTextFormat::Csv
        && let Some((_, message)) = csv_only.iter().find(|(given, _)| *given)
    {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, *message));
    }
    if options.format != CopyTextFormat::Binary {
        check_marks(options)?;
    }
    if options.format == CopyTextFormat::Binary {
        let refused = [
            (options.delimiter.is_some(), "cannot specify DELIMITER in BINARY mode"),
            (options.null.is_some(), "cannot specify NULL in BINARY mode"),
            (options.header, "cannot specify HEADER in BINARY mode"),
        ];
        if let Some((_, message)) = refused.iter().find(|(given, _)| *given) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, *message));
        }
    }
    Ok(())
}

/// Errors: 0A000 for what has a meaning in the other direction alone.
fn check_direction(options: &CopyOptions, direction: CopyDirection) -> SqlResult<()> {
    let message = match direction {
        CopyDirection::FromClient if options.force_quote.is_some() => {
            "COPY force quote only available using COPY TO"
        }
        CopyDirection::ToClient if !options.force_not_null.is_empty() => {
            "COPY force not null only available using COPY FROM"
        }
        CopyDirection::ToClient if !options.force_null.is_empty() => {
            "COPY force null only available using COPY FROM"
        }
        CopyDirection::ToClient if options.header_match => "cannot use \"match\" with HEADER in COPY TO",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// Errors: 22023 and 0A000 for marks that would be taken for each other, or for data.
fn check_marks(options: &CopyOptions) -> SqlResult<()> {
    let is_csv = options.format == CopyTextFormat::Csv;
    let delimiter = options.delimiter.unwrap_or(if is_csv { b',' } else { b'\t' });
    let quote = options.quote.unwrap_or(b'"');
    let null = options.null.as_deref().unwrap_or(if is_csv { "" } else { "\\N" }).as_bytes();
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if is_line_end(&delimiter) {
        return invalid("COPY delimiter cannot be newline or carriage return".into());
    }
    if null.iter().any(is_line_end) {
        return invalid("COPY null representation cannot use newline or carriage return".into());
    }
    let is_of_text = matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
    if !is_csv && is_of_text {
        return invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)));
    }
    if is_csv && delimiter == quote {
        return invalid("COPY delimiter and quote must be different".into());
    }
    if null.contains(&delimiter) {
        let message = "COPY delimiter must not appear in the NULL specification";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if is_csv && null.contains(&quote) {
        let message = "CSV quote character must not appear in the NULL specification";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}
