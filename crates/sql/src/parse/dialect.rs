//! PostgreSQL's dialect of `sqlparser`, with a meter.
//!
//! `sqlparser` tries one reading of a phrase and then another; nested phrases that no reading fits are tried twice a level, so
//! that forty levels of `CASE WHEN` would keep a worker busy for years. The parser asks its dialect at every step: here each
//! question costs a little of a budget that grows with the statement, and a parse that runs out of it is given up.

use std::any::TypeId;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use sqlparser::ast::{Expr, Function, FunctionArguments, Ident, ObjectName, UnaryOperator};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::pace::Pace;

/// Questions a parse may ask whatever its length, and for each of its tokens. Statements that parse ask one or two a token.
const QUESTIONS_MIN: u64 = 200_000;
const QUESTIONS_A_TOKEN: u64 = 100;

/// How often the parser may call itself. A level of parentheses takes one call, a subquery three.
const PARSER_CALLS_MAX: usize = 300;

/// Has `read` parse `tokens`, which [`super::nesting::check_tokens`] has passed; each question is a step of `pace`.
///
/// # Errors
/// The parser's; [`ParserError::RecursionLimitExceeded`] also for a parse that takes too long.
pub(super) fn parse<T>(
    tokens: &[TokenWithSpan],
    pace: &Pace,
    read: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<T, ParserError> {
    let left = Cell::new(QUESTIONS_MIN + QUESTIONS_A_TOKEN * tokens.len() as u64);
    let dialect = Metered { left, pace: pace.clone() };
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(PARSER_CALLS_MAX)
        .with_tokens_with_locations(pace.copied(tokens));
    // The parser is dropped in whatever state it is.
    catch_unwind(AssertUnwindSafe(|| read(&mut parser))).unwrap_or_else(|panic| {
        if panic.is::<OutOfQuestions>() {
            Err(ParserError::RecursionLimitExceeded)
        } else {
            resume_unwind(panic)
        }
    })
}

/// The dialect by which a text is cut into tokens. They are bounded elsewhere, so that its questions cost nothing.
pub(super) fn lexing() -> impl Dialect {
    Metered { left: Cell::new(u64::MAX), pace: Pace::free() }
}

/// Of a sign: closer than COLLATE and AT TIME ZONE, 120 and 110 to `sqlparser`, and less close than subscripts and casts, from 130 on.
const SIGN_PRECEDENCE: u8 = 125;

/// The operator that stands before its operand.
fn prefix_operator(token: &Token) -> Option<UnaryOperator> {
    Some(match token {
        Token::Minus => UnaryOperator::Minus,
        Token::Plus => UnaryOperator::Plus,
        Token::AtSign => UnaryOperator::PGAbs,
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
        Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
        _ => return None,
    })
}

/// Whether it is a match by a pattern, which binds as a comparison to `sqlparser` and closer to PostgreSQL.
fn is_match(token: &Token) -> bool {
    matches!(
        token,
        Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk
    )
}

/// Unwinds the parser, which would take an error for a reason to try something else.
struct OutOfQuestions;

#[derive(Debug)]
struct Metered {
    left: Cell<u64>,
    pace: Pace,
}

impl Metered {
    /// Pays for one question.
    fn postgres(&self) -> &'static PostgreSqlDialect {
        self.pace.step();
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => resume_unwind(Box::new(OutOfQuestions)),
        }
        &PostgreSqlDialect {}
    }
}

macro_rules! as_postgres {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            self.postgres().$name()
        })*
    };
}

