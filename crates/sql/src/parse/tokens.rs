//! A cursor over the tokens of one statement, for the parsers of this folder.

use base::limits::IDENTIFIER_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, DataType, VisitMut};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::pace::Pace;

/// Byte offset of a location in `sql`; the end of the text when it lies behind it.
pub(super) fn offset(sql: &str, at: Location) -> usize {
    let mut line_start = 0;
    for _ in 1..at.line {
        match sql[line_start..].find('\n') {
            Some(length) => line_start += length + 1,
            None => return sql.len(),
        }
    }
    let column = usize::try_from(at.column.saturating_sub(1)).unwrap_or(usize::MAX);
    sql[line_start..].char_indices().nth(column).map_or(sql.len(), |(index, _)| line_start + index)
}

/// Where a statement begins in its script.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    byte: usize,
    at: Location,
}

impl Origin {
    /// A text that is one statement.
    pub(super) fn of_text() -> Origin {
        Origin { byte: 0, at: Location { line: 1, column: 1 } }
    }

    /// Tokens whose first one, blanks left out, begins at that byte.
    pub(super) fn of_part(part: &[TokenWithSpan], byte: usize) -> Origin {
        let first = part.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
        first.map_or(Origin::of_text(), |first| Origin { byte, at: first.span.start })
    }
}

/// Byte offsets of locations that are asked for in order, so that each character of a script is passed once.
pub(super) struct Offsets<'a> {
    rest: std::str::Chars<'a>,
    at: Location,
    byte: usize,
}

impl<'a> Offsets<'a> {
    pub(super) fn new(sql: &'a str) -> Offsets<'a> {
        Offsets::behind(sql, Origin::of_text())
    }

    /// Those at or behind a place of the text.
    fn behind(sql: &'a str, Origin { byte, at }: Origin) -> Offsets<'a> {
        Offsets { rest: sql[byte..].chars(), at, byte }
    }

    /// As [`offset`]; `at` lies at or behind the location asked for before.
    pub(super) fn of(&mut self, at: Location) -> usize {
        while (self.at.line, self.at.column) < (at.line, at.column) {
            let Some(c) = self.rest.next() else { break };
            self.byte += c.len_utf8();
            if c == '\n' {
                self.at = Location { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += 1;
            }
        }
        self.byte
    }
}

/// Character position counted from 1, as error reports give it.
pub(super) fn position(sql: &str, offset: usize) -> u32 {
    u32::try_from(sql[..offset].chars().count() + 1).unwrap_or(u32::MAX)
}

/// Whether it is this word, unquoted, in any case.
pub(super) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Position within a statement's tokens; white space and comments are passed over.
pub(super) struct Tokens<'a> {
    sql: &'a str,
    tokens: &'a [TokenWithSpan],
    at: usize,
    origin: Origin,
    pace: &'a Pace,
}

/// How far a data type is read: what stands behind it is not to be copied for each of a list.
const TYPE_TOKENS_MAX: usize = 200;

impl<'a> Tokens<'a> {
    /// Of a statement of `sql` that begins at `origin`.
    pub(super) fn new(
        sql: &'a str,
        tokens: &'a [TokenWithSpan],
        origin: Origin,
        pace: &'a Pace,
    ) -> Tokens<'a> {
        let mut tokens = Tokens { sql, tokens, at: 0, origin, pace };
        tokens.skip_space();
        tokens
    }

    fn skip_space(&mut self) {
        while matches!(self.tokens.get(self.at), Some(t) if matches!(t.token, Token::Whitespace(_))) {
            self.at += 1;
        }
    }

    /// The next token; `EOF` at the end.
    pub(super) fn peek(&self) -> &'a Token {
        self.tokens.get(self.at).map_or(&Token::EOF, |t| &t.token)
    }

