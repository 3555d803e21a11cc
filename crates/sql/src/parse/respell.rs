//! Clauses that `sqlparser` does not know, spelled as others that PostgreSQL has not and that have a place in its tree.
//!
//! * `lower(a)` among the columns of a target of ON CONFLICT becomes a name: [`target_function`] reads it back.
//! * `ON CONFLICT (a) WHERE b DO UPDATE SET` becomes `ON CONFLICT (a) DO UPDATE SET "…" = (b),`, and `DO NOTHING` behind such a WHERE
//!   `DO UPDATE SET "…" = (b)`: [`target_condition`] reads it back.
//! * `OVERRIDING SYSTEM VALUE` becomes `PARTITION ("…")`: [`overriding`] reads it back.
//! * `FOR NO KEY UPDATE`, `FOR KEY SHARE` and locks `OF` several tables become `FOR UPDATE OF "…".table.table`:
//!   [`lock_targets`] reads it back.
//! * A LIMIT, OFFSET or FETCH behind a lock comes before it.
//! * `DROP INDEX CONCURRENTLY a` becomes `DROP INDEX a ON "…"`: [`is_concurrent`] tells.
//! * `LIKE table INCLUDING …` among the columns of a CREATE TABLE becomes a column named `"…"` whose type is the table, the
//!   options its modifiers: [`like_clause`] reads it back.
//! * `TABLE name` where a query begins becomes `SELECT * FROM name`.
//! * ONLY before a table in FROM, or before an UPDATE's, is left out.
//! * `type ARRAY` becomes `type[]`.
//! * `OPERATOR(pg_catalog.=) ANY` becomes `= ANY`.
//! * `f(a, VARIADIC b)` becomes `f(a, "…" => b)`: [`is_variadic`] tells.
//! * `BETWEEN SYMMETRIC a` becomes `BETWEEN NOT NOT a`: [`symmetric`] reads it back.
//! * `TRIM(LEADING FROM a)` and `TRIM(LEADING a, b)` become calls of `ltrim`, and so for the other ends.
//! * `SUBSTRING(a SIMILAR b ESCAPE c)` becomes `SUBSTRING(a, b, c)`.
//! * `name := value` among arguments becomes `name => value`.
//! * `INTERVAL(3) 'text'` becomes `CAST('text' AS INTERVAL(3))`.
//! * `a ISNULL` becomes `a IS NULL`.
//! * `IS DISTINCT FROM` becomes an operator, behind which `sqlparser` ends where it should: [`distinct_from`] reads it back.
//! * WITH DATA at the end of a CREATE TABLE AS is left out.
//! * The names in `CREATE TABLE t (a, b) AS` become columns of the type `"…"`: [`is_name_alone`] tells.
//! * `EXPLAIN (query)` becomes `EXPLAIN (COSTS) (query)`: `sqlparser` takes what stands in parentheses there for options.
//! * `SELECT … INTO t` becomes, once it is read, the `CREATE TABLE t AS` that it means.

use std::borrow::Cow;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::pace::Pace;
use super::print::text_of;
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

/// How far TRIM looks for its FROM, and SIMILAR for its ESCAPE, so that a row of them takes no time.
const TRIM_TOKENS_MAX: usize = 500;

/// The same for a LIMIT behind a lock.
const LIMIT_TOKENS_MAX: usize = 500;

/// `database.schema.table`
const TABLE_NAME_TOKENS_MAX: usize = 5;

const DISTINCT: &str = "\u{1}distinct";
const NOT_DISTINCT: &str = "\u{1}not distinct";

const CONCURRENTLY: &str = "\u{1}concurrently";
const FUNCTION: &str = "\u{1}function ";
const TARGET: &str = "\u{1}target";
const TARGET_OF_NOTHING: &str = "\u{1}target of nothing";

/// How far a target of ON CONFLICT looks back for its beginning, and its WHERE for its DO, so that a row of them takes no time.
const TARGET_TOKENS_MAX: usize = 500;

const VARIADIC: &str = "\u{1}variadic";
const NO_TYPE: &str = "\u{1}no type";

