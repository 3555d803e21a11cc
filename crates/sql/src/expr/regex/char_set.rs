//! Sets of characters, as bracket expressions and class escapes name them.

use std::fmt::Write as _;
use std::sync::LazyLock;

/// A named class. Those of letters follow Unicode, digits are ASCII's, as in the C library's `C.UTF-8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Alnum,
    Alpha,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Word,
    Xdigit,
}

impl Class {
    pub(super) fn named(name: &str) -> Option<Class> {
        Some(match name {
            "alnum" => Class::Alnum,
            "alpha" => Class::Alpha,
            "blank" => Class::Blank,
            "cntrl" => Class::Cntrl,
            "digit" => Class::Digit,
            "graph" => Class::Graph,
            "lower" => Class::Lower,
            "print" => Class::Print,
            "punct" => Class::Punct,
            "space" => Class::Space,
            "upper" => Class::Upper,
            "word" => Class::Word,
            "xdigit" => Class::Xdigit,
            _ => return None,
        })
    }

    fn contains(self, c: char) -> bool {
        let joins = matches!(c, '\u{a0}' | '\u{2007}' | '\u{202f}');
        match self {
            Class::Alnum => c.is_alphanumeric(),
            Class::Alpha => c.is_alphabetic(),
            Class::Blank => c == '\t' || c.is_whitespace() && !c.is_control() && !joins && !is_break(c),
            Class::Cntrl => c.is_control() || is_break(c),
            Class::Digit => c.is_ascii_digit(),
            Class::Graph => !c.is_control() && !c.is_whitespace() || joins,
            Class::Lower => c.is_lowercase(),
            Class::Print => !c.is_control() && !is_break(c),
            Class::Punct => Class::Graph.contains(c) && !c.is_alphanumeric(),
            Class::Space => c.is_whitespace() && !joins,
            Class::Upper => c.is_uppercase(),
            Class::Word => is_word(c),
            Class::Xdigit => c.is_ascii_hexdigit(),
        }
    }

