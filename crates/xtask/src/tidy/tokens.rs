//! Source text as tokens, as much of Rust as it takes to see which paths it names. Comments and lifetimes are dropped, literals
//! are one token each, so that what is only written about is not taken for what is done.

/// A piece of source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An identifier, a keyword or a number.
    Word(&'a str),
    /// A string or a character.
    Literal,
    /// `::`
    Colons,
    /// Any other character.
    Mark(char),
}

/// The tokens of a source file.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, len) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (None, block_comment(rest))
        } else if let Some(len) = string(rest) {
            (Some(Token::Literal), len)
        } else if first == '\'' {
            quote(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let word = word(rest);
            // `r#type` is the word `type`.
            match rest.strip_prefix("r#") {
                Some(raw) if word == "r" && !self::word(raw).is_empty() => {
                    let raw = self::word(raw);
                    (Some(Token::Word(raw)), 2 + raw.len())
                }
                _ => (Some(Token::Word(word)), word.len()),
            }
        } else if rest.starts_with("::") {
            (Some(Token::Colons), 2)
        } else {
            (Some(Token::Mark(first)), first.len_utf8())
        };
        all.extend(token);
        rest = &rest[len..];
    }
    all
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Bytes of the block comment that `text` begins with; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Bytes of the string that `text` begins with, if it does: any of `"`, `b"`, `c"`, `r"`, `br#"` and the like.
fn string(text: &str) -> Option<usize> {
    let kind = text.trim_start_matches(['b', 'c', 'r']);
    let (prefix, kind_len) = (&text[..text.len() - kind.len()], text.len() - kind.len());
    if !matches!(prefix, "" | "b" | "c" | "r" | "br" | "cr") {
        return None;
    }
    if !prefix.ends_with('r') {
        let body = kind.strip_prefix('"')?;
        let mut is_escaped = false;
        let end = body.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        return Some(end.map_or(text.len(), |end| kind_len + 1 + end + 1));
    }
    let hashes = kind.len() - kind.trim_start_matches('#').len();
    let body = kind[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&close).map_or(text.len(), |end| kind_len + hashes + 1 + end + close.len()))
}

/// What an apostrophe begins: a character, or a lifetime, which is dropped.
fn quote(text: &str) -> (Option<Token<'_>>, usize) {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            let end = text[after..].find('\'').map_or(text.len(), |end| after + end + 1);
            (Some(Token::Literal), end)
        }
        (_, Some((at, '\''))) => (Some(Token::Literal), at + 1),
        _ => (None, 1 + word(&text[1..]).len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let all = tokens(text);
        all.iter()
            .map(|token| match token {
                Token::Word(word) => (*word).to_owned(),
                Token::Literal => "LITERAL".into(),
                Token::Colons => "::".into(),
                Token::Mark(mark) => mark.to_string(),
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn what_is_not_code_is_dropped() {
        for (text, expected) in [
            ("a::b // c::d\n e", "a :: b e"),
            ("a /* b /* c */ d */ e", "a e"),
            ("/// [`std::fs`]\nfn x() {}", "fn x ( ) { }"),
            (r#"f("a \" // b", 1)"#, "f ( LITERAL , 1 )"),
            (r##"f(r#"a " b"#, b"c", br"d\")"##, "f ( LITERAL , LITERAL , LITERAL )"),
            (r"match c { '\'' => 1, '\\' => 2, '/' => 3, 'é' => 4 }", {
                "match c { LITERAL = > 1 , LITERAL = > 2 , LITERAL = > 3 , LITERAL = > 4 }"
            }),
            ("fn f<'a>(x: &'a str, y: &'static u8) -> Self<'_>", {
                "fn f < > ( x : & str , y : & u8 ) - > Self < >"
            }),
            ("r#type::r#fn", "type :: fn"),
            ("b'x' br crate", "b LITERAL br crate"),
            (r"'\u{1f600}' x", "LITERAL x"),
            ("\"no end", "LITERAL"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