const LOCKS: [(&[&str], LockWord, &str); 4] = [
    (&["NO", "KEY", "UPDATE"], LockWord::NoKeyUpdate, "\u{1}no key update"),
    (&["KEY", "SHARE"], LockWord::KeyShare, "\u{1}key share"),
    (&["UPDATE"], LockWord::Update, "\u{1}update"),
    (&["SHARE"], LockWord::Share, "\u{1}share"),
];

/// Whether an argument of this name is an array of arguments.
pub fn is_variadic(name: &ast::Ident) -> bool {
    name.value == VARIADIC
}

/// Whether a token stands for IS DISTINCT FROM, or for IS NOT DISTINCT FROM.
pub(super) fn is_distinct_mark(token: &Token) -> bool {
    matches!(token, Token::CustomBinaryOperator(name) if name == DISTINCT || name == NOT_DISTINCT)
}

/// Makes IS DISTINCT FROM of the operator that stands for it.
pub(super) fn distinct_from(expr: &mut ast::Expr) {
    let ast::Expr::BinaryOp { op: ast::BinaryOperator::Custom(name), .. } = expr else { return };
    let is_distinct = match name.as_str() {
        DISTINCT => true,
        NOT_DISTINCT => false,
        _ => return,
    };
    let whole = std::mem::replace(expr, ast::Expr::value(ast::Value::Null));
    if let ast::Expr::BinaryOp { left, right, .. } = whole {
        *expr = if is_distinct {
            ast::Expr::IsDistinctFrom(left, right)
        } else {
            ast::Expr::IsNotDistinctFrom(left, right)
        };
    }
}

/// The lower bound of a BETWEEN whose bounds may stand in either order.
pub fn symmetric(low: &ast::Expr) -> Option<&ast::Expr> {
    match low {
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr } => match &**expr {
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr } => Some(expr),
            _ => None,
        },
        _ => None,
    }
}

/// Writes an expression as PostgreSQL does where it is spelled otherwise here, or printed otherwise by `sqlparser`; what is in it was written so before. It is good for being
/// printed then, and for nothing else.
pub fn spell_out(expr: &mut ast::Expr) {
    let text = match expr {
        ast::Expr::Between { expr, negated, low, high } => {
            let Some(low) = symmetric(low) else { return };
            let not = if *negated { "NOT " } else { "" };
            let [expr, low, high] = [&**expr, low, &**high].map(text_of);
            format!("{expr} {not}BETWEEN SYMMETRIC {low} AND {high}")
        }
        ast::Expr::UnaryOp { op, expr } => {
            // Side by side two operators are another one, or a comment.
            let operand = text_of(expr);
            if !operand.starts_with(|c| "+-*/<>=~!@#%^&|`?".contains(c)) {
                return;
            }
            format!("{op} {operand}")
        }
        ast::Expr::Function(function) => {
            if let ast::FunctionArguments::List(list) = &mut function.args {
                for arg in &mut list.args {
                    if let ast::FunctionArg::Named { name, arg: value, .. } = arg
                        && is_variadic(name)
                    {
                        let text = ast::Ident::new(format!("VARIADIC {}", text_of(value)));
                        *arg = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(
                            text,
                        )));
                    }
                }
            }
            return;
        }
        _ => return,
    };
    *expr = ast::Expr::Identifier(ast::Ident::new(text));
}

/// Whether a name is one that stands for the words of a lock.
pub(super) fn is_lock_mark(name: &str) -> bool {
    LOCKS.iter().any(|(.., mark)| name == *mark)
}

