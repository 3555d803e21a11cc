//! PostgreSQL's advanced and extended regular expressions, read as its `regcomp.c` and `regc_lex.c` read them.

use std::rc::Rc;

use super::char_set::{CharSet, Class, collating_element};
use super::program::STATES_MAX;
use super::tree::{Assertion, Look, Node, Op, Part, Re, Traits};

/// Most repetitions that a bound may name.
const BOUND_MAX: u32 = 255;

/// Levels that a pattern's parentheses may nest, and pieces that it may be cut into for the sake of its groups.
const NESTING_MAX: usize = 250;
const PIECES_MAX: usize = 1000;

/// Characters of a pattern, comments and all: they are taken apart before it is known how many of them matter.
const CHARS_MAX: usize = 4 << 20;

/// Sets of characters, and ranges and classes within brackets, that a pattern may have: some hundred bytes each, and a set is a state.
const SETS_MAX: usize = STATES_MAX;

/// Characters of brackets that may be looked up in their other case.
const FOLDED_MAX: usize = 1 << 21;

/// Why a pattern is none, in the words of PostgreSQL's `regerrs.h`.
pub(super) type Refusal = &'static str;

const BAD_PATTERN: Refusal = "invalid regexp (reg version 0.8)";
const BAD_COLLATION: Refusal = "invalid collating element";
const BAD_CLASS: Refusal = "invalid character class";
const BAD_ESCAPE: Refusal = "invalid escape \\ sequence";
const BAD_GROUP: Refusal = "invalid backreference number";
const BAD_BRACKET: Refusal = "brackets [] not balanced";
const BAD_PAREN: Refusal = "parentheses () not balanced";
const BAD_BRACE: Refusal = "braces {} not balanced";
const BAD_BOUND: Refusal = "invalid repetition count(s)";
const BAD_RANGE: Refusal = "invalid character range";
const BAD_QUANTIFIER: Refusal = "quantifier operand invalid";
const BAD_OPTION: Refusal = "invalid embedded option";
pub(super) const TOO_COMPLEX: Refusal = "regular expression is too complex";

/// How a pattern is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Options {
    pub(crate) syntax: Syntax,
    pub(crate) fold_case: bool,
    pub(crate) expanded: bool,
    /// `.` and negated brackets match no line's end.
    pub(crate) stops_at_newline: bool,
    /// `^` and `$` match at lines' ends.
    pub(crate) anchors_at_newline: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Syntax {
    Advanced,
    Extended,
    Basic,
    Literal,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            syntax: Syntax::Advanced,
            fold_case: false,
            expanded: false,
            stops_at_newline: false,
            anchors_at_newline: false,
        }
    }
}

impl Options {
    /// Takes in one flag, of a function's argument or within the pattern; false if there is none of that letter.
    pub(crate) fn set(&mut self, flag: char) -> bool {
        match flag {
            'b' => self.syntax = Syntax::Basic,
            'c' => self.fold_case = false,
            'e' => self.syntax = Syntax::Extended,
            'i' => self.fold_case = true,
            'm' | 'n' => (self.stops_at_newline, self.anchors_at_newline) = (true, true),
            'p' => (self.stops_at_newline, self.anchors_at_newline) = (true, false),
            'q' => self.syntax = Syntax::Literal,
            's' => (self.stops_at_newline, self.anchors_at_newline) = (false, false),
            't' => self.expanded = false,
            'w' => (self.stops_at_newline, self.anchors_at_newline) = (false, true),
            'x' => self.expanded = true,
            _ => return false,
        }
        true
    }

    fn literal(self) -> Options {
        Options { syntax: Syntax::Literal, fold_case: self.fold_case, ..Options::default() }
    }
}

/// A pattern as it was read.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) tree: Node,
    pub(super) groups: usize,
    pub(super) fold_case: bool,
}

pub(super) enum Failed {
    Refused(Refusal),
    /// Basic regular expressions, which there are none of here.
    Basic,
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::Refused(refusal)
    }
}

