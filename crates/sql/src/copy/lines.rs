//! Cuts text and CSV input into lines, as PostgreSQL does: the first end of a line says what all of them are, since a carriage return that ends a line
//! in one file is data in another. A line of CSV goes on within quotes, one of text behind a backslash.

use super::csv::CsvMarks;

/// How far the beginning of a line was looked through: a long one comes in many pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Scanned {
    /// Bytes from its first one on.
    at: usize,
    /// Whether that is within quotes.
    quoted: bool,
}

/// What the input begins with.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// A line of so many bytes without its end, and where the next one begins.
    Whole { len: usize, next: usize },
    /// So many bytes, and then the end marker: nothing behind it is data.
    Last { len: usize },
    /// More is needed to tell.
    Part,
}

/// What ends a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Newline,
    Return,
    Both,
}

/// Why the input cannot be cut on, as PostgreSQL says it, and its hint.
pub(super) type Broken = (&'static str, Option<&'static str>);

/// The end marker has another end than the lines before it.
const OTHER_END: Broken = ("end-of-copy marker does not match previous newline style", None);
const CORRUPT_MARKER: Broken = ("end-of-copy marker corrupt", None);

#[derive(Debug)]
pub(super) struct Lines {
    /// Of CSV; `None` for text.
    marks: Option<CsvMarks>,
    /// What ends the lines, once one has ended.
    end: Option<End>,
    /// Of the line that is to come next.
    scanned: Scanned,
}

impl Lines {
    pub(super) fn new(marks: Option<CsvMarks>) -> Lines {
        Lines { marks, end: None, scanned: Scanned::default() }
    }

    /// The line that `data` begin with. After [`Line::Part`] the same bytes are given again, and more. `is_all`: nothing comes behind them, so that
    /// they are a line, whole or not.
    pub(super) fn next(&mut self, data: &[u8], is_all: bool) -> Result<Line, Broken> {
        let Scanned { mut at, mut quoted } = std::mem::take(&mut self.scanned);
        while at < data.len() {
            let Some(length) = data[at..].iter().position(|byte| self.is_special(*byte)) else {
                at = data.len();
                break;
            };
            // A period makes a marker of a backslash, in CSV only at the beginning of a line.
            let looks_for_marker = at + length == 0 || self.marks.is_none();
            at += length;
            let (byte, next) = (data[at], data.get(at + 1).copied());
            let mut is_part = next.is_none() && !is_all && byte == b'\\' && looks_for_marker;
            if byte == b'\\' && looks_for_marker && next == Some(b'.') {
                match self.is_marker(&data[at + 2..], is_all)? {
                    Some(true) => return Ok(Line::Last { len: at }),
                    Some(false) => {}
                    None => is_part = true,
                }
            }
            if !quoted && byte == b'\r' {
                match self.return_before(next, is_all)? {
                    Some(End::Both) => return Ok(Line::Whole { len: at, next: at + 2 }),
                    Some(_) => return Ok(Line::Whole { len: at, next: at + 1 }),
                    None => is_part = true,
                }
            }
            if is_part {
                self.scanned = Scanned { at, quoted };
                return Ok(Line::Part);
            }
            match self.marks {
                _ if !quoted && byte == b'\n' => {
                    self.settle(End::Newline)?;
                    return Ok(Line::Whole { len: at, next: at + 1 });
                }
                // What stands behind a backslash is data, whatever it is.
                None if byte == b'\\' => at += 1,
                Some(marks) if quoted && byte == marks.escape && marks.escape != marks.quote => at += 1,
                Some(marks) if byte == marks.quote => quoted = !quoted,
                _ => {}
            }
            at += 1;
        }
        if is_all && !data.is_empty() {
            return Ok(Line::Whole { len: data.len(), next: data.len() });
        }
        // It may be behind the end: what was escaped is still to come.
        self.scanned = Scanned { at, quoted };
        Ok(Line::Part)
    }

