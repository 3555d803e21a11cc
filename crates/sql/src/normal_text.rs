//! A statement's text without what is particular to one run of it: literals are `$n`, white space and comments are a space.
//!
//! What is shown of statements to others than who sent them goes through here, so nothing of a literal may pass. A small scanner reads the text
//! as the tokenizer of statements does, at some nanoseconds a byte; where it is in doubt what something is, it takes it for a literal. The text need
//! not be a statement.

/// Longest normal text in bytes; what is longer is cut off there, and statements that differ behind it are one.
pub const NORMAL_LEN_MAX: usize = 2 << 10;

/// What stands at one place of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// White space or a comment.
    Space,
    Literal,
    /// `$n`
    Parameter,
    /// An unquoted name or keyword.
    Word,
    /// A quoted name, an operator's character, a bracket.
    Other,
}

struct Scanner<'a> {
    sql: &'a str,
    at: usize,
}

/// Bytes of names; all of a character beyond ASCII are.
fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_word(byte: u8) -> bool {
    starts_word(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl<'a> Scanner<'a> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.sql.as_bytes().get(at).copied()
    }

    /// The first place at or behind `at` whose byte is not one of these.
    fn past(&self, at: usize, is: impl Fn(u8) -> bool) -> usize {
        let rest = &self.sql.as_bytes()[at..];
        at + rest.iter().position(|byte| !is(*byte)).unwrap_or(rest.len())
    }

    /// Behind the next occurrence of `end`, or the text's end.
    fn behind_text(&self, at: usize, end: &str) -> usize {
        self.sql[at..].find(end).map_or(self.sql.len(), |found| at + found + end.len())
    }

    /// Behind the quote that closes what began before `at`; a doubled one does not, nor does one behind a backslash if `escapes`.
    fn behind_quoted(&self, mut at: usize, quote: u8, escapes: bool) -> usize {
        while let Some(byte) = self.byte(at) {
            at += 1;
            if byte == b'\\' && escapes {
                at += 1;
            } else if byte == quote {
                if self.byte(at) != Some(quote) {
                    return at;
                }
                at += 1;
            }
        }
        self.sql.len()
    }

    /// Behind a comment, which may hold others.
    fn behind_comment(&self, mut at: usize) -> usize {
        let mut depth = 1;
        while depth > 0 {
            match (self.byte(at), self.byte(at + 1)) {
                (Some(b'*'), Some(b'/')) => (depth, at) = (depth - 1, at + 2),
                (Some(b'/'), Some(b'*')) => (depth, at) = (depth + 1, at + 2),
                (Some(_), _) => at += 1,
                (None, _) => return self.sql.len(),
            }
        }
        at
    }

    /// Behind digits at `at`, with underscores between them.
    fn behind_digits(&self, at: usize, is_digit: impl Fn(u8) -> bool) -> usize {
        let mut behind = self.past(at, &is_digit);
        while self.byte(behind) == Some(b'_') && self.byte(behind + 1).is_some_and(&is_digit) {
            behind = self.past(behind + 1, &is_digit);
        }
        behind
    }

    /// Behind the number at `at`, exactly: letters behind it are a word, which may be the prefix of a string.
    fn behind_number(&self, at: usize) -> usize {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        if self.byte(at) == Some(b'0')
            && matches!(self.byte(at + 1), Some(b'x' | b'X'))
            && self.byte(at + 2).is_some_and(|byte| byte.is_ascii_hexdigit())
        {
            return self.behind_digits(at + 2, |byte| byte.is_ascii_hexdigit());
        }
        let mut behind = self.behind_digits(at, is_digit);
        if self.byte(behind) == Some(b'.') {
            behind = self.behind_digits(behind + 1, is_digit);
        }
        if matches!(self.byte(behind), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.byte(behind + 1), Some(b'+' | b'-')));
            if self.byte(behind + 1 + sign).is_some_and(is_digit) {
                behind = self.behind_digits(behind + 1 + sign, is_digit);
            }
        }
        behind
    }

    /// What a `$` before `at` begins, and where that ends.
    fn dollar(&self, at: usize) -> (Kind, usize) {
        let behind = self.past(at, |byte| byte != b'$' && continues_word(byte));
        if self.byte(behind) == Some(b'$') {
            let quote = &self.sql[at - 1..=behind];
            return (Kind::Literal, self.behind_text(behind + 1, quote));
        }
        // A letter behind a parameter's number is the next word's, or a string's prefix.
        match self.past(at, |byte| byte.is_ascii_digit()) {
            behind_number if behind_number > at => (Kind::Parameter, behind_number),
            // Nothing else that begins so means anything.
            _ => (Kind::Literal, behind),
        }
    }

    /// A word, or the string that its letter is the prefix of.
    fn word(&self, at: usize) -> (Kind, usize) {
        let behind = self.past(at, continues_word);
        let word = &self.sql[at..behind];
        let is_prefix = |words: &[&str]| words.iter().any(|prefix| word.eq_ignore_ascii_case(prefix));
        match self.byte(behind) {
            Some(b'\'') if is_prefix(&["e", "b", "x", "n"]) => {
                (Kind::Literal, self.behind_quoted(behind + 1, b'\'', is_prefix(&["e"])))
            }
            Some(b'&') if is_prefix(&["u"]) && self.byte(behind + 1) == Some(b'\'') => {
                (Kind::Literal, self.behind_quoted(behind + 2, b'\'', false))
            }
            _ => (Kind::Word, behind),
        }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = (Kind, &'a str);

    fn next(&mut self) -> Option<(Kind, &'a str)> {
        let from = self.at;
        let after = self.byte(from + 1);
        let (kind, behind) = match self.byte(from)? {
            byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => {
                (Kind::Space, self.past(from, |byte| byte.is_ascii_whitespace() || byte.is_ascii_control()))
            }
            b'-' if after == Some(b'-') => (Kind::Space, self.behind_text(from, "\n")),
            b'/' if after == Some(b'*') => (Kind::Space, self.behind_comment(from + 2)),
            b'\'' => (Kind::Literal, self.behind_quoted(from + 1, b'\'', false)),
            b'"' => (Kind::Other, self.behind_quoted(from + 1, b'"', false)),
            b'$' => self.dollar(from + 1),
            b'.' if after.is_some_and(|byte| byte.is_ascii_digit()) => {
                (Kind::Literal, self.behind_number(from))
            }
            byte if byte.is_ascii_digit() => (Kind::Literal, self.behind_number(from)),
            byte if starts_word(byte) => self.word(from),
            _ => (Kind::Other, from + 1),
        };
        // A string may end within a character only where a backslash stood before one.
        let behind = (behind..).find(|at| self.sql.is_char_boundary(*at)).expect("the text's end is one");
        self.at = behind;
        Some((kind, &self.sql[from..behind]))
    }
}

/// Literals are numbered behind the parameters that the text has.
fn first_number(sql: &str) -> u64 {
    if !sql.contains('$') {
        return 1;
    }
    let parameters = Scanner { sql, at: 0 }.filter(|(kind, _)| *kind == Kind::Parameter);
    parameters.filter_map(|(_, text)| text[1..].parse::<u64>().ok()).max().unwrap_or(0).saturating_add(1)
}

/// The normal text of `sql`, at most [`NORMAL_LEN_MAX`] bytes. In `SET name = value` unquoted words of the value count as literals too.
pub fn normal_text(sql: &str) -> String {
    use std::fmt::Write as _;

    let sql = sql.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == ';');
    let mut out = String::with_capacity(sql.len().min(NORMAL_LEN_MAX) + 16);
    let mut number = first_number(sql);
    // A SET: whether it has come to its value.
    let mut value: Option<bool> = None;
    let mut is_spaced = false;
    for (kind, text) in (Scanner { sql, at: 0 }) {
        if kind == Kind::Space {
            is_spaced = true;
            continue;
        }
        let is_first = out.is_empty();
        if is_spaced && !is_first {
            out.push(' ');
        }
        is_spaced = false;
        match kind {
            Kind::Literal => {
                let _ = write!(out, "${number}");
                number = number.saturating_add(1);
            }
            Kind::Word if value == Some(true) => {
                let _ = write!(out, "${number}");
                number = number.saturating_add(1);
            }
            _ => out.push_str(text),
        }
        value = match value {
            None if is_first && text.eq_ignore_ascii_case("set") => Some(false),
            Some(false) if text == "=" || text.eq_ignore_ascii_case("to") => Some(true),
            other => other,
        };
        if out.len() > NORMAL_LEN_MAX {
            out.truncate(out.floor_char_boundary(NORMAL_LEN_MAX));
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::{Token, Tokenizer};

    use super::*;

    #[test]
    fn literals_are_numbered_and_space_is_one() {
        for (sql, normal) in [
            ("SELECT 1", "SELECT $1"),
            (
                "  select\n\t a ,b /* of /* all */ */ from t -- yes\n where c='x' ;; ",
                "select a ,b from t where c=$1",
            ),
            ("SELECT $2, 5, 'it''s', E'a\\'b', $1", "SELECT $2, $3, $4, $5, $1"),
            ("SELECT $$a$$, $t$ 'x' $$ $t$, U&'\\0041', B'01', x'1F', N'n'", "SELECT $1, $2, $3, $4, $5, $6"),
            ("SELECT .5, 1., 1e-5, 0x1F, 1_000, 12abc, -3", "SELECT $1, $2, $3, $4, $5, $6abc, -$7"),
            ("SELECT 1E'a\\'b', 1abe'a\\'", "SELECT $1$2, $3abe$4"),
            ("SELECT \"a 'b' 1\", t1.c2, a$1b FROM t1", "SELECT \"a 'b' 1\", t1.c2, a$1b FROM t1"),
            ("SELECT v[1:2], 'a'::varchar(10)", "SELECT v[$1:$2], $3::varchar($4)"),
            ("SET my.token TO abc, def", "SET my.token TO $1, $2"),
            ("SET TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY"),
            ("UPDATE t SET a = b", "UPDATE t SET a = b"),
            ("COMMIT", "COMMIT"),
            ("SELECT 'no end", "SELECT $1"),
            ("SELECT /* no end", "SELECT"),
            ("SELECT $1$ hidden $1$", "SELECT $1"),
            ("SELECT $1E'a\\'b', $2 'c'", "SELECT $1$3, $2 $4"),
            ("", ""),
        ] {
            assert_eq!(normal_text(sql), normal, "{sql}");
        }
    }

    #[test]
    fn a_long_text_is_cut_within_its_bound() {
        for fill in ["a", "é", "1,", "'x'"] {
            let sql = format!("SELECT {}", fill.repeat(3 * NORMAL_LEN_MAX));
            let normal = normal_text(&sql);
            assert!(normal.len() <= NORMAL_LEN_MAX);
            if fill != "'x'" {
                assert!(normal.len() > NORMAL_LEN_MAX - 8, "{fill}");
            }
        }
    }

    /// What the tokenizer of statements takes for literals, with what in them could be told apart.
    fn literals(sql: &str) -> Option<Vec<String>> {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().ok()?;
        let literal = |token: Token| match token {
            Token::Number(text, _)
            | Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::UnicodeStringLiteral(text)
            | Token::NationalStringLiteral(text)
            | Token::SingleQuotedByteStringLiteral(text)
            | Token::HexStringLiteral(text) => Some(text),
            Token::DollarQuotedString(text) => Some(text.value),
            _ => None,
        };
        Some(tokens.into_iter().filter_map(literal).collect())
    }

    /// Pieces of statements; a secret is told by its letters, which stand in literals alone.
    fn piece() -> impl Strategy<Value = String> {
        let secret = "zq[0-9]{1,3}zq( |''|\\\\|\"|\\$|--|/\\*|\n|é)?".prop_map(|text| text);
        prop_oneof![
            3 => prop::sample::select(vec![
                "SELECT", "a", "\"q'u\"\"o\"", ",", "(", ")", "=", "::", "$1", "$23", " ", "\n", "-- c\n", "/* x */",
                "/* ' /* $$ */ */", "t1", ".", "[", ":", ";", "-", "+", "||", "e", "U", "&", "é", "/", "*", "\\",
            ])
            .prop_map(str::to_owned),
            1 => secret.clone().prop_map(|text| format!("'{}'", text.replace('\\', "/"))),
            1 => secret.clone().prop_map(|text| format!("E'{}\\''", text.replace('\\', "\\\\"))),
            1 => secret.clone().prop_map(|text| format!("U&'{}'", text.replace('\\', "/"))),
            1 => secret.clone().prop_map(|text| format!("$${}$$", text.replace('$', ""))),
            1 => secret.prop_map(|text| format!("$tag${}$tag$", text.replace('$', ""))),
            1 => "7[0-9]{5}7(\\.[0-9]{1,3})?([eE][-+]?7[0-9]{2}7)?",
        ]
    }

    proptest! {
        #[test]
        fn nothing_of_a_literal_is_in_the_normal_text(pieces in prop::collection::vec(piece(), 0..24), gap in any::<bool>()) {
            // Each has a secret of its own.
            let pieces: Vec<_> =
                pieces.iter().enumerate().map(|(at, piece)| piece.replace("zq", &format!("zq{at}q"))).collect();
            let sql = pieces.join(if gap { " " } else { "" });
            let normal = normal_text(&sql);
            for literal in literals(&sql).unwrap_or_default() {
                // A number of a few digits may be a parameter's, too.
                let is_known = literal.contains("zq") || literal.len() >= 6 && literal.starts_with('7');
                if is_known {
                    let heart: String = literal.chars().filter(char::is_ascii_alphanumeric).collect();
                    prop_assert!(!normal.contains(&heart), "{sql:?} became {normal:?}");
                }
            }
            // Without gaps a name may go on into what would be a dollar quote: it is one name then, as PostgreSQL has it.
            prop_assert!(!gap || !normal.contains("zq"), "{sql:?} became {normal:?}");
        }

        #[test]
        fn statements_that_differ_in_literals_alone_are_one(text in "[^'\\\\]{0,12}", number in 0..100_000_000u64) {
            let normal = |text: &str, number: u64| {
                normal_text(&format!("SELECT * FROM t WHERE a = '{text}' AND b > {number} AND c = E'{text}'"))
            };
            prop_assert_eq!(normal(&text, number), normal("", 0));
        }

        #[test]
        fn any_text_has_a_normal_one_that_stays(sql in "(?s).{0,64}") {
            let normal = normal_text(&sql);
            prop_assert!(normal.len() <= NORMAL_LEN_MAX);
            prop_assert!(!normal.contains('\n') || normal.contains('"'));
        }

        #[test]
        fn what_runs_is_what_is_shown_but_for_literals(pieces in prop::collection::vec(piece(), 0..16)) {
            let sql = pieces.join(" ");
            let solid = |sql: &str| {
                let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().ok()?;
                let is_solid = |token: &Token| !matches!(token, Token::Whitespace(_) | Token::EOF);
                let mut solid: Vec<Token> = tokens.into_iter().filter(is_solid).collect();
                while solid.last() == Some(&Token::SemiColon) {
                    solid.pop();
                }
                Some(solid.len())
            };
            if let Some(count) = solid(&sql) {
                prop_assert_eq!(solid(&normal_text(&sql)), Some(count), "{:?} became {:?}", &sql, normal_text(&sql));
            }
        }
    }
}
