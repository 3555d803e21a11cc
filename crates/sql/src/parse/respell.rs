//! Clauses that `sqlparser` does not know, spelled as others that PostgreSQL has not and that have a place in its tree.
//!
//! * `OVERRIDING SYSTEM VALUE` becomes `PARTITION ("…")`: [`overriding`] reads it back.
//! * `FOR NO KEY UPDATE`, `FOR KEY SHARE` and locks `OF` several tables become `FOR UPDATE OF "…".table.table`:
//!   [`lock_targets`] reads it back.
//! * `LIKE table INCLUDING …` among the columns of a CREATE TABLE becomes a column named `"…"` whose type is the table, the
//!   options its modifiers: [`like_clause`] reads it back.
//! * ONLY before a table in FROM, or before an UPDATE's, is left out.
//! * `OPERATOR(pg_catalog.=) ANY` becomes `= ANY`.
//! * WITH DATA at the end of a CREATE TABLE AS is left out.
//! * The names in `CREATE TABLE t (a, b) AS` become columns of some type, which nobody reads.
//! * `SELECT … INTO t` becomes, once it is read, the `CREATE TABLE t AS` that it means.

use std::borrow::Cow;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::is_word;
use crate::expr::fold_ident;

/// Whose values an INSERT's identity columns take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overriding {
    System,
    User,
}

/// How strongly a clause locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWord {
    Update,
    NoKeyUpdate,
    Share,
    KeyShare,
}

/// The identifiers made here begin with a character that no statement's do.
const LIKE: &str = "\u{1}like";
const SYSTEM: &str = "\u{1}system";
const USER: &str = "\u{1}user";

const LOCKS: [(&[&str], LockWord, &str); 4] = [
    (&["NO", "KEY", "UPDATE"], LockWord::NoKeyUpdate, "\u{1}no key update"),
    (&["KEY", "SHARE"], LockWord::KeyShare, "\u{1}key share"),
    (&["UPDATE"], LockWord::Update, "\u{1}update"),
    (&["SHARE"], LockWord::Share, "\u{1}share"),
];

/// The OVERRIDING clause of an INSERT.
///
/// # Errors
/// 0A000 for a PARTITION clause.
pub fn overriding(insert: &ast::Insert) -> SqlResult<Option<Overriding>> {
    match insert.partitioned.as_deref() {
        None => Ok(None),
        Some([ast::Expr::Identifier(ident)]) if ident.value == SYSTEM => Ok(Some(Overriding::System)),
        Some([ast::Expr::Identifier(ident)]) if ident.value == USER => Ok(Some(Overriding::User)),
        Some(_) => Err(SqlError::unsupported("INSERT … PARTITION")),
    }
}

/// How strongly a clause locks, and which relations; none named: all.
///
/// # Errors
/// 42601 for a relation named with its schema.
pub fn lock_targets(clause: &ast::LockClause) -> SqlResult<(LockWord, Vec<ast::Ident>)> {
    let mut names: Vec<ast::Ident> =
        clause.of.iter().flat_map(|name| &name.0).filter_map(|part| part.as_ident().cloned()).collect();
    if let Some(first) = names.first()
        && let Some((_, word, _)) = LOCKS.iter().find(|(.., mark)| first.value == *mark)
    {
        names.remove(0);
        return Ok((*word, names));
    }
    if names.len() > 1 {
        let message = format!("FOR {} must specify unqualified relation names", clause.lock_type);
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let word = match clause.lock_type {
        ast::LockType::Update => LockWord::Update,
        ast::LockType::Share => LockWord::Share,
    };
    Ok((word, names))
}

/// `LIKE table INCLUDING … EXCLUDING …` in a CREATE TABLE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LikeClause {
    pub table: Vec<String>,
    /// Words in lower case, each INCLUDING or not, in order.
    pub options: Vec<(bool, String)>,
}

/// The LIKE clause that a column of a CREATE TABLE stands for.
pub fn like_clause(column: &ast::ColumnDef) -> Option<LikeClause> {
    let ast::DataType::Custom(table, modifiers) = &column.data_type else { return None };
    if column.name.value != LIKE {
        return None;
    }
    let options = modifiers.chunks_exact(2).map(|pair| (pair[0] == "including", pair[1].clone()));
    let table = table.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
    Some(LikeClause { table, options: options.collect() })
}