pub(super) fn parse(pattern: &str, options: Options) -> Result<Parsed, Failed> {
    if pattern.len() > CHARS_MAX {
        return Err(TOO_COMPLEX.into());
    }
    let mut parser = Parser {
        chars: pattern.chars().collect(),
        at: 0,
        options,
        groups: 0,
        closed: vec![false],
        nesting: 0,
        pieces: 0,
        sets: 0,
        folded: 0,
    };
    parser.prefixes()?;
    match parser.options.syntax {
        Syntax::Basic => return Err(Failed::Basic),
        Syntax::Literal => {
            let fold_case = parser.options.fold_case;
            parser.count_sets(parser.chars.len())?;
            let rest = parser.chars[parser.at..].iter();
            let sets = Rc::new(rest.map(|c| Re::Set(Rc::new(CharSet::one(*c, fold_case)))).collect());
            return Ok(Parsed { tree: Node::plain(Re::Cat(sets), Traits::default()), groups: 0, fold_case });
        }
        Syntax::Advanced | Syntax::Extended => {}
    }
    let tree = parser.alternatives(Place::Top)?;
    Ok(Parsed { tree, groups: parser.groups, fold_case: parser.options.fold_case })
}

/// Where alternatives stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Group,
    /// Where no parenthesis is a group.
    Look,
}

/// What was read of a branch before a piece that has to be told apart, and that piece.
struct Piece {
    before: Re,
    before_traits: Traits,
    node: Node,
    /// Of the concatenation of `node` and what follows.
    traits: Traits,
}

/// An atom, or a condition on a position, which takes no quantifier.
enum Atom {
    Condition(Re),
    Plain(Re),
    /// In parentheses.
    Inner(Node),
    Group(Node),
    Backref(usize),
}

enum Escape {
    Char(char),
    Class(Class, bool),
    Assert(Assertion),
    Backref(usize),
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    options: Options,
    groups: usize,
    /// Which groups have been read to their end, by their numbers.
    closed: Vec<bool>,
    nesting: usize,
    pieces: usize,
    sets: usize,
    folded: usize,
}

