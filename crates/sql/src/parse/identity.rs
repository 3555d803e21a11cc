//! Identity columns: the options of their sequences may come in any order, of which `sqlparser` knows one, and dump tools name
//! the sequence, which it does not know at all.

use std::borrow::Cow;

use base::SqlResult;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::altered::{self, AlteredTable};
use super::pace::Pace;
use super::sequence::{self, SequenceOption};
use super::tokens::{Tokens, is_word};

/// `ALTER TABLE table ALTER column ADD GENERATED … AS IDENTITY (options)`, standing alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddIdentity {
    pub table: AlteredTable,
    pub column: String,
    /// GENERATED ALWAYS, not BY DEFAULT.
    pub always: bool,
    /// `SEQUENCE NAME`
    pub sequence: Option<Vec<String>>,
    pub options: Vec<SequenceOption>,
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<AddIdentity>> {
    let mut ahead = tokens.ahead();
    let Some(table) = altered::take_table(&mut ahead) else { return Ok(None) };
    let Some(column) = altered::take_column(&mut ahead) else { return Ok(None) };
    if !ahead.take_words(&["ADD", "GENERATED"]) {
        return Ok(None);
    }
    let always = ahead.take_word("ALWAYS");
    if !always && !ahead.take_words(&["BY", "DEFAULT"]) || !ahead.take_words(&["AS", "IDENTITY"]) {
        return Ok(None);
    }
    let (mut sequence, mut options) = (None, Vec::new());
    if ahead.take(&Token::LParen) {
        while !ahead.take(&Token::RParen) {
            if ahead.take_words(&["SEQUENCE", "NAME"]) {
                sequence = Some(ahead.object_name()?);
            } else {
                options.push(sequence::option(&mut ahead)?);
            }
        }
    }
    if !ahead.at_end() {
        // One of several operations.
        return Ok(None);
    }
    tokens.take_rest();
    Ok(Some(AddIdentity { table, column, always, sequence, options }))
}

/// The statement with the options of `AS IDENTITY (…)` in the order that `sqlparser` expects.
pub(super) fn in_order<'p>(part: &'p [TokenWithSpan], pace: &Pace) -> Cow<'p, [TokenWithSpan]> {
    let solid: Vec<usize> =
        (0..part.len()).filter(|i| !matches!(part[*i].token, Token::Whitespace(_))).collect();
    let mut out = Cow::Borrowed(part);
    for window in solid.windows(3) {
        pace.step();
        let [a, b, open] = [window[0], window[1], window[2]];
        if is_word(&part[b], "IDENTITY")
            && is_word(&part[a], "AS")
            && part[open].token == Token::LParen
            && let Some(close) = close_behind(&part[open..])
        {
            let inside = open + 1..open + close;
            let sorted = sorted_options(&part[inside.clone()]);
            out.to_mut()[inside].clone_from_slice(&sorted);
        }
    }
    out
}

/// How far from an opening parenthesis the closing one is looked for, so that a row of those that are not closed takes no time.
const OPTIONS_TOKENS_MAX: usize = 500;

fn close_behind(part: &[TokenWithSpan]) -> Option<usize> {
    part.iter().take(OPTIONS_TOKENS_MAX).position(|token| token.token == Token::RParen)
}

const ORDER: [&str; 6] = ["INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE"];

fn sorted_options(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut after_no = false;
    for token in tokens {
        let rank = ORDER.iter().position(|word| is_word(token, word));
        let no = is_word(token, "NO");
        match (rank, options.last_mut()) {
            // What follows a NO says which option it is.
            (Some(rank), Some(last)) if after_no => last.0 = rank,
            (Some(rank), _) => options.push((rank, Vec::new())),
            (None, _) if no => options.push((ORDER.len(), Vec::new())),
            (None, None) => options.push((0, Vec::new())),
            (None, Some(_)) => {}
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            after_no = no;
        }
        options.last_mut().expect("one was just pushed").1.push(token.clone());
    }
    options.sort_by_key(|(rank, _)| *rank);
    options.into_iter().flat_map(|(_, tokens)| tokens).collect()
}