/// The statement as `sqlparser` can read it.
pub(super) fn respelled(part: &[TokenWithSpan]) -> Cow<'_, [TokenWithSpan]> {
    let solid: Vec<usize> =
        (0..part.len()).filter(|i| !matches!(part[*i].token, Token::Whitespace(_))).collect();
    let words = |at: usize, words: &[&str]| {
        words.iter().enumerate().all(|(i, word)| solid.get(at + i).is_some_and(|i| is_word(&part[*i], word)))
    };
    let mut out: Option<Vec<TokenWithSpan>> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < solid.len() {
        let replaced =
            if words(at, &["WITH", "DATA"]) && at + 2 == solid.len() && words(0, &["CREATE", "TABLE"]) {
                Some((Vec::new(), at + 2))
            } else if words(at, &["ONLY"]) && at > 0 && begins_relation(&part[solid[at - 1]]) {
                Some((Vec::new(), at + 1))
            } else if words(at, &["OPERATOR"]) {
                operator_tokens(part, &solid, at, &words)
            } else if words(at, &["OVERRIDING"]) {
                overriding_tokens(part, &solid, at, &words)
            } else if words(at, &["FOR"]) {
                lock_tokens(part, &solid, at, &words)
            } else if part[solid[at]].token == Token::LParen && is_table_name(part, &solid[..at]) {
                names_tokens(part, &solid, at, &words)
            } else if words(at, &["LIKE"]) && begins_column(part, &solid, at) {
                like_tokens(part, &solid, at, &words)
            } else {
                None
            };
        let Some((tokens, next)) = replaced else {
            at += 1;
            continue;
        };
        let out = out.get_or_insert_default();
        out.extend_from_slice(&part[copied..solid[at]]);
        let span = part[solid[at]].span;
        out.extend(tokens.into_iter().map(|token| TokenWithSpan { token, span }));
        copied = solid.get(next).copied().unwrap_or(part.len());
        at = next;
    }
    match out {
        None => Cow::Borrowed(part),
        Some(mut out) => {
            out.extend_from_slice(&part[copied..]);
            Cow::Owned(out)
        }
    }
}

type Words<'w> = dyn Fn(usize, &[&str]) -> bool + 'w;

/// The bare operator for `OPERATOR(pg_catalog.…)` before ANY or ALL, and where the statement goes on.
fn operator_tokens(
    part: &[TokenWithSpan],
    solid: &[usize],
    at: usize,
    words: &Words<'_>,
) -> Option<(Vec<Token>, usize)> {
    let token = |at: usize| solid.get(at).map(|i| &part[*i].token);
    let opens = token(at + 1) == Some(&Token::LParen) && words(at + 2, &["pg_catalog"]);
    let closes = token(at + 3) == Some(&Token::Period) && token(at + 5) == Some(&Token::RParen);
    let quantified = ["ANY", "ALL", "SOME"].iter().any(|word| words(at + 6, &[word]));
    (opens && closes && quantified)
        .then(|| (vec![token(at + 4).expect("before the parenthesis").clone()], at + 6))
}

/// `PARTITION ("…")` for `OVERRIDING … VALUE`, and where the statement goes on. Where neither an alias nor columns stand before
/// it, PARTITION would be read as the table's alias: the table's own name is put there.
fn overriding_tokens(
    part: &[TokenWithSpan],
    solid: &[usize],
    at: usize,
    words: &Words<'_>,
) -> Option<(Vec<Token>, usize)> {
    let mark = match () {
        () if words(at + 1, &["SYSTEM", "VALUE"]) => SYSTEM,
        () if words(at + 1, &["USER", "VALUE"]) => USER,
        () => return None,
    };
    let mut tokens = Vec::new();
    let before = |n: usize| at.checked_sub(n).map(|i| &part[solid[i]]);
    if let Some(TokenWithSpan { token: name @ Token::Word(_), .. }) = before(1)
        && before(2).is_some_and(|token| token.token == Token::Period || is_word(token, "INTO"))
    {
        tokens.extend([Token::make_keyword("AS"), name.clone()]);
    }
    let mark = Token::make_word(mark, Some('"'));
    tokens.extend([Token::make_keyword("PARTITION"), Token::LParen, mark, Token::RParen]);
    Some((tokens, at + 3))
}

/// `FOR UPDATE OF "…".a.b` for a lock that `sqlparser` cannot read, and where the statement goes on.
fn lock_tokens(
    part: &[TokenWithSpan],
    solid: &[usize],
    at: usize,
    words: &Words<'_>,
) -> Option<(Vec<Token>, usize)> {
    let (phrase, _, mark) = LOCKS.iter().find(|(phrase, ..)| words(at + 1, phrase))?;
    let mut next = at + 1 + phrase.len();
    let mut tables = Vec::new();
    if words(next, &["OF"]) {
        while matches!(solid.get(next + 1).map(|i| &part[*i].token), Some(Token::Word(_))) {
            tables.push(part[solid[next + 1]].token.clone());
            next += 2;
            if solid.get(next).is_none_or(|i| part[*i].token != Token::Comma) {
                break;
            }
        }
    }
    if phrase.len() == 1 && tables.len() < 2 {
        return None;
    }
    let mut tokens = ["FOR", "UPDATE", "OF"].map(Token::make_keyword).to_vec();
    tokens.push(Token::make_word(mark, Some('"')));
    for table in tables {
        tokens.extend([Token::Period, table]);
    }
    Some((tokens, next))
}