impl Parser {
    fn count_sets(&mut self, more: usize) -> Result<(), Refusal> {
        self.sets += more;
        if self.sets > SETS_MAX { Err(TOO_COMPLEX) } else { Ok(()) }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn is_advanced(&self) -> bool {
        self.options.syntax == Syntax::Advanced
    }

    /// `***:`, `***=` and embedded options.
    fn prefixes(&mut self) -> Result<(), Refusal> {
        if self.options.syntax == Syntax::Literal {
            self.options = self.options.literal();
            return Ok(());
        }
        if self.starts_with("***") && self.chars.len() > 3 {
            match self.chars[3] {
                '?' => return Err(BAD_PATTERN),
                '=' => {
                    self.options = self.options.literal();
                    self.at = 4;
                    return Ok(());
                }
                ':' => {
                    self.options.syntax = Syntax::Advanced;
                    self.at = 4;
                }
                _ => return Err(BAD_QUANTIFIER),
            }
        }
        let letter = |c: Option<char>| c.filter(char::is_ascii_alphabetic);
        if self.is_advanced()
            && self.starts_with("(?")
            && letter(self.chars.get(self.at + 2).copied()).is_some()
        {
            self.at += 2;
            while let Some(flag) = letter(self.peek()) {
                self.at += 1;
                if !self.options.set(flag) {
                    return Err(BAD_OPTION);
                }
            }
            if !self.eat(')') {
                return Err(BAD_OPTION);
            }
            if self.options.syntax == Syntax::Literal {
                self.options = self.options.literal();
            }
        }
        Ok(())
    }

    /// White space and comments of the expanded syntax, and comments in parentheses.
    fn skip(&mut self) {
        loop {
            while self.options.expanded {
                match self.peek() {
                    Some(c) if c.is_whitespace() => self.at += 1,
                    Some('#') => {
                        while self.peek().is_some_and(|c| c != '\n') {
                            self.at += 1;
                        }
                    }
                    _ => break,
                }
            }
            if !(self.is_advanced() && self.starts_with("(?#")) {
                return;
            }
            while self.peek().is_some_and(|c| c != ')') {
                self.at += 1;
            }
            self.eat(')');
        }
    }

    /// Branches with `|` between them, up to the end of `place`.
    fn alternatives(&mut self, place: Place) -> Result<Node, Refusal> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(TOO_COMPLEX);
        }
        let mut branches = vec![self.branch(place)?];
        while self.eat('|') {
            branches.push(self.branch(place)?);
        }
        if place != Place::Top && self.peek() != Some(')') {
            return Err(BAD_PAREN);
        }
        self.nesting -= 1;
        if branches.len() == 1 {
            return Ok(branches.pop().expect("there is one"));
        }
        let traits = branches
            .iter()
            .fold(Traits::LONGER, |traits, branch| traits.with(traits.with(branch.traits).up()));
        let alternatives = branches.iter().map(|branch| branch.part.re.clone()).collect();
        let part = Part::new(Re::Alt(Rc::new(alternatives)));
        let op = if traits.is_messy() { Op::Alt(branches) } else { Op::Plain };
        Ok(Node { op, traits, groups: Vec::new(), part })
    }

    fn branch(&mut self, place: Place) -> Result<Node, Refusal> {
        let mut pieces = Vec::new();
        // What has been read since the last piece.
        let (mut rest, mut rest_traits, mut any) = (Re::Empty, Traits::default(), false);
        loop {
            self.skip();
            match self.peek() {
                None | Some('|') => break,
                Some(')') if place != Place::Top => break,
                Some(_) => {}
            }
            any = true;
            let atom = match self.atom(place)? {
                Atom::Condition(re) => {
                    rest = rest.then(re);
                    continue;
                }
                atom => atom,
            };
            let (least, most, preference) = self.quantifier()?;
            if most == Some(0) {
                continue;
            }
            let own = match &atom {
                Atom::Inner(node) | Atom::Group(node) => node.traits,
                _ => Traits::default(),
            };
            let traits = rest_traits.with(preference).with(own);
            match atom {
                Atom::Plain(re) if !traits.up().is_messy() => {
                    rest = rest.then(re.repeat(least, most));
                    rest_traits = traits;
                }
                Atom::Inner(node) if !traits.up().is_messy() => {
                    rest = rest.then(node.part.re.repeat(least, most));
                    rest_traits = traits;
                }
                atom => {
                    self.pieces += 1;
                    if self.pieces > PIECES_MAX {
                        return Err(TOO_COMPLEX);
                    }
                    let atom = match atom {
                        Atom::Inner(node) | Atom::Group(node) => node,
                        Atom::Backref(group) => Node {
                            op: Op::Backref { group, least, most },
                            traits: Traits::BACKREF.with(preference),
                            groups: Vec::new(),
                            part: Part::new(Re::Anything),
                        },
                        Atom::Plain(re) | Atom::Condition(re) => Node::plain(re, Traits::default()),
                    };
                    let traits = preference.combine(atom.traits);
                    let node = quantified(atom, least, most, preference);
                    let before = std::mem::replace(&mut rest, Re::Empty);
                    pieces.push(Piece { before, before_traits: rest_traits, node, traits });
                    (rest_traits, any) = (Traits::default(), false);
                }
            }
        }
        let mut tail = (any || pieces.is_empty()).then(|| Node::plain(rest, rest_traits));
        for piece in pieces.into_iter().rev() {
            tail = Some(joined(piece, tail));
        }
        Ok(tail.expect("a piece, or what stands for no piece"))
    }

    fn atom(&mut self, place: Place) -> Result<Atom, Refusal> {
        let fold_case = self.options.fold_case;
        let set = |set: CharSet| Ok(Atom::Plain(Re::Set(Rc::new(set))));
        let condition = |assertion| Ok(Atom::Condition(Re::Assert(assertion)));
        let lines = self.options.anchors_at_newline;
        self.count_sets(1)?;
        let c = self.peek().expect("the caller saw one");
        self.at += 1;
        match c {
            '^' => condition(if lines { Assertion::LineStart } else { Assertion::TextStart }),
            '$' => condition(if lines { Assertion::LineEnd } else { Assertion::TextEnd }),
            '*' | '+' | '?' => Err(BAD_QUANTIFIER),
            '{' => {
                if self.options.expanded {
                    self.skip();
                }
                if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    return Err(BAD_QUANTIFIER);
                }
                set(CharSet::one('{', false))
            }
            ')' if self.is_advanced() => Err(BAD_PAREN),
            '.' => set(CharSet::any(self.options.stops_at_newline)),
            '[' => {
                for (boundary, assertion) in
                    [("[:<:]]", Assertion::WordStart), ("[:>:]]", Assertion::WordEnd)]
                {
                    if self.starts_with(boundary) {
                        self.at += boundary.len();
                        return condition(assertion);
                    }
                }
                set(self.bracket()?)
            }
            '(' => self.parenthesis(place),
            '\\' => {
                let Some(next) = self.peek() else { return Err(BAD_ESCAPE) };
                if !self.is_advanced() {
                    self.at += 1;
                    return set(CharSet::one(next, fold_case));
                }
                match self.escape()? {
                    Escape::Char(c) => set(CharSet::one(c, fold_case)),
                    Escape::Class(class, complement) => set(CharSet::class(class, complement)),
                    Escape::Assert(assertion) => condition(assertion),
                    Escape::Backref(group) => {
                        if place == Place::Look || !self.closed.get(group).copied().unwrap_or(false) {
                            return Err(BAD_GROUP);
                        }
                        Ok(Atom::Backref(group))
                    }
                }
            }
            c => set(CharSet::one(c, fold_case)),
        }
    }

    fn parenthesis(&mut self, place: Place) -> Result<Atom, Refusal> {
        let mut capturing = place != Place::Look;
        if self.is_advanced() && self.eat('?') {
            let c = self.chars.get(self.at).copied();
            self.at += 1;
            match c {
                Some(':') => capturing = false,
                Some('=') => return self.look(false, false),
                Some('!') => return self.look(false, true),
                Some('<') if self.eat('=') => return self.look(true, false),
                Some('<') if self.eat('!') => return self.look(true, true),
                _ => return Err(BAD_QUANTIFIER),
            }
        }
        let inner = if place == Place::Top { Place::Group } else { place };
        if !capturing {
            let node = self.alternatives(inner)?;
            self.eat(')');
            return Ok(Atom::Inner(node));
        }
        self.groups += 1;
        let group = self.groups;
        self.closed.push(false);
        let mut node = self.alternatives(inner)?;
        self.eat(')');
        self.closed[group] = true;
        node.groups.push(group);
        node.traits = node.traits.with(Traits::GROUP);
        Ok(Atom::Group(node))
    }

    fn look(&mut self, behind: bool, negated: bool) -> Result<Atom, Refusal> {
        let node = self.alternatives(Place::Look)?;
        self.eat(')');
        let re = if behind { node.part.re.reversed() } else { node.part.re };
        Ok(Atom::Condition(Re::Look(Rc::new(Look { behind, negated, part: Part::new(re) }))))
    }

    /// Least and most repetitions, and which is better.
    fn quantifier(&mut self) -> Result<(u32, Option<u32>, Traits), Refusal> {
        self.skip();
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let brace = self.at;
                self.at += 1;
                if self.options.expanded {
                    self.skip();
                }
                if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at = brace;
                    return Ok((1, Some(1), Traits::default()));
                }
                return self.bound();
            }
            _ => return Ok((1, Some(1), Traits::default())),
        };
        self.at += 1;
        Ok((least, most, self.greediness()))
    }

    fn greediness(&mut self) -> Traits {
        if self.is_advanced() && self.eat('?') { Traits::SHORTER } else { Traits::LONGER }
    }

    /// What follows the brace of `{m}`, `{m,}` or `{m,n}`.
    fn bound(&mut self) -> Result<(u32, Option<u32>, Traits), Refusal> {
        let least = self.number()?;
        let (most, exact) = if self.eat(',') {
            self.bound_skip();
            (if self.peek().is_some_and(|c| c.is_ascii_digit()) { Some(self.number()?) } else { None }, false)
        } else {
            (Some(least), true)
        };
        if most.is_some_and(|most| most < least) {
            return Err(BAD_BOUND);
        }
        match self.peek() {
            Some('}') => self.at += 1,
            None => return Err(BAD_BRACE),
            Some(_) => return Err(BAD_BOUND),
        }
        let preference = self.greediness();
        Ok((least, most, if exact { Traits::default() } else { preference }))
    }

    fn bound_skip(&mut self) {
        if self.options.expanded {
            self.skip();
        }
    }

    fn number(&mut self) -> Result<u32, Refusal> {
        let mut number = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            self.at += 1;
            number = number * 10 + digit;
            if number > BOUND_MAX {
                return Err(BAD_BOUND);
            }
            self.bound_skip();
        }
        Ok(number)
    }

    /// What follows a bracket, up to the one that closes it.
    fn bracket(&mut self) -> Result<CharSet, Refusal> {
        let fold_case = self.options.fold_case;
        let negated = self.eat('^');
        let mut set = CharSet::default();
        let mut first = true;
        loop {
            self.count_sets(1)?;
            let Some(c) = self.peek() else { return Err(BAD_BRACKET) };
            self.at += 1;
            let start = match c {
                ']' if !first => break,
                '-' if !first && self.peek() != Some(']') => return Err(BAD_RANGE),
                '[' if self.peek().is_none() => return Err(BAD_BRACKET),
                '[' if self.eat('.') => self.collating('.')?,
                '[' if self.eat('=') => {
                    let c = self.collating('=')?;
                    set.add(c, fold_case);
                    first = false;
                    continue;
                }
                '[' if self.eat(':') => {
                    let class = Class::named(&self.name(':', BAD_CLASS)?).ok_or(BAD_CLASS)?;
                    set.add_class(folded(class, fold_case), false);
                    first = false;
                    continue;
                }
                '\\' if self.is_advanced() => {
                    if self.peek().is_none() {
                        return Err(BAD_ESCAPE);
                    }
                    match self.escape()? {
                        Escape::Char(c) => c,
                        Escape::Class(class, complement) => {
                            set.add_class(class, complement);
                            first = false;
                            continue;
                        }
                        _ => return Err(BAD_ESCAPE),
                    }
                }
                c => c,
            };
            first = false;
            if !(self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']')) {
                set.add(start, fold_case);
                continue;
            }
            self.at += 1;
            let Some(c) = self.peek() else { return Err(BAD_BRACKET) };
            self.at += 1;
            let end = match c {
                '[' if self.peek().is_none() => return Err(BAD_BRACKET),
                '[' if self.eat('.') => self.collating('.')?,
                '[' if matches!(self.peek(), Some('=' | ':')) => return Err(BAD_RANGE),
                '\\' if self.is_advanced() => match self.peek().map(|_| self.escape()) {
                    Some(Ok(Escape::Char(c))) => c,
                    Some(Ok(Escape::Class(..))) => return Err(BAD_RANGE),
                    _ => return Err(BAD_ESCAPE),
                },
                c => c,
            };
            if end < start {
                return Err(BAD_RANGE);
            }
            self.folded += set.add_range(start, end, fold_case);
            if self.folded > FOLDED_MAX {
                return Err(TOO_COMPLEX);
            }
        }
        if negated && self.options.stops_at_newline {
            set.add('\n', false);
        }
        Ok(set.finish(negated))
    }

    /// The name up to `mark` and a bracket.
    fn name(&mut self, mark: char, empty: Refusal) -> Result<String, Refusal> {
        let start = self.at;
        loop {
            let Some(c) = self.peek() else { return Err(BAD_BRACKET) };
            if c == mark && self.chars.get(self.at + 1) == Some(&']') {
                break;
            }
            self.at += 1;
        }
        let name: String = self.chars[start..self.at].iter().collect();
        self.at += 2;
        if name.is_empty() { Err(empty) } else { Ok(name) }
    }

    fn collating(&mut self, mark: char) -> Result<char, Refusal> {
        collating_element(&self.name(mark, BAD_COLLATION)?).ok_or(BAD_COLLATION)
    }

    /// What follows a backslash, of which there is something.
    fn escape(&mut self) -> Result<Escape, Refusal> {
        let c = self.peek().ok_or(BAD_ESCAPE)?;
        self.at += 1;
        Ok(match c {
            'a' => Escape::Char('\u{7}'),
            'A' => Escape::Assert(Assertion::TextStart),
            'b' => Escape::Char('\u{8}'),
            'B' => Escape::Char('\\'),
            'c' => {
                let of = self.peek().ok_or(BAD_ESCAPE)?;
                self.at += 1;
                Escape::Char(char::from_u32(of as u32 & 31).ok_or(BAD_ESCAPE)?)
            }
            'd' => Escape::Class(Class::Digit, false),
            'D' => Escape::Class(Class::Digit, true),
            'e' => Escape::Char('\u{1b}'),
            'f' => Escape::Char('\u{c}'),
            'm' => Escape::Assert(Assertion::WordStart),
            'M' => Escape::Assert(Assertion::WordEnd),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            's' => Escape::Class(Class::Space, false),
            'S' => Escape::Class(Class::Space, true),
            't' => Escape::Char('\t'),
            'u' => self.code(16, 4, 4)?,
            'U' => self.code(16, 8, 8)?,
            'v' => Escape::Char('\u{b}'),
            'w' => Escape::Class(Class::Word, false),
            'W' => Escape::Class(Class::Word, true),
            'x' => self.code(16, 1, 255)?,
            'y' => Escape::Assert(Assertion::WordBoundary),
            'Y' => Escape::Assert(Assertion::NotWordBoundary),
            'Z' => Escape::Assert(Assertion::TextEnd),
            '1'..='9' => {
                let after_first = self.at;
                self.at -= 1;
                let number = self.digits(10, 1, 255)?;
                if self.at == after_first || number > 0 && number as usize <= self.groups {
                    return Ok(Escape::Backref(number as usize));
                }
                // Too large for a group: the number of a character.
                self.at = after_first - 1;
                self.octal()?
            }
            '0' => {
                self.at -= 1;
                self.octal()?
            }
            c if c.is_ascii_alphanumeric() => return Err(BAD_ESCAPE),
            c => Escape::Char(c),
        })
    }

    fn octal(&mut self) -> Result<Escape, Refusal> {
        let mut number = self.digits(8, 1, 3)?;
        if number > 0xff {
            self.at -= 1;
            number >>= 3;
        }
        Ok(Escape::Char(char::from_u32(number).ok_or(BAD_ESCAPE)?))
    }

    fn code(&mut self, base: u32, least: usize, most: usize) -> Result<Escape, Refusal> {
        let number = self.digits(base, least, most)?;
        Ok(Escape::Char(char::from_u32(number).ok_or(BAD_ESCAPE)?))
    }

    fn digits(&mut self, base: u32, least: usize, most: usize) -> Result<u32, Refusal> {
        let (mut number, mut count) = (0u32, 0);
        while count < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(base))
        {
            number = number.wrapping_mul(base).wrapping_add(digit);
            self.at += 1;
            count += 1;
        }
        if count < least { Err(BAD_ESCAPE) } else { Ok(number) }
    }
}