    pub(super) fn next(&mut self) -> &'a Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len());
        self.skip_space();
        token
    }

    /// A second cursor at the same place, to look ahead with.
    pub(super) fn ahead(&self) -> Tokens<'a> {
        Tokens { ..*self }
    }

    /// True at the end of the statement.
    pub(super) fn at_end(&self) -> bool {
        *self.peek() == Token::EOF
    }

    pub(super) fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &Token) -> SqlResult<()> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// An unquoted word equal to `word` but for case.
    fn is_word(token: &Token, word: &str) -> bool {
        matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// True when the next words are these.
    pub(super) fn peek_words(&self, words: &[&str]) -> bool {
        let mut ahead = self.ahead();
        words.iter().all(|word| Self::is_word(ahead.next(), word))
    }

    /// Passes these words, or none of them.
    pub(super) fn take_words(&mut self, words: &[&str]) -> bool {
        let found = self.peek_words(words);
        if found {
            for _ in words {
                self.next();
            }
        }
        found
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.take_words(&[word])
    }

    pub(super) fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// `IF EXISTS`.
    pub(super) fn take_if_exists(&mut self) -> bool {
        self.take_words(&["IF", "EXISTS"])
    }

    /// An identifier, folded to lower case unless quoted.
    pub(super) fn name(&mut self) -> SqlResult<String> {
        match self.peek() {
            Token::Word(word) => {
                let name = match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_ascii_lowercase(),
                };
                self.next();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// As [`Tokens::name`], cut to 63 bytes as names of objects are.
    pub(super) fn identifier(&mut self) -> SqlResult<String> {
        let mut name = self.name()?;
        name.truncate(name.floor_char_boundary(IDENTIFIER_LEN_MAX));
        Ok(name)
    }

    /// `name [, …]`
    pub(super) fn names(&mut self) -> SqlResult<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.take(&Token::Comma) {
            names.push(self.name()?);
        }
        Ok(names)
    }

    /// `[schema.]name` with each part folded.
    pub(super) fn object_name(&mut self) -> SqlResult<Vec<String>> {
        let mut parts = vec![self.name()?];
        while self.take(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    /// `[schema.]name [, …]`
    pub(super) fn object_names(&mut self) -> SqlResult<Vec<Vec<String>>> {
        let mut names = vec![self.object_name()?];
        while self.take(&Token::Comma) {
            names.push(self.object_name()?);
        }
        Ok(names)
    }

    /// A quoted string, its escapes resolved.
    pub(super) fn string(&mut self) -> SqlResult<String> {
        match self.peek() {
            Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::UnicodeStringLiteral(text) => {
                let text = text.clone();
                self.next();
                Ok(text)
            }
            Token::DollarQuotedString(text) => {
                let text = text.value.clone();
                self.next();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A whole number with an optional sign.
    pub(super) fn integer(&mut self) -> SqlResult<i64> {
        let negative = self.take(&Token::Minus);
        if !negative {
            self.take(&Token::Plus);
        }
        match self.peek() {
            Token::Number(digits, _) => {
                let signed = if negative { format!("-{digits}") } else { digits.clone() };
                let value = signed.parse().map_err(|_| {
                    SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("\"{signed}\" is not a whole number in range"),
                    )
                })?;
                self.next();
                Ok(value)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// True when the next token starts a number.
    pub(super) fn peek_number(&self) -> bool {
        matches!(self.peek(), Token::Number(..) | Token::Minus | Token::Plus)
    }

    /// A data type, read by `sqlparser`.
    pub(super) fn data_type(&mut self) -> SqlResult<DataType> {
        let end = self.tokens.len().min(self.at + TYPE_TOKENS_MAX);
        self.delegate(end, |parser| parser.parse_data_type())
    }

    /// A query, read by `sqlparser`; it takes everything it can.
    pub(super) fn query(&mut self) -> SqlResult<ast::Query> {
        self.delegate(self.tokens.len(), |parser| parser.parse_query().map(|query| *query))
    }

    /// An expression, read by `sqlparser`.
    pub(super) fn expression(&mut self) -> SqlResult<ast::Expr> {
        self.delegate(self.tokens.len(), |parser| parser.parse_expr())
    }

    /// Lets `sqlparser` read from here, to the token `end` at most, and goes on where it stopped.
    fn delegate<T: VisitMut>(
        &mut self,
        end: usize,
        read: impl FnOnce(&mut Parser<'_>) -> Result<T, sqlparser::parser::ParserError>,
    ) -> SqlResult<T> {
        let rest = &self.tokens[self.at..end];
        let (mut value, stopped) =
            super::dialect::parse(rest, self.pace, |parser| Ok((read(parser)?, parser.peek_token())))
                .map_err(|error| super::parser_error(self.sql, rest, &error))?;
        super::nesting::settle(&mut value)?;
        self.at = if stopped.token == Token::EOF {
            end
        } else {
            let index = rest.iter().position(|t| t.span == stopped.span && t.token == stopped.token);
            self.at + index.unwrap_or(rest.len())
        };
        self.skip_space();
        Ok(value)
    }

    /// The text from here to the end of the statement, and where in the script it begins.
    pub(super) fn rest_text(&self) -> (usize, &'a str) {
        let mut rest = self.tokens[self.at..].iter().filter(|t| t.token != Token::EOF);
        let Some(first) = rest.next() else { return (self.sql.len(), "") };
        let last = rest.next_back().unwrap_or(first);
        let mut offsets = Offsets::behind(self.sql, self.origin);
        let (start, end) = (offsets.of(first.span.start), offsets.of(last.span.end));
        (start, &self.sql[start..end])
    }

    /// What a statement that begins here takes in memory, by estimate.
    pub(super) fn rest_size(&self) -> usize {
        super::pace::statement_size(&self.tokens[self.at..], self.rest_text().1)
    }

    /// The script.
    pub(super) fn sql(&self) -> &'a str {
        self.sql
    }

    pub(super) fn pace(&self) -> &'a Pace {
        self.pace
    }

    /// Passes everything to the end and gives it back.
    pub(super) fn take_rest(&mut self) -> &'a [TokenWithSpan] {
        let rest = &self.tokens[self.at..];
        self.at = self.tokens.len();
        rest
    }

    pub(super) fn expect_end(&self) -> SqlResult<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The error for the token we stand at.
    pub(super) fn unexpected(&self) -> SqlError {
        match self.tokens.get(self.at) {
            Some(token) => super::near_at(self.sql, token),
            None => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"),
        }
    }
}