    /// The class in the syntax of the crate `regex`, within brackets.
    fn native(self) -> &'static str {
        match self {
            Class::Alnum => r"\p{Alphabetic}\p{N}",
            Class::Alpha => r"\p{Alphabetic}",
            Class::Blank => r"[\t\p{Zs}--[\x{a0}\x{2007}\x{202f}]]",
            Class::Cntrl => r"\p{Cc}\x{2028}\x{2029}",
            Class::Digit => "0-9",
            Class::Graph => r"[^\p{Cc}[\p{White_Space}--[\x{a0}\x{2007}\x{202f}]]]",
            Class::Lower => r"\p{Lowercase}",
            Class::Print => r"[^\p{Cc}\x{2028}\x{2029}]",
            Class::Punct => r"[^\p{Cc}\p{Alphabetic}\p{N}[\p{White_Space}--[\x{a0}\x{2007}\x{202f}]]]",
            Class::Space => r"[\p{White_Space}--[\x{a0}\x{2007}\x{202f}]]",
            Class::Upper => r"\p{Uppercase}",
            Class::Word => r"\p{Alphabetic}\p{N}_",
            Class::Xdigit => "0-9A-Fa-f",
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether `\w` has it, and a word boundary takes it for part of a word.
pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Which characters an atom matches.
#[derive(Clone, Debug, Default)]
pub(super) struct CharSet {
    /// Of ASCII, all told: by ranges and classes, and negated if that is to be.
    ascii: u128,
    /// In order and apart from each other, once the set is finished.
    ranges: Vec<(char, char)>,
    /// Each with whether its complement is meant.
    classes: Vec<(Class, bool)>,
    negated: bool,
}

impl CharSet {
    /// One character, with its other case if case does not matter.
    pub(super) fn one(c: char, fold_case: bool) -> CharSet {
        let mut set = CharSet::default();
        set.add(c, fold_case);
        set.finish(false)
    }

    /// Any character, or any but a line's end.
    pub(super) fn any(stops_at_newline: bool) -> CharSet {
        let mut set = CharSet::default();
        if stops_at_newline {
            set.add('\n', false);
        }
        set.finish(true)
    }

    pub(super) fn class(class: Class, complement: bool) -> CharSet {
        let mut set = CharSet::default();
        set.add_class(class, complement);
        set.finish(false)
    }

    pub(super) fn add(&mut self, c: char, fold_case: bool) {
        self.ranges.push((c, c));
        if fold_case {
            self.ranges.extend(other_case(c).map(|other| (other, other)));
        }
    }

    /// Answers how many characters had another case to be added.
    pub(super) fn add_range(&mut self, from: char, to: char, fold_case: bool) -> usize {
        self.ranges.push((from, to));
        if !fold_case {
            return 0;
        }
        let cased = &CASED[CASED.partition_point(|(c, _)| *c < from)..];
        let cased = &cased[..cased.partition_point(|(c, _)| *c <= to)];
        self.ranges.extend(cased.iter().map(|(_, other)| (*other, *other)));
        cased.len()
    }

    pub(super) fn add_class(&mut self, class: Class, complement: bool) {
        if !self.classes.contains(&(class, complement)) {
            self.classes.push((class, complement));
        }
    }

    /// The set, or its complement. To be called once, when all has been added.
    pub(super) fn finish(mut self, negated: bool) -> CharSet {
        self.negated = negated;
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, last| {
            let touches = next.0 as u32 <= last.1 as u32 + 1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        for byte in 0..128u8 {
            if self.looked_up(char::from(byte)) {
                self.ascii |= 1 << byte;
            }
        }
        self
    }

    fn looked_up(&self, c: char) -> bool {
        let before = self.ranges.partition_point(|(from, _)| *from <= c);
        let found = before > 0 && self.ranges[before - 1].1 >= c
            || self.classes.iter().any(|(class, complement)| class.contains(c) != *complement);
        found != self.negated
    }

    pub(super) fn contains(&self, c: char) -> bool {
        if c.is_ascii() { self.ascii >> (c as u32) & 1 == 1 } else { self.looked_up(c) }
    }

    /// Writes the set in the syntax of the crate `regex`.
    pub(super) fn write_native(&self, out: &mut String) {
        if self.ranges.is_empty() && self.classes.is_empty() {
            out.push_str(if self.negated { r"[\x{0}-\x{10ffff}]" } else { r"[^\x{0}-\x{10ffff}]" });
            return;
        }
        out.push_str(if self.negated { "[^" } else { "[" });
        for (from, to) in &self.ranges {
            let _ = write!(out, r"\x{{{:x}}}-\x{{{:x}}}", *from as u32, *to as u32);
        }
        for (class, complement) in &self.classes {
            if *complement {
                let _ = write!(out, "[^{}]", class.native());
            } else {
                out.push_str(class.native());
            }
        }
        out.push(']');
    }
}

/// The characters that have another case, in order, with that.
static CASED: LazyLock<Vec<(char, char)>> =
    LazyLock::new(|| ('\0'..=char::MAX).filter_map(|c| Some((c, other_case(c)?))).collect());

/// The character in the other case, where that is one character.
fn other_case(c: char) -> Option<char> {
    let other = |case: Option<char>| case.filter(|other| *other != c);
    other(single(c.to_lowercase())).or_else(|| other(single(c.to_uppercase())))
}

fn single(mut cases: impl Iterator<Item = char>) -> Option<char> {
    let first = cases.next()?;
    cases.next().is_none().then_some(first)
}

/// The character that `[.name.]` names, by POSIX.
pub(super) fn collating_element(name: &str) -> Option<char> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Some(c);
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c)
}

const NAMES: &[(&str, char)] = &[
    ("NUL", '\u{0}'),
    ("SOH", '\u{1}'),
    ("STX", '\u{2}'),
    ("ETX", '\u{3}'),
    ("EOT", '\u{4}'),
    ("ENQ", '\u{5}'),
    ("ACK", '\u{6}'),
    ("BEL", '\u{7}'),
    ("alert", '\u{7}'),
    ("BS", '\u{8}'),
    ("backspace", '\u{8}'),
    ("HT", '\u{9}'),
    ("tab", '\u{9}'),
    ("LF", '\u{a}'),
    ("newline", '\u{a}'),
    ("VT", '\u{b}'),
    ("vertical-tab", '\u{b}'),
    ("FF", '\u{c}'),
    ("form-feed", '\u{c}'),
    ("CR", '\u{d}'),
    ("carriage-return", '\u{d}'),
    ("SO", '\u{e}'),
    ("SI", '\u{f}'),
    ("DLE", '\u{10}'),
    ("DC1", '\u{11}'),
    ("DC2", '\u{12}'),
    ("DC3", '\u{13}'),
    ("DC4", '\u{14}'),
    ("NAK", '\u{15}'),
    ("SYN", '\u{16}'),
    ("ETB", '\u{17}'),
    ("CAN", '\u{18}'),
    ("EM", '\u{19}'),
    ("SUB", '\u{1a}'),
    ("ESC", '\u{1b}'),
    ("IS4", '\u{1c}'),
    ("FS", '\u{1c}'),
    ("IS3", '\u{1d}'),
    ("GS", '\u{1d}'),
    ("IS2", '\u{1e}'),
    ("RS", '\u{1e}'),
    ("IS1", '\u{1f}'),
    ("US", '\u{1f}'),
    ("space", ' '),
    ("exclamation-mark", '!'),
    ("quotation-mark", '"'),
    ("number-sign", '#'),
    ("dollar-sign", '$'),
    ("percent-sign", '%'),
    ("ampersand", '&'),
    ("apostrophe", '\''),
    ("left-parenthesis", '('),
    ("right-parenthesis", ')'),
    ("asterisk", '*'),
    ("plus-sign", '+'),
    ("comma", ','),
    ("hyphen", '-'),
    ("hyphen-minus", '-'),
    ("period", '.'),
    ("full-stop", '.'),
    ("slash", '/'),
    ("solidus", '/'),
    ("zero", '0'),
    ("one", '1'),
    ("two", '2'),
    ("three", '3'),
    ("four", '4'),
    ("five", '5'),
    ("six", '6'),
    ("seven", '7'),
    ("eight", '8'),
    ("nine", '9'),
    ("colon", ':'),
    ("semicolon", ';'),
    ("less-than-sign", '<'),
    ("equals-sign", '='),
    ("greater-than-sign", '>'),
    ("question-mark", '?'),
    ("commercial-at", '@'),
    ("left-square-bracket", '['),
    ("backslash", '\\'),
    ("reverse-solidus", '\\'),
    ("right-square-bracket", ']'),
    ("circumflex", '^'),
    ("circumflex-accent", '^'),
    ("underscore", '_'),
    ("low-line", '_'),
    ("grave-accent", '`'),
    ("left-brace", '{'),
    ("left-curly-bracket", '{'),
    ("vertical-line", '|'),
    ("right-brace", '}'),
    ("right-curly-bracket", '}'),
    ("tilde", '~'),
    ("DEL", '\u{7f}'),
];
