//! A pattern in the syntax of the crate `regex`.

use regex::{Regex, RegexBuilder};

use super::tree::{Assertion, Re};

/// Most bytes of the crate's automaton; a larger pattern goes without.
const NATIVE_BYTES_MAX: usize = 4 << 20;

/// Most bytes of a pattern as the crate reads it.
const SOURCE_BYTES_MAX: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Native {
    pub(super) regex: Regex,
    /// Whether it matches just what the pattern does, and not more.
    pub(super) exact: bool,
}

impl Native {
    /// `None` where the crate does not take it.
    pub(super) fn of(re: &Re) -> Option<Native> {
        let mut writer = Writer { out: String::new(), exact: true };
        writer.write(re);
        if writer.out.len() > SOURCE_BYTES_MAX {
            return None;
        }
        let regex =
            RegexBuilder::new(&writer.out).size_limit(NATIVE_BYTES_MAX).nest_limit(1000).build().ok()?;
        Some(Native { regex, exact: writer.exact })
    }
}

struct Writer {
    out: String,
    exact: bool,
}

impl Writer {
    fn write(&mut self, re: &Re) {
        if self.out.len() > SOURCE_BYTES_MAX {
            return;
        }
        match re {
            Re::Empty => self.out.push_str("(?:)"),
            Re::Set(set) => set.write_native(&mut self.out),
            Re::Cat(parts) => parts.iter().for_each(|part| self.write(part)),
            Re::Alt(parts) => {
                self.out.push_str("(?:");
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        self.out.push('|');
                    }
                    self.write(part);
                }
                self.out.push(')');
            }
            Re::Repeat { of, least, most } => {
                self.out.push_str("(?:");
                self.write(of);
                let most = most.map(|most| most.to_string()).unwrap_or_default();
                self.out.push_str(&format!("){{{least},{most}}}"));
            }
            Re::Assert(assertion) => match assertion {
                Assertion::TextStart => self.out.push_str(r"\A"),
                Assertion::TextEnd => self.out.push_str(r"\z"),
                Assertion::LineStart => self.out.push_str("(?m:^)"),
                Assertion::LineEnd => self.out.push_str("(?m:$)"),
                Assertion::WordStart
                | Assertion::WordEnd
                | Assertion::WordBoundary
                | Assertion::NotWordBoundary => self.exact = false,
            },
            Re::Look(_) => self.exact = false,
            Re::Anything => {
                self.exact = false;
                self.out.push_str("(?s:.*)");
            }
        }
    }
}
