//! How deep a statement may nest.
//!
//! Whatever walks a statement (the parser, binding, planning, evaluation, the analytical planners, even dropping it) calls itself
//! once a level, on a thread's stack of [`THREAD_STACK_LEN`]. So depth is bounded here, once, before anything else walks:
//! [`check_tokens`] bounds what the parser may build, which loops over chains like `1 + 1 + …` and so builds trees deeper than
//! its own recursion; [`settle`] holds what it built against [`NESTING_MAX`].
//!
//! A chain of ANDs or of ORs, which programs write by the thousand, is no nesting: it becomes a balanced tree of the same
//! terms in the same order.

use std::ops::ControlFlow;

use base::limits::{NESTING_MAX, STATEMENT_TOKENS_MAX, THREAD_STACK_LEN};
use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, BinaryOperator, Expr, SetExpr, VisitMut, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::pace::Pace;

/// Longest way of tokens, lists left out, from a statement's beginning to any of its tokens: each level of a tree takes at
/// least one, so no tree is deeper. 125,000 terms of the form `a = 1 OR`.
const CHAIN_TOKENS_MAX: usize = 500_000;
/// Dropping a tree takes some 300 bytes of stack a level.
const _: () = assert!(CHAIN_TOKENS_MAX as u64 * 400 < THREAD_STACK_LEN.0);

/// Longest row of brackets, as in `x[1][2]` or `int[][]`, and of the word INTERVAL, the only one that the parser enters again
/// and again without counting. Arrays have six dimensions at most, and one INTERVAL is enough.
const REPEATED_MAX: usize = 64;

/// Shortest chain that is balanced.
const BALANCED_LEN_MIN: usize = 32;

/// The error of a statement, or of the views it is made of, that nests more than [`NESTING_MAX`] levels.
pub fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint(format!("Expressions and queries may nest {NESTING_MAX} levels deep."))
}

/// The error of a script that is too long to keep in memory.
pub(super) fn too_many_tokens() -> SqlError {
    let message = format!("a statement may have {STATEMENT_TOKENS_MAX} words, signs and blanks");
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
}

/// Refuses a script that the parser cannot read within its stack.
///
/// # Errors
/// 54001.
pub(super) fn check_tokens(tokens: &[TokenWithSpan], pace: &Pace) -> SqlResult<()> {
    // Tokens since the last comma at this level of parentheses, and at the levels around it.
    let mut run = 0;
    let mut around: Vec<usize> = Vec::new();
    let mut chain = 0;
    let mut repeated = 0;
    let mut before = &Token::EOF;
    for TokenWithSpan { token, .. } in tokens {
        pace.step();
        match token {
            Token::Whitespace(_) => continue,
            Token::SemiColon => {
                around.clear();
                (run, chain) = (0, 0);
            }
            Token::Comma => {
                chain -= run;
                run = 0;
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                around.push(run + 1);
                chain += 1;
                run = 0;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                chain = chain - run + 1;
                run = around.pop().unwrap_or(0) + 1;
            }
            _ => {
                run += 1;
                chain += 1;
            }
        }
        repeated = match (before, token) {
            (Token::RBracket, Token::LBracket) => repeated + 1,
            (before, token) if is_interval(before) && is_interval(token) => repeated + 1,
            (_, Token::LBracket) => 0,
            (_, token) if is_interval(token) => 0,
            _ => repeated,
        };
        before = token;
        if chain > CHAIN_TOKENS_MAX || repeated > REPEATED_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn is_interval(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.keyword == Keyword::INTERVAL)
}

/// Balances the chains of `tree`, puts queries in the places of what stands for them ([`super::record_columns`]), and tells how deep it nests.
///
/// # Errors
/// 54001 when that is more than [`NESTING_MAX`], and those of such places.
pub(super) fn settle(tree: &mut impl VisitMut) -> SqlResult<usize> {
    let mut settling = Settling::default();
    match tree.visit(&mut settling) {
        ControlFlow::Continue(()) => Ok(settling.deepest),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Settling {
    depth: usize,
    deepest: usize,
}

impl Settling {
    fn enter(&mut self, levels: usize) -> ControlFlow<SqlError> {
        self.depth += levels;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > NESTING_MAX { ControlFlow::Break(too_deep()) } else { ControlFlow::Continue(()) }
    }
}

impl VisitorMut for Settling {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<SqlError> {
        self.enter(1 + set_operations(&query.body))
    }

    fn post_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth -= 1 + set_operations(&query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut ast::TableFactor) -> ControlFlow<SqlError> {
        if let Err(error) = super::record_columns::put_query(table) {
            return ControlFlow::Break(error);
        }
        self.enter(1)
    }

    fn post_visit_table_factor(&mut self, _table: &mut ast::TableFactor) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        super::respell::distinct_from(expr);
        balance(expr);
        self.enter(1 + accesses(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.depth -= 1 + accesses(expr);
        ControlFlow::Continue(())
    }
}

/// Subscripts and fields of an expression, which binding nests.
fn accesses(expr: &Expr) -> usize {
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain.len(),
        _ => 0,
    }
}

/// How deep a body's set operations lean to the left; what stands on their right was bounded by the parser's own recursion.
fn set_operations(mut body: &SetExpr) -> usize {
    let mut levels = 0;
    while let SetExpr::SetOperation { left, .. } = body {
        levels += 1;
        body = left;
    }
    levels
}

/// Turns a long chain of ANDs, or of ORs, into a balanced tree.
fn balance(expr: &mut Expr) {
    let Expr::BinaryOp { op, .. } = expr else { return };
    if !matches!(op, BinaryOperator::And | BinaryOperator::Or) {
        return;
    }
    let op = op.clone();
    if chain_len(expr, &op) < BALANCED_LEN_MIN {
        return;
    }
    let mut terms = Vec::new();
    let mut rest = std::mem::replace(expr, Expr::value(ast::Value::Null));
    loop {
        match rest {
            Expr::BinaryOp { left, op: inner, right } if inner == op => {
                terms.push(*right);
                rest = *left;
            }
            first => {
                terms.push(first);
                break;
            }
        }
    }
    terms.reverse();
    // Neighbours pair up until one is left: the order of the terms stays.
    while terms.len() > 1 {
        let mut paired = Vec::with_capacity(terms.len().div_ceil(2));
        let mut singles = terms.into_iter();
        while let Some(left) = singles.next() {
            paired.push(match singles.next() {
                Some(right) => {
                    Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
                }
                None => left,
            });
        }
        terms = paired;
    }
    *expr = terms.pop().expect("a chain has terms");
}

fn chain_len(mut expr: &Expr, op: &BinaryOperator) -> usize {
    let mut len = 0;
    while let Expr::BinaryOp { left, op: inner, .. } = expr
        && inner == op
    {
        len += 1;
        expr = left;
    }
    len
}