    fn is_special(&self, byte: u8) -> bool {
        matches!(byte, b'\n' | b'\r' | b'\\')
            || self.marks.is_some_and(|marks| byte == marks.quote || byte == marks.escape)
    }

    /// A carriage return is the end of a line: alone, or with the newline behind it. `None`: what is behind it is not known yet.
    fn return_before(&mut self, next: Option<u8>, is_all: bool) -> Result<Option<End>, Broken> {
        let may_be_both = matches!(self.end, None | Some(End::Both));
        if may_be_both && next.is_none() && !is_all {
            return Ok(None);
        }
        let end = if may_be_both && next == Some(b'\n') { End::Both } else { End::Return };
        self.settle(end).map(|()| Some(end))
    }

    /// Errors: lines before this one ended otherwise.
    fn settle(&mut self, end: End) -> Result<(), Broken> {
        if *self.end.get_or_insert(end) == end {
            return Ok(());
        }
        Err(match (end, self.marks.is_some()) {
            (End::Newline, false) => {
                ("literal newline found in data", Some("Use \"\\n\" to represent newline."))
            }
            (End::Newline, true) => {
                ("unquoted newline found in data", Some("Use quoted CSV field to represent newline."))
            }
            (_, false) => {
                let hint = "Use \"\\r\" to represent carriage return.";
                ("literal carriage return found in data", Some(hint))
            }
            (_, true) => {
                let hint = "Use quoted CSV field to represent carriage return.";
                ("unquoted carriage return found in data", Some(hint))
            }
        })
    }