/// Writes the lock, whose mark stands at that place of a printed query, as PostgreSQL does.
pub(super) fn spell_out_lock(text: &mut String, at: usize) {
    const BEFORE: &str = "FOR UPDATE OF ";
    let quoted =
        |mark: &str| text[at..].strip_prefix('"')?.strip_prefix(mark)?.starts_with('"').then_some(());
    let Some((words, _, mark)) = LOCKS.iter().find(|(.., mark)| quoted(mark).is_some()) else { return };
    if !text[..at].ends_with(BEFORE) {
        return;
    }
    let end = at + mark.len() + 2;
    let (names, len) = dotted_names(&text[end..]);
    let of = if names.is_empty() { String::new() } else { format!(" OF {}", names.join(", ")) };
    let lock = format!("FOR {}{of}", words.join(" "));
    text.replace_range(at - BEFORE.len()..end + len, &lock);
}

/// The names, each behind a dot, with which a text begins, and how long all of them are.
fn dotted_names(text: &str) -> (Vec<&str>, usize) {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(rest) = text[at..].strip_prefix('.') {
        let is_quoted = rest.starts_with('"');
        let mut in_quotes = false;
        let ends = |c: char| {
            in_quotes ^= c == '"';
            !in_quotes && if is_quoted { c != '"' } else { !c.is_alphanumeric() && c != '_' && c != '$' }
        };
        let len = rest.find(ends).unwrap_or(rest.len());
        names.push(&rest[..len]);
        at += 1 + len;
    }
    (names, at)
}

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

/// The function and the column that a name in a target of ON CONFLICT stands for, if it does.
pub fn target_function(name: &ast::Ident) -> Option<(&str, &str)> {
    name.value.strip_prefix(FUNCTION)?.split_once('\u{1}')
}

/// The condition of a target of ON CONFLICT with what is done: assignments, or nothing.
pub struct TargetCondition<'a> {
    pub condition: &'a ast::Expr,
    /// `None` for DO NOTHING.
    pub assignments: Option<&'a [ast::Assignment]>,
}

/// The WHERE of a target of ON CONFLICT, if it has one.
pub fn target_condition(action: &ast::OnConflictAction) -> Option<TargetCondition<'_>> {
    let ast::OnConflictAction::DoUpdate(update) = action else { return None };
    let (ast::Assignment { target, value }, rest) = update.assignments.split_first()?;
    let ast::AssignmentTarget::ColumnName(name) = target else { return None };
    let [ast::ObjectNamePart::Identifier(mark)] = name.0.as_slice() else { return None };
    let assignments = match mark.value.as_str() {
        TARGET => Some(rest),
        TARGET_OF_NOTHING => None,
        _ => return None,
    };
    Some(TargetCondition { condition: value, assignments })
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

/// Whether a column is one of `CREATE TABLE t (a, b) AS`, of which nothing but the name is said.
pub fn is_name_alone(column: &ast::ColumnDef) -> bool {
    let ast::DataType::Custom(ty, _) = &column.data_type else { return false };
    let is_mark = matches!(ty.0.as_slice(), [ast::ObjectNamePart::Identifier(name)] if name.value == NO_TYPE);
    is_mark && column.options.is_empty()
}

/// A statement's tokens without the white space between them.
struct Solid<'p> {
    part: &'p [TokenWithSpan],
    places: Vec<usize>,
}

impl<'p> Solid<'p> {
    fn of(part: &'p [TokenWithSpan]) -> Solid<'p> {
        let places = (0..part.len()).filter(|i| !matches!(part[*i].token, Token::Whitespace(_))).collect();
        Solid { part, places }
    }

    fn get(&self, at: usize) -> Option<&'p TokenWithSpan> {
        self.places.get(at).map(|place| &self.part[*place])
    }

    fn token(&self, at: usize) -> Option<&'p Token> {
        self.get(at).map(|token| &token.token)
    }

    /// What stands `distance` tokens before `at`.
    fn before(&self, at: usize, distance: usize) -> Option<&'p TokenWithSpan> {
        self.get(at.checked_sub(distance)?)
    }

    /// Whether these words stand there.
    fn words(&self, at: usize, words: &[&str]) -> bool {
        words.iter().zip(at..).all(|(word, at)| self.get(at).is_some_and(|token| is_word(token, word)))
    }
}

/// Whether the table of a DROP INDEX says that it was CONCURRENTLY.
pub fn is_concurrent(table: &ast::ObjectName) -> bool {
    matches!(table.0.as_slice(), [ast::ObjectNamePart::Identifier(name)] if name.value == CONCURRENTLY)
}