/// `SELECT … INTO t` as `CREATE TABLE t AS SELECT …`.
///
/// # Errors
/// 0A000 for an unlogged table.
pub(super) fn without_into(mut statement: ast::Statement) -> SqlResult<ast::Statement> {
    let ast::Statement::Query(query) = &mut statement else { return Ok(statement) };
    let mut first = &mut *query.body;
    while let ast::SetExpr::SetOperation { left, .. } = first {
        first = left;
    }
    let ast::SetExpr::Select(select) = first else { return Ok(statement) };
    let Some(ast::SelectInto { temporary, unlogged, table: _, name }) = select.into.take() else {
        return Ok(statement);
    };
    if unlogged {
        return Err(SqlError::unsupported("an unlogged table"));
    }
    let create = CreateTableBuilder::new(name).temporary(temporary).query(Some(query.clone()));
    Ok(ast::Statement::CreateTable(create.build()))
}

/// Whether a relation follows, so that ONLY may: no table has children.
fn begins_relation(token: &TokenWithSpan) -> bool {
    token.token == Token::Comma || ["FROM", "JOIN", "UPDATE"].iter().any(|word| is_word(token, word))
}

/// Whether these tokens are `CREATE TABLE [IF NOT EXISTS] name`.
fn is_table_name(part: &[TokenWithSpan], solid: &[usize]) -> bool {
    let words = |words: &[&str]| {
        words.len() <= solid.len() && words.iter().zip(solid).all(|(word, i)| is_word(&part[*i], word))
    };
    let name = match () {
        () if words(&["CREATE", "TABLE", "IF", "NOT", "EXISTS"]) => &solid[5..],
        () if words(&["CREATE", "TABLE"]) => &solid[2..],
        () => return false,
    };
    let fits = |(at, i): (usize, &usize)| match &part[*i].token {
        Token::Word(_) => at % 2 == 0,
        Token::Period => at % 2 == 1,
        _ => false,
    };
    name.len() % 2 == 1 && name.iter().enumerate().all(fits)
}

/// `(a text, b text)` for names that are followed by AS, and where the statement goes on.
fn names_tokens(
    part: &[TokenWithSpan],
    solid: &[usize],
    at: usize,
    words: &Words<'_>,
) -> Option<(Vec<Token>, usize)> {
    let token = |at: usize| solid.get(at).map(|i| &part[*i].token);
    let mut tokens = vec![Token::LParen];
    let mut next = at + 1;
    loop {
        let name @ Token::Word(_) = token(next)? else { return None };
        tokens.extend([name.clone(), Token::make_keyword("TEXT")]);
        let behind = token(next + 1)?.clone();
        next += 2;
        match behind {
            Token::Comma => tokens.push(behind),
            Token::RParen => break,
            _ => return None,
        }
    }
    tokens.push(Token::RParen);
    (words(next, &["AS"]) || words(next, &["WITH"])).then_some((tokens, next))
}

/// Whether what stands there begins an element of a CREATE TABLE's list.
fn begins_column(part: &[TokenWithSpan], solid: &[usize], at: usize) -> bool {
    let create_table =
        matches!(solid, [a, b, ..] if is_word(&part[*a], "CREATE") && is_word(&part[*b], "TABLE"));
    let before = at.checked_sub(1).map(|i| &part[solid[i]].token);
    create_table && matches!(before, Some(Token::LParen | Token::Comma))
}

/// `"…" table('including', 'all', …)` for a LIKE clause, and where the statement goes on.
fn like_tokens(
    part: &[TokenWithSpan],
    solid: &[usize],
    at: usize,
    words: &Words<'_>,
) -> Option<(Vec<Token>, usize)> {
    let token = |at: usize| solid.get(at).map(|i| &part[*i].token);
    let mut tokens = vec![Token::make_word(LIKE, Some('"'))];
    let mut next = at + 1;
    loop {
        let Some(Token::Word(name)) = token(next) else { return None };
        // Quoted, no name is a keyword.
        let folded = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
        tokens.push(Token::make_word(&folded, Some('"')));
        next += 1;
        if token(next) != Some(&Token::Period) {
            break;
        }
        tokens.push(Token::Period);
        next += 1;
    }
    tokens.push(Token::LParen);
    while words(next, &["INCLUDING"]) || words(next, &["EXCLUDING"]) {
        let including = if words(next, &["INCLUDING"]) { "including" } else { "excluding" };
        let Some(Token::Word(what)) = token(next + 1) else { return None };
        for word in [including, &what.value.to_lowercase()] {
            tokens.extend([Token::SingleQuotedString(word.to_owned()), Token::Comma]);
        }
        next += 2;
    }
    tokens.push(Token::RParen);
    Some((tokens, next))
}