    /// Whether a backslash and a period are the end marker, before `rest`. `None`: more is needed to tell.
    fn is_marker(&self, rest: &[u8], is_all: bool) -> Result<Option<bool>, Broken> {
        let at = usize::from(self.end == Some(End::Both));
        let missing = |at: usize| rest.len() <= at && !is_all;
        // In CSV it is a value like any other where no line ends behind it.
        let no_marker = |why: Broken| if self.marks.is_some() { Ok(Some(false)) } else { Err(why) };
        if at == 1 {
            match rest.first() {
                Some(b'\r') => {}
                Some(b'\n') => return no_marker(OTHER_END),
                _ if missing(0) => return Ok(None),
                _ => return no_marker(CORRUPT_MARKER),
            }
        }
        match (rest.get(at), self.end) {
            (Some(b'\n'), None | Some(End::Newline | End::Both)) => Ok(Some(true)),
            (Some(b'\r'), None | Some(End::Return)) => Ok(Some(true)),
            (Some(b'\n' | b'\r'), _) => Err(OTHER_END),
            _ if missing(at) => Ok(None),
            _ => no_marker(CORRUPT_MARKER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: CsvMarks = CsvMarks { delimiter: b',', quote: b'"', escape: b'"' };

    /// The lines of an input that comes in pieces of so many bytes, or what PostgreSQL 15 says of it.
    fn cut(marks: Option<CsvMarks>, input: &str, piece_len: usize) -> Result<Vec<String>, &'static str> {
        let (mut lines, mut cut, mut begin) = (Lines::new(marks), Vec::new(), 0);
        let ends = (piece_len..input.len()).step_by(piece_len).map(|end| (end, false));
        for (end, is_all) in ends.chain([(input.len(), true)]) {
            loop {
                let (len, next) =
                    match lines.next(&input.as_bytes()[begin..end], is_all).map_err(|broken| broken.0)? {
                        Line::Part => break,
                        Line::Whole { len, next } => (len, next),
                        Line::Last { len } => {
                            cut.extend((len > 0).then(|| input[begin..begin + len].to_owned()));
                            return Ok(cut);
                        }
                    };
                cut.push(input[begin..begin + len].to_owned());
                begin += next;
            }
        }
        assert_eq!(begin, input.len());
        Ok(cut)
    }

    fn check(marks: Option<CsvMarks>, input: &str, expected: Result<&[&str], &'static str>) {
        for piece_len in 1..=input.len() {
            let cut = cut(marks, input, piece_len);
            let cut = cut.as_ref().map(|cut| cut.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(cut, expected.as_ref().map(|lines| lines.to_vec()), "{input:?} by {piece_len}");
        }
    }

    #[test]
    fn the_first_end_of_a_line_says_what_all_are() {
        let newline = Err("literal newline found in data");
        let carriage_return = Err("literal carriage return found in data");
        for (input, expected) in [
            ("one\ntwo", Ok(&["one", "two"][..])),
            ("one\r\ntwo\r\n", Ok(&["one", "two"])),
            ("one\r\ntwo", Ok(&["one", "two"])),
            ("one\rtwo\r\rthree", Ok(&["one", "two", "", "three"])),
            ("one\r", Ok(&["one"])),
            ("\n\n", Ok(&["", ""])),
            ("one\r\ntwo\n", newline),
            ("one\rtwo\n", newline),
            ("one\r\ntwo\r", carriage_return),
            ("one\r\ntwo\rthree\r\n", carriage_return),
            ("one\ntwo\r\n", carriage_return),
        ] {
            check(None, input, expected);
        }
        for (input, expected) in [
            ("\"a\rb\nc\"\nd\n", Ok(&["\"a\rb\nc\"", "d"][..])),
            ("\"a\nb", Ok(&["\"a\nb"])),
            ("a\r\nb\n", Err("unquoted newline found in data")),
            ("a\nb\rc\n", Err("unquoted carriage return found in data")),
        ] {
            check(Some(CSV), input, expected);
        }
        let escaped = Some(CsvMarks { escape: b'\\', ..CSV });
        check(escaped, "\"a\\\"\nb\\\\\"\n\\\"c\n\"\n", Ok(&["\"a\\\"\nb\\\\\"", "\\\"c\n\""]));
    }

    #[test]
    fn a_line_of_text_goes_on_behind_a_backslash() {
        for (input, expected) in [
            ("a\\\nb\nc\n", Ok(&["a\\\nb", "c"][..])),
            ("a\\\\\nb\n", Ok(&["a\\\\", "b"])),
            ("a\\\r\nb\n", Ok(&["a\\\r", "b"])),
            ("a\\\n", Ok(&["a\\\n"])),
            ("a\\", Ok(&["a\\"])),
        ] {
            check(None, input, expected);
        }
    }

    #[test]
    fn the_end_marker_ends_the_data_where_it_ends_a_line() {
        let (corrupt, other) = (Err(CORRUPT_MARKER.0), Err(OTHER_END.0));
        for (input, expected) in [
            ("one\n\\.\ntwo\n", Ok(&["one"][..])),
            ("one\nt\\.\ntwo\n", Ok(&["one", "t"])),
            ("\\.\r\n", Ok(&[])),
            ("one\r\n\\.\r\ntwo", Ok(&["one"])),
            ("one\r\\.\r", Ok(&["one"])),
            ("x\\.y\nz\n", corrupt),
            ("one\n\\.", corrupt),
            ("one\r\n\\.\r", corrupt),
            ("one\n\\.\r\n", other),
            ("one\r\n\\.\n", other),
            ("one\r\\.\n", other),
        ] {
            check(None, input, expected);
        }
        for (input, expected) in [
            ("one\n\\.\ntwo\n", Ok(&["one"][..])),
            ("one\nt\\.\n\\.x\n\\.", Ok(&["one", "t\\.", "\\.x", "\\."])),
            ("\"one\n\\.\n\"\n", Ok(&["\"one\n\\.\n\""])),
            ("one\r\n\\.\n", Err("unquoted newline found in data")),
            ("one\n\\.\r\n", other),
        ] {
            check(Some(CSV), input, expected);
        }
    }
}