impl Dialect for Metered {
    fn dialect(&self) -> TypeId {
        self.postgres();
        TypeId::of::<PostgreSqlDialect>()
    }
    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.postgres().identifier_quote_style(identifier)
    }
    fn is_delimited_identifier_start(&self, c: char) -> bool {
        self.postgres().is_delimited_identifier_start(c)
    }
    fn is_identifier_start(&self, c: char) -> bool {
        self.postgres().is_identifier_start(c)
    }
    fn is_identifier_part(&self, c: char) -> bool {
        self.postgres().is_identifier_part(c)
    }
    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        self.postgres().is_reserved_for_identifier(keyword)
    }
    /// Neither a sign nor the beginning of a comment goes on an operator: `a>-1`, `a<>/* … */1`. PostgreSQL has a sign at the end of an operator only
    /// beside a character that is in none of SQL's own; of these `sqlparser` knows those that there are (`#-`).
    fn is_custom_operator_part(&self, c: char) -> bool {
        self.postgres().is_custom_operator_part(c) && !matches!(c, '+' | '-' | '*' | '/')
    }
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let token = &parser.peek_token_ref().token;
        if super::respell::is_distinct_mark(token) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        if is_match(token) {
            return Some(Ok(self.prec_value(Precedence::PgOther)));
        }
        self.postgres().get_next_precedence(parser)
    }
    /// Operators before their operands. `current_role` and `current_schema` are calls without parentheses, which `sqlparser` takes for columns.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        self.postgres();
        if let Some(op) = prefix_operator(&parser.peek_token_ref().token) {
            parser.next_token();
            // A sign binds closer than `^`, so that `-2 ^ 2` is `(-2) ^ 2`; the others as what has no place of its own: `@ -5 + 3` is `@ (-5 + 3)`.
            let precedence = match op {
                UnaryOperator::Minus | UnaryOperator::Plus => SIGN_PRECEDENCE,
                _ => self.prec_value(Precedence::PgOther),
            };
            let operand = parser.parse_subexpr(precedence);
            return Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }));
        }
        let Token::Word(word) = &parser.peek_token_ref().token else { return None };
        let is_call = word.quote_style.is_none()
            && ["current_role", "current_schema"].iter().any(|name| word.value.eq_ignore_ascii_case(name));
        if !is_call || matches!(parser.peek_nth_token_ref(1).token, Token::LParen | Token::Period) {
            return None;
        }
        let name = ObjectName::from(vec![Ident::new(word.value.clone())]);
        parser.next_token();
        Some(Ok(Expr::Function(Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::None,
            null_treatment: None,
            filter: None,
            over: None,
            within_group: Vec::new(),
        })))
    }
    fn prec_unknown(&self) -> u8 {
        self.postgres().prec_unknown()
    }
    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.postgres().prec_value(precedence)
    }

    // All that PostgreSQL's dialect has and `sqlparser`'s default has not, but for named arguments whose name is an
    // expression: for them every argument is parsed twice, and so a nested one twice a level. Names remain.
    as_postgres!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    );
    // Defaults that the parser asks for at every table, select item and name.
    as_postgres!(
        supports_trailing_commas,
        supports_projection_trailing_commas,
        supports_from_trailing_commas,
        supports_select_item_multi_column_alias,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_in_empty_list,
    );
}

#[cfg(test)]
mod tests {
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn questions_asked(sql: &str) -> (u64, u64) {
        let tokens = Tokenizer::new(&lexing(), sql).tokenize_with_location().unwrap();
        let dialect = Metered { left: Cell::new(u64::MAX), pace: Pace::free() };
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.clone());
        parser.parse_statements().unwrap();
        (u64::MAX - dialect.left.get(), tokens.len() as u64)
    }

    #[test]
    fn what_parses_asks_far_less_than_it_may() {
        let rows = "(1, 'a', -2.5, null), ".repeat(1000);
        let cases = "case when a = 1 then 2 else ".repeat(12) + "3" + &" end".repeat(12);
        for sql in [
            "select a.b, count(*) from s.t as a join u using (x) where a.b between 1 and 2 group by 1 order by 2 desc",
            &format!("insert into t values {rows} (1)"),
            &format!("select {cases}"),
            &format!("select {}1{}", "(".repeat(40), ")".repeat(40)),
            &format!("select {}1{}", "abs(".repeat(40), ")".repeat(40)),
            "select make_interval(days => 1, hours := abs(2))",
            &format!("select * from {}t{}", "(select * from ".repeat(8), ") x".repeat(8)),
        ] {
            let (asked, tokens) = questions_asked(sql);
            let may = QUESTIONS_MIN + QUESTIONS_A_TOKEN * tokens;
            println!("{asked} of {may} for {tokens} tokens");
            assert!(asked < may / 4, "{asked} of {may}: {sql:.60}");
        }
    }

    #[test]
    fn a_parse_without_end_is_given_up() {
        for sql in ["case when true then ".repeat(90), "((select from ".repeat(20)] {
            let tokens = Tokenizer::new(&lexing(), &sql).tokenize_with_location().unwrap();
            let outcome = parse(&tokens, &Pace::free(), |parser| {
                if sql.starts_with('(') {
                    parser.parse_query().map(drop)
                } else {
                    parser.parse_expr().map(drop)
                }
            });
            assert!(outcome.is_err(), "{sql:.30}");
        }
    }
}