/// The statement as `sqlparser` can read it.
pub(super) fn respelled<'p>(part: &'p [TokenWithSpan], pace: &Pace) -> Cow<'p, [TokenWithSpan]> {
    let solid = Solid::of(part);
    let create_table = solid.words(0, &["CREATE", "TABLE"]);
    let mut out: Option<Vec<TokenWithSpan>> = None;
    let mut copied = 0;
    let mut at = 0;
    // Where the DO stands behind the WHERE of a target of ON CONFLICT.
    let mut target_end = None;
    while at < solid.places.len() {
        pace.step();
        let replaced = if at == 1 && solid.words(0, &["EXPLAIN"]) && opens_query(&solid, at) {
            let options = [Token::LParen, Token::make_keyword("COSTS"), Token::RParen, Token::LParen];
            Some((options.to_vec(), at + 1))
        } else if create_table && solid.words(at, &["WITH", "DATA"]) && at + 2 == solid.places.len() {
            Some((Vec::new(), at + 2))
        } else if at == 2 && solid.words(0, &["DROP", "INDEX", "CONCURRENTLY"]) {
            Some((Vec::new(), at + 1))
        } else if at > 2
            && at + 1 == solid.places.len()
            && solid.words(0, &["DROP", "INDEX", "CONCURRENTLY"])
            && let Some(last) = solid.token(at)
        {
            let mark = Token::make_word(CONCURRENTLY, Some('"'));
            Some((vec![last.clone(), Token::make_keyword("ON"), mark], at + 1))
        } else if solid.words(at, &["TABLE"]) && begins_query(&solid, at) {
            let only = usize::from(solid.words(at + 1, &["ONLY"]));
            let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            Some((select.to_vec(), at + 1 + only))
        } else if solid.words(at, &["ONLY"]) && solid.before(at, 1).is_some_and(begins_relation) {
            Some((Vec::new(), at + 1))
        } else if solid.words(at, &["ARRAY"]) && is_array_of(&solid, at) {
            Some((vec![Token::LBracket, Token::RBracket], at + 1))
        } else if solid.words(at, &["OPERATOR"]) {
            operator_tokens(&solid, at)
        } else if solid.words(at, &["VARIADIC"]) && begins_column(&solid, at) {
            Some((vec![Token::make_word(VARIADIC, Some('"')), Token::RArrow], at + 1))
        } else if solid.words(at, &["BETWEEN"]) {
            between_tokens(&solid, at)
        } else if solid.words(at, &["TRIM"]) && solid.token(at + 1) == Some(&Token::LParen) {
            trim_tokens(&solid, at)
        } else if solid.words(at, &["INTERVAL"]) && solid.token(at + 1) == Some(&Token::LParen) {
            interval_tokens(&solid, at)
        } else if solid.words(at, &["SIMILAR"]) && !solid.words(at + 1, &["TO"]) {
            similar_tokens(&solid, at)
        } else if solid.token(at) == Some(&Token::Assignment) {
            Some((vec![Token::RArrow], at + 1))
        } else if solid.words(at, &["ISNULL"]) {
            Some((["IS", "NULL"].map(Token::make_keyword).to_vec(), at + 1))
        } else if solid.words(at, &["IS", "DISTINCT", "FROM"]) {
            Some((vec![Token::CustomBinaryOperator(DISTINCT.to_owned())], at + 3))
        } else if solid.words(at, &["IS", "NOT", "DISTINCT", "FROM"]) {
            Some((vec![Token::CustomBinaryOperator(NOT_DISTINCT.to_owned())], at + 4))
        } else if solid.words(at, &["ON", "CONFLICT"]) && solid.token(at + 2) == Some(&Token::LParen) {
            target_columns(&solid, at)
        } else if solid.words(at, &["WHERE"])
            && target_end.is_none()
            && let Some(end) = end_of_target(&solid, at)
        {
            target_end = Some(end);
            let mark = if solid.words(end, &["DO", "NOTHING"]) { TARGET_OF_NOTHING } else { TARGET };
            let mut tokens = ["DO", "UPDATE", "SET"].map(Token::make_keyword).to_vec();
            tokens.extend([Token::make_word(mark, Some('"')), Token::Eq, Token::LParen]);
            Some((tokens, at + 1))
        } else if target_end == Some(at) {
            target_end = None;
            match solid.words(at, &["DO", "NOTHING"]) {
                true => Some((vec![Token::RParen], at + 2)),
                false => Some((vec![Token::RParen, Token::Comma], at + 3)),
            }
        } else if solid.words(at, &["OVERRIDING"]) {
            overriding_tokens(&solid, at)
        } else if solid.words(at, &["FOR"]) {
            lock_tokens(&solid, at)
        } else if create_table && solid.token(at) == Some(&Token::LParen) && is_table_name(&solid, at) {
            names_tokens(&solid, at)
        } else if create_table && solid.words(at, &["LIKE"]) && begins_column(&solid, at) {
            like_tokens(&solid, at)
        } else {
            None
        };
        let Some((tokens, next)) = replaced else {
            at += 1;
            continue;
        };
        let out = out.get_or_insert_default();
        out.extend_from_slice(&part[copied..solid.places[at]]);
        let span = part[solid.places[at]].span;
        out.extend(tokens.into_iter().map(|token| TokenWithSpan { token, span }));
        copied = solid.places.get(next).copied().unwrap_or(part.len());
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

/// Whether a parenthesis stands there that opens a query.
fn opens_query(solid: &Solid<'_>, at: usize) -> bool {
    let begins = ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| solid.words(at + 1, &[word]));
    solid.token(at) == Some(&Token::LParen) && (begins || solid.token(at + 1) == Some(&Token::LParen))
}

