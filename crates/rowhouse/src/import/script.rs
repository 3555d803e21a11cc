//! Cutting a script of SQL into its statements.

/// The statements of `sql` without comments before them, their semicolons, and psql's own lines (`\restrict`).
pub(super) fn statements(sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut statement = String::new();
    let mut nesting = Nesting::default();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '\'' => quoted_len(rest, '\'', is_escape(&statement)),
            '"' => quoted_len(rest, '"', false),
            '$' => dollar_len(rest, &statement).unwrap_or(1),
            '-' if rest.starts_with("--") => {
                rest = after_line(rest);
                continue;
            }
            '\\' if statement.trim().is_empty() && is_psqls_own(rest) => {
                rest = after_line(rest);
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = &rest[comment_len(rest)..];
                continue;
            }
            ';' if nesting.is_outside() => {
                push(&mut found, &mut statement);
                nesting = Nesting::default();
                rest = &rest[1..];
                continue;
            }
            first if is_word(first) => {
                let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                // A name in a schema is none of the grammar's words.
                if !statement.ends_with('.') {
                    nesting.word(&rest[..len]);
                }
                len
            }
            other => {
                nesting.sign(other);
                other.len_utf8()
            }
        };
        statement.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    push(&mut found, &mut statement);
    found
}

/// How deep in a statement its text is. Inside parentheses, as several actions of a rule are, and between the `BEGIN ATOMIC` and the `END` of a
/// function a semicolon ends no statement. As psql tells it.
#[derive(Default)]
struct Nesting {
    parentheses: u32,
    blocks: u32,
    /// The first words of the statement, in lower case, with a space after each.
    beginning: String,
    words: u32,
}

impl Nesting {
    /// Words that tell a function: `CREATE OR REPLACE FUNCTION`.
    const WORDS_MAX: u32 = 4;

    fn is_outside(&self) -> bool {
        self.parentheses == 0 && self.blocks == 0
    }

    fn sign(&mut self, sign: char) {
        match sign {
            '(' => self.parentheses += 1,
            ')' => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
    }

    fn word(&mut self, word: &str) {
        let word = word.to_ascii_lowercase();
        if self.words < Self::WORDS_MAX {
            self.words += 1;
            self.beginning += &word;
            self.beginning.push(' ');
        }
        if self.parentheses > 0 || !self.is_routine() {
            return;
        }
        match word.as_str() {
            "begin" => self.blocks += 1,
            "case" if self.blocks > 0 => self.blocks += 1,
            "end" => self.blocks = self.blocks.saturating_sub(1),
            _ => {}
        }
    }

    fn is_routine(&self) -> bool {
        let made = self.beginning.strip_prefix("create ").unwrap_or_default();
        let made = made.strip_prefix("or replace ").unwrap_or(made);
        made.starts_with("function ") || made.starts_with("procedure ")
    }
}

fn after_line(text: &str) -> &str {
    &text[text.find('\n').unwrap_or(text.len())..]
}

fn is_psqls_own(line: &str) -> bool {
    line.starts_with("\\restrict ") || line.starts_with("\\unrestrict ")
}

fn push(found: &mut Vec<String>, statement: &mut String) {
    let text = std::mem::take(statement);
    if !text.trim().is_empty() {
        found.push(text.trim().to_owned());
    }
}

/// Whether a string that begins behind `before` is one with backslash escapes: `E'…'`.
fn is_escape(before: &str) -> bool {
    let mut back = before.chars().rev();
    matches!(back.next(), Some('e' | 'E')) && !back.next().is_some_and(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Bytes of a quoted text from its opening to its closing quote; a doubled quote is part of it.
fn quoted_len(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => {
                    chars.next();
                }
                _ => return at + 1,
            }
        }
    }
    text.len()
}

/// Bytes of `$tag$ … $tag$`; `None` if the dollar begins no such text.
fn dollar_len(text: &str, before: &str) -> Option<usize> {
    if before.chars().next_back().is_some_and(is_word) {
        return None;
    }
    let tag_end = 1 + text[1..].find('$')?;
    let tag = &text[..=tag_end];
    let name = &tag[1..tag_end];
    if name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(|c| c.is_alphanumeric() || c == '_')
    {
        return None;
    }
    let body = &text[tag.len()..];
    Some(body.find(tag).map_or(text.len(), |end| 2 * tag.len() + end))
}

/// Bytes of a comment, the comments inside it included.
fn comment_len(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn statements_end_at_semicolons_outside_of_texts() {
        let sql = "\\restrict abc\n-- a comment; here\nSET a = 1;\n\
                   CREATE TABLE \"x;\"\"y\" (a text DEFAULT 'it''s; ok'); /* one /* two; */ ; */\n\
                   CREATE FUNCTION f() AS $body$ SELECT ';'; $$;$$ $body$;\n\
                   SELECT E'\\';' AS name, $1, a$b$c;\n\\unrestrict abc\nSELECT 'ünïcode;' -- end\n";
        assert_eq!(
            statements(sql),
            [
                "SET a = 1",
                "CREATE TABLE \"x;\"\"y\" (a text DEFAULT 'it''s; ok')",
                "CREATE FUNCTION f() AS $body$ SELECT ';'; $$;$$ $body$",
                "SELECT E'\\';' AS name, $1, a$b$c",
                "SELECT 'ünïcode;'",
            ]
            .map(str::to_owned)
        );
    }

    /// A default of two lines, as a form on Windows sends it.
    #[test]
    fn texts_of_several_lines_stay_as_they_are() {
        let whole = [
            "CREATE TABLE t (a text DEFAULT 'a\r\nb')",
            "COMMENT ON TABLE t IS 'as in\n\\restrict abc\n\\unrestrict abc\n'",
            "CREATE VIEW v AS SELECT 'q\r'::text,\n\t$$\r\n\\restrict x\n$$",
        ];
        let sql = whole.join(";\r\n-- a comment\r\n");
        assert_eq!(
            statements(&format!("\\restrict abc\n{sql};\n\\unrestrict abc\n")),
            whole.map(str::to_owned)
        );
    }

    #[test]
    fn semicolons_inside_a_statement_end_none() {
        let whole = [
            "CREATE RULE r AS ON INSERT TO t DO ALSO ( INSERT INTO log VALUES (new.a);\n UPDATE counter SET n = (n + 1);\n)",
            "CREATE FUNCTION public.f(begin integer) RETURNS integer\n    LANGUAGE sql\n    BEGIN ATOMIC\n SELECT 1;\n \
             SELECT CASE WHEN true THEN 1 ELSE 2 END AS \"end\";\nEND",
            "create or replace procedure p() BEGIN ATOMIC DELETE FROM t; END",
            "CREATE TABLE \"create\" (begin integer, b text DEFAULT '(')",
            "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END; $$",
            "CREATE FUNCTION public.begin() RETURNS public.case LANGUAGE sql AS $$ SELECT 1; $$",
            "SELECT begin, ')' FROM f",
        ];
        assert_eq!(statements(&(whole.join(";\n") + ";\n")), whole.map(str::to_owned));
    }

    #[test]
    fn what_is_cut_off_ends_at_the_end() {
        for sql in
            ["SELECT 'a;", "SELECT \"a;", "SELECT $x$ a;", "SELECT 1 /* a;", "SELECT E'\\", "SELECT (1;"]
        {
            assert_eq!(statements(sql).len(), 1, "{sql}");
        }
        assert!(statements(" ;; -- no\n").is_empty());
    }
}
