//! String literals that go on behind the end of a line.

use base::{SqlError, SqlResult};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens with literals that stand in lines of their own, and nothing between them, as one.
///
/// # Errors
/// 42601 where only blanks stand between two literals; 0A000 where a part has escapes that the tokenizer took for plain text, and
/// for UESCAPE.
pub(super) fn joined(sql: &str, tokens: Vec<TokenWithSpan>) -> SqlResult<Vec<TokenWithSpan>> {
    let literals = tokens.iter().filter(|token| is_literal(&token.token)).count();
    if literals < 2 && !tokens.iter().any(|token| super::tokens::is_word(token, "UESCAPE")) {
        return Ok(tokens);
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The last literal, if nothing but white space came since; and what there was of that.
    let (mut last, mut newline, mut comment) = (None::<usize>, false, false);
    for token in tokens {
        match &token.token {
            Token::Whitespace(space) => {
                newline |= matches!(space, Whitespace::Newline | Whitespace::SingleLineComment { .. });
                comment |= matches!(space, Whitespace::MultiLineComment(_));
                out.push(token);
                continue;
            }
            Token::SingleQuotedString(more) => {
                if let Some(place) = last {
                    if !newline || comment {
                        return Err(super::near_at(sql, &token));
                    }
                    append(&mut out[place], more, token.span.end)?;
                    out.truncate(place + 1);
                    (newline, comment) = (false, false);
                    continue;
                }
            }
            _ => {}
        }
        let uescape = super::tokens::is_word(&token, "UESCAPE");
        if uescape && last.is_some_and(|place| matches!(out[place].token, Token::UnicodeStringLiteral(_))) {
            return Err(SqlError::unsupported("UESCAPE"));
        }
        last = is_literal(&token.token).then_some(out.len());
        (newline, comment) = (false, false);
        out.push(token);
    }
    Ok(out)
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::HexStringLiteral(_)
    )
}

fn append(literal: &mut TokenWithSpan, more: &str, end: sqlparser::tokenizer::Location) -> SqlResult<()> {
    let escaped = matches!(literal.token, Token::EscapedStringLiteral(_) | Token::UnicodeStringLiteral(_));
    if escaped && more.contains('\\') {
        return Err(SqlError::unsupported("an escape in a literal's second line"));
    }
    if let Token::SingleQuotedString(text)
    | Token::EscapedStringLiteral(text)
    | Token::UnicodeStringLiteral(text)
    | Token::NationalStringLiteral(text)
    | Token::SingleQuotedByteStringLiteral(text)
    | Token::HexStringLiteral(text) = &mut literal.token
    {
        text.push_str(more);
    }
    literal.span.end = end;
    Ok(())
}