/// Whether TABLE stands where a query begins, and names what it reads.
fn begins_query(solid: &Solid<'_>, at: usize) -> bool {
    const BEFORE: &[&str] = &[
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "ALL",
        "DISTINCT",
        "AS",
        "FOR",
        "EXPLAIN",
        "ANALYZE",
        "VERBOSE",
        "VALUE",
    ];
    let Some(Token::Word(_)) = solid.token(at + 1) else { return false };
    let Some(before) = solid.before(at, 1) else { return true };
    // `INSERT INTO a.b TABLE c`
    let mut name = at - 1;
    while name > 2 && solid.token(name - 1) == Some(&Token::Period) {
        name -= 2;
    }
    matches!(before.token, Token::LParen | Token::RParen)
        || BEFORE.iter().any(|word| is_word(before, word))
        || (name > 1 && solid.words(name - 2, &["INSERT", "INTO"]))
}

/// Whether ARRAY stands behind a type, and is no constructor.
fn is_array_of(solid: &Solid<'_>, at: usize) -> bool {
    let constructs = matches!(solid.token(at + 1), Some(Token::LBracket | Token::LParen));
    let behind_type = solid.before(at, 1).is_some_and(|before| {
        matches!(before.token, Token::Word(_) | Token::RParen) && !is_word(before, "AS")
    });
    behind_type && !constructs
}

/// The bare operator for `OPERATOR(pg_catalog.…)` before ANY or ALL, and where the statement goes on.
fn operator_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let opens = solid.token(at + 1) == Some(&Token::LParen) && solid.words(at + 2, &["pg_catalog"]);
    let closes = solid.token(at + 3) == Some(&Token::Period) && solid.token(at + 5) == Some(&Token::RParen);
    let quantified = ["ANY", "ALL", "SOME"].iter().any(|word| solid.words(at + 6, &[word]));
    (opens && closes && quantified)
        .then(|| (vec![solid.token(at + 4).expect("before the parenthesis").clone()], at + 6))
}

