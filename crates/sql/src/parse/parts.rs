//! Where the statements of a script end: at semicolons, but for those within parentheses, as several actions of a rule stand, and between BEGIN
//! ATOMIC and END of a routine's body. psql tells them so, too.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::is_word;

/// The tokens of each statement of a script in turn, without the semicolons between them.
pub(super) fn parts(tokens: &[TokenWithSpan]) -> Parts<'_> {
    Parts { rest: Some(tokens) }
}

pub(super) struct Parts<'t> {
    /// `None` behind the last one.
    rest: Option<&'t [TokenWithSpan]>,
}

impl<'t> Iterator for Parts<'t> {
    type Item = &'t [TokenWithSpan];

    fn next(&mut self) -> Option<&'t [TokenWithSpan]> {
        let tokens = self.rest?;
        let mut nesting = Nesting { is_routine: makes_routine(tokens), ..Nesting::default() };
        let end = tokens.iter().position(|token| nesting.ends_at(token));
        self.rest = end.map(|end| &tokens[end + 1..]);
        Some(&tokens[..end.unwrap_or(tokens.len())])
    }
}

/// How deep in its statement a token stands.
#[derive(Default)]
struct Nesting {
    is_routine: bool,
    parentheses: usize,
    blocks: usize,
    /// What follows is a name in a schema, and none of the grammar's words.
    is_qualified: bool,
}

impl Nesting {
    /// Whether the statement ends at its next token.
    fn ends_at(&mut self, token: &TokenWithSpan) -> bool {
        match token.token {
            Token::SemiColon => return self.parentheses == 0 && self.blocks == 0,
            Token::LParen => self.parentheses += 1,
            Token::RParen => self.parentheses = self.parentheses.saturating_sub(1),
            Token::Word(_) if self.is_routine && self.parentheses == 0 && !self.is_qualified => {
                self.word(token)
            }
            _ => {}
        }
        self.is_qualified = token.token == Token::Period;
        false
    }

    fn word(&mut self, token: &TokenWithSpan) {
        if is_word(token, "BEGIN") || self.blocks > 0 && is_word(token, "CASE") {
            self.blocks += 1;
        } else if is_word(token, "END") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }
}

/// Whether a statement that begins so is a CREATE FUNCTION or CREATE PROCEDURE.
fn makes_routine(tokens: &[TokenWithSpan]) -> bool {
    let mut solid = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let first = [solid.next(), solid.next(), solid.next(), solid.next()];
    let is = |at: usize, word: &str| first[at].is_some_and(|token| is_word(token, word));
    let kind = if is(1, "OR") && is(2, "REPLACE") { 3 } else { 1 };
    is(0, "CREATE") && (is(kind, "FUNCTION") || is(kind, "PROCEDURE"))
}