/// Without case there are neither upper nor lower letters.
fn folded(class: Class, fold_case: bool) -> Class {
    match class {
        Class::Lower | Class::Upper if fold_case => Class::Alpha,
        class => class,
    }
}

/// `atom` so many times, where it matters what it matches.
fn quantified(atom: Node, least: u32, most: Option<u32>, preference: Traits) -> Node {
    let within = atom.traits.preference();
    let none = Traits::default();
    if matches!(atom.op, Op::Backref { .. }) && atom.groups.is_empty() {
        return atom;
    }
    if (least, most) == (1, Some(1))
        && (preference == none
            || within == none && !atom.traits.is_mixed()
            || preference == within && !atom.traits.is_mixed())
    {
        return atom;
    }
    let traits = preference.combine(atom.traits);
    if !atom.traits.has(Traits::GROUP) && !atom.traits.has(Traits::BACKREF) {
        return Node::plain(atom.part.re.repeat(least, most), traits);
    }
    if least > 0 && !atom.traits.has(Traits::BACKREF) {
        // Only what the last round matches is asked for.
        let before = atom.part.re.clone().repeat(least - 1, most.map(|most| most - 1));
        return Node::cat(vec![Node::plain(before, traits.preference()), atom], traits);
    }
    let re = atom.part.re.clone();
    Node {
        part: Part::new(re.clone().repeat(least, most)),
        op: Op::Repeat { of: Box::new(atom), least, most, unlimited: Part::new(re.repeat(0, None)) },
        traits,
        groups: Vec::new(),
    }
}

/// A piece of a branch with what goes before and what follows it.
fn joined(piece: Piece, tail: Option<Node>) -> Node {
    let Piece { before, before_traits, node, traits } = piece;
    let vacuous = matches!(before, Re::Empty);
    let prefix = Node::plain(before, before_traits);
    let Some(tail) = tail else {
        if vacuous {
            return node;
        }
        let traits = before_traits.with(before_traits.combine(node.traits));
        return Node::cat(vec![prefix, node], traits);
    };
    let traits = traits.with(traits.combine(tail.traits));
    let whole = before_traits.with(before_traits.combine(traits));
    let both_plain = matches!(node.op, Op::Plain) && matches!(tail.op, Op::Plain);
    if !vacuous && both_plain && !node.traits.with(tail.traits).up().is_messy() {
        let traits = node.traits.combine(tail.traits);
        let rest = Node::plain(node.part.re.then(tail.part.re), traits);
        return Node::cat(vec![prefix, rest], whole);
    }
    let mut nodes = if vacuous { vec![node] } else { vec![prefix, node] };
    match tail {
        Node { op: Op::Cat(more), groups, .. } if groups.is_empty() => nodes.extend(more),
        tail => nodes.push(tail),
    }
    Node::cat(nodes, whole)
}