/// BETWEEN with what says that its bounds may stand in either order, or that they may not, and where the statement goes on.
fn between_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let words: &[&str] = match () {
        () if solid.words(at + 1, &["SYMMETRIC"]) => &["BETWEEN", "NOT", "NOT"],
        () if solid.words(at + 1, &["ASYMMETRIC"]) => &["BETWEEN"],
        () => return None,
    };
    Some((words.iter().map(|word| Token::make_keyword(word)).collect(), at + 2))
}

/// `, b, c` for the rest of `SUBSTRING(a SIMILAR b ESCAPE c)`, up to `c`, and where the statement goes on.
fn similar_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let mut tokens = vec![Token::Comma];
    let mut depth = 0;
    for place in at + 1..at + 1 + TRIM_TOKENS_MAX {
        match solid.token(place)? {
            _ if depth == 0 && solid.words(place, &["ESCAPE"]) => {
                tokens.push(Token::Comma);
                return Some((tokens, place + 1));
            }
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return None,
            Token::RParen => depth -= 1,
            _ => {}
        }
        tokens.push(solid.token(place)?.clone());
    }
    None
}

/// A cast for an interval's literal with a number of digits, and where the statement goes on.
fn interval_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let digits @ Token::Number(..) = solid.token(at + 2)? else { return None };
    let text @ Token::SingleQuotedString(_) = solid.token(at + 4)? else { return None };
    let mut tokens = vec![Token::make_keyword("CAST"), Token::LParen, text.clone()];
    tokens.extend(["AS", "INTERVAL"].map(Token::make_keyword));
    tokens.extend([Token::LParen, digits.clone(), Token::RParen, Token::RParen]);
    Some((tokens, at + 5))
}

/// `ltrim(` for a TRIM that has no word of what to trim before FROM, and where the statement goes on.
fn trim_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let ends = [("LEADING", "ltrim"), ("TRAILING", "rtrim"), ("BOTH", "btrim")];
    let end = ends.iter().find(|(word, _)| solid.words(at + 2, &[word]));
    let mut next = at + 2 + usize::from(end.is_some());
    if solid.words(next, &["FROM"]) {
        next += 1;
    } else {
        end?;
        let mut depth = 0;
        for place in next..next + TRIM_TOKENS_MAX {
            match solid.token(place)? {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                _ if depth == 0 && solid.words(place, &["FROM"]) => return None,
                _ => {}
            }
        }
    }
    let name = Token::make_word(end.map_or("btrim", |(_, name)| name), None);
    Some((vec![name, Token::LParen], next))
}

/// `ON CONFLICT (…)` with names in the places of functions of columns, and where the statement goes on; `None` where there is no function.
fn target_columns(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let mut tokens: Vec<Token> = (at..at + 3).filter_map(|place| solid.token(place).cloned()).collect();
    let (mut place, mut has_function) = (at + 3, false);
    loop {
        if let Some((mark, next)) = function_mark(solid, place) {
            tokens.push(Token::make_word(&mark, Some('"')));
            (place, has_function) = (next, true);
        } else {
            let name @ Token::Word(_) = solid.token(place)? else { return None };
            tokens.push(name.clone());
            place += 1;
        }
        let token = solid.token(place)?;
        tokens.push(token.clone());
        place += 1;
        match token {
            Token::Comma => {}
            Token::RParen => return has_function.then_some((tokens, place)),
            _ => return None,
        }
    }
}

/// The name for `lower(a)`, `(lower((a)::text))` and the like, and where what is behind it stands.
fn function_mark(solid: &Solid<'_>, at: usize) -> Option<(String, usize)> {
    let is = |place: usize, token: &Token| solid.token(place) == Some(token);
    let count = |from: usize, token: &Token| (from..from + 3).take_while(|place| is(*place, token)).count();
    let outer = count(at, &Token::LParen);
    let Token::Word(function) = solid.token(at + outer)? else { return None };
    let opening = at + outer + 1;
    if !is(opening, &Token::LParen) {
        return None;
    }
    let inner = count(opening + 1, &Token::LParen);
    let mut place = opening + 1 + inner;
    let Token::Word(column) = solid.token(place)? else { return None };
    place += 1;
    for _ in 0..inner {
        place += usize::from(is(place, &Token::RParen));
    }
    if is(place, &Token::DoubleColon) && solid.words(place + 1, &["text"]) {
        place += 2;
    }
    let closing = count(place, &Token::RParen);
    if closing < outer + 1 {
        return None;
    }
    let ident = match column.quote_style {
        Some(quote) => ast::Ident::with_quote(quote, &column.value),
        None => ast::Ident::new(&column.value),
    };
    let mark = format!("{FUNCTION}{}\u{1}{}", function.value.to_ascii_lowercase(), fold_ident(&ident));
    Some((mark, place + outer + 1))
}

/// Where DO stands behind a WHERE of a target of ON CONFLICT; `None` where it is another WHERE.
fn end_of_target(solid: &Solid<'_>, at: usize) -> Option<usize> {
    let mut depth = 0;
    let opens = |place: &usize| {
        match solid.token(*place) {
            Some(Token::RParen) => depth += 1,
            Some(Token::LParen) => depth -= 1,
            _ => {}
        }
        depth == 0
    };
    let opening = (at.saturating_sub(TARGET_TOKENS_MAX)..at).rev().find(opens)?;
    if opening + 1 >= at || !solid.words(opening.checked_sub(2)?, &["ON", "CONFLICT"]) {
        return None;
    }
    let mut depth = 0;
    let ends = |place: &usize| {
        match solid.token(*place) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth -= 1,
            _ => {}
        }
        depth == 0
            && (solid.words(*place, &["DO", "NOTHING"]) || solid.words(*place, &["DO", "UPDATE", "SET"]))
    };
    let end = (at + 1..at + 1 + TARGET_TOKENS_MAX).find(ends)?;
    (end > at + 1).then_some(end)
}

/// `PARTITION ("…")` for `OVERRIDING … VALUE`, and where the statement goes on. Where neither an alias nor columns stand before
/// it, PARTITION would be read as the table's alias: the table's own name is put there.
fn overriding_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let mark = match () {
        () if solid.words(at + 1, &["SYSTEM", "VALUE"]) => SYSTEM,
        () if solid.words(at + 1, &["USER", "VALUE"]) => USER,
        () => return None,
    };
    let mut tokens = Vec::new();
    if let Some(TokenWithSpan { token: name @ Token::Word(_), .. }) = solid.before(at, 1)
        && solid.before(at, 2).is_some_and(|token| token.token == Token::Period || is_word(token, "INTO"))
    {
        tokens.extend([Token::make_keyword("AS"), name.clone()]);
    }
    let mark = Token::make_word(mark, Some('"'));
    tokens.extend([Token::make_keyword("PARTITION"), Token::LParen, mark, Token::RParen]);
    Some((tokens, at + 3))
}

/// `FOR UPDATE OF "…".a.b` for a lock that `sqlparser` cannot read, behind the LIMIT that stood behind it, and where the statement goes on.
fn lock_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let (phrase, _, mark) = LOCKS.iter().find(|(phrase, ..)| solid.words(at + 1, phrase))?;
    let mut next = at + 1 + phrase.len();
    let mut tables = Vec::new();
    if solid.words(next, &["OF"]) {
        while let Some(table @ Token::Word(_)) = solid.token(next + 1) {
            tables.push(table.clone());
            next += 2;
            if solid.token(next) != Some(&Token::Comma) {
                break;
            }
        }
    }
    let wait = match () {
        () if solid.words(next, &["NOWAIT"]) => 1,
        () if solid.words(next, &["SKIP", "LOCKED"]) => 2,
        () => 0,
    };
    let is_readable = phrase.len() == 1 && tables.len() < 2;
    let limit_end = limit_behind(solid, next + wait);
    if is_readable && limit_end.is_none() {
        return None;
    }
    let copied = |from: usize, to: usize| (from..to).filter_map(|place| solid.token(place).cloned());
    let mut tokens: Vec<Token> = copied(next + wait, limit_end.unwrap_or_default()).collect();
    if is_readable {
        tokens.extend(copied(at, next));
    } else {
        tokens.extend(["FOR", "UPDATE", "OF"].map(Token::make_keyword));
        tokens.push(Token::make_word(mark, Some('"')));
        for table in tables {
            tokens.extend([Token::Period, table]);
        }
    }
    let Some(limit_end) = limit_end else { return Some((tokens, next)) };
    tokens.extend(copied(next, next + wait));
    Some((tokens, limit_end))
}

/// Where a LIMIT, OFFSET or FETCH ends that stands behind a lock; `None` if none does.
fn limit_behind(solid: &Solid<'_>, at: usize) -> Option<usize> {
    ["LIMIT", "OFFSET", "FETCH"].iter().find(|word| solid.words(at, &[word]))?;
    let mut depth = 0;
    let ends = |place: &usize| match solid.token(*place) {
        Some(Token::LParen) => {
            depth += 1;
            false
        }
        Some(Token::RParen) if depth > 0 => {
            depth -= 1;
            false
        }
        None | Some(Token::RParen) => true,
        Some(_) => depth == 0 && solid.words(*place, &["FOR"]),
    };
    (at..at + LIMIT_TOKENS_MAX).find(ends)
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

/// Whether these tokens of a CREATE TABLE, up to `end`, are `CREATE TABLE [IF NOT EXISTS] name`.
fn is_table_name(solid: &Solid<'_>, end: usize) -> bool {
    let first = if solid.words(2, &["IF", "NOT", "EXISTS"]) { 5 } else { 2 };
    let fits = |at: usize| match solid.token(at) {
        Some(Token::Word(_)) => (at - first) % 2 == 0,
        Some(Token::Period) => (at - first) % 2 == 1,
        _ => false,
    };
    end > first && end - first <= TABLE_NAME_TOKENS_MAX && (end - first) % 2 == 1 && (first..end).all(fits)
}

/// `(a "…", b "…")` for names that are followed by AS, and where the statement goes on.
fn names_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let mut tokens = vec![Token::LParen];
    let mut next = at + 1;
    loop {
        let name @ Token::Word(_) = solid.token(next)? else { return None };
        tokens.extend([name.clone(), Token::make_word(NO_TYPE, Some('"'))]);
        let behind = solid.token(next + 1)?.clone();
        next += 2;
        match behind {
            Token::Comma => tokens.push(behind),
            Token::RParen => break,
            _ => return None,
        }
    }
    tokens.push(Token::RParen);
    (solid.words(next, &["AS"]) || solid.words(next, &["WITH"])).then_some((tokens, next))
}

/// Whether what stands there begins an element of a parenthesised list.
fn begins_column(solid: &Solid<'_>, at: usize) -> bool {
    matches!(solid.before(at, 1).map(|token| &token.token), Some(Token::LParen | Token::Comma))
}

/// `"…" table('including', 'all', …)` for a LIKE clause, and where the statement goes on.
fn like_tokens(solid: &Solid<'_>, at: usize) -> Option<(Vec<Token>, usize)> {
    let mut tokens = vec![Token::make_word(LIKE, Some('"'))];
    let mut next = at + 1;
    loop {
        let Some(Token::Word(name)) = solid.token(next) else { return None };
        // Quoted, no name is a keyword.
        let folded =
            if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() };
        tokens.push(Token::make_word(&folded, Some('"')));
        next += 1;
        if solid.token(next) != Some(&Token::Period) {
            break;
        }
        tokens.push(Token::Period);
        next += 1;
    }
    tokens.push(Token::LParen);
    while solid.words(next, &["INCLUDING"]) || solid.words(next, &["EXCLUDING"]) {
        let including = if solid.words(next, &["INCLUDING"]) { "including" } else { "excluding" };
        let Some(Token::Word(what)) = solid.token(next + 1) else { return None };
        for word in [including, &what.value.to_lowercase()] {
            tokens.extend([Token::SingleQuotedString(word.to_owned()), Token::Comma]);
        }
        next += 2;
    }
    tokens.push(Token::RParen);
    Some((tokens, next))
}
