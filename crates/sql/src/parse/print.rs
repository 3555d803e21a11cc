//! The text of what was read, such that it is read again as the same, here and by PostgreSQL.
//!
//! `sqlparser` leaves a quote alone that stands beside another or behind a backslash, as if it had been doubled already, and so lets
//! a literal or a name end early. Literals become texts that are printed as they stand, by [`spell_out_value`]; names are
//! quoted anew while they are printed, by [`text_of`].

use std::fmt::{self, Display, Write};

use sqlparser::ast::{Value, ValueWithSpan};

use super::respell;

/// Writes a string literal as it is read again, whatever is in it. It is good for being printed then, and for nothing else.
pub(crate) fn spell_out_value(value: &mut ValueWithSpan) {
    let (prefix, text) = match &value.value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text) => ("", text),
        Value::HexStringLiteral(text) => ("X", text),
        Value::SingleQuotedByteStringLiteral(text) => ("B", text),
        _ => return,
    };
    value.value = Value::Placeholder(format!("{prefix}'{}'", text.replace('\'', "''")));
}

/// The text of what is in its last form.
pub(crate) fn text_of(node: &impl Display) -> String {
    let mut printer = Printer::default();
    write!(printer, "{node}").expect("a string takes everything");
    for at in printer.locks.into_iter().rev() {
        respell::spell_out_lock(&mut printer.text, at);
    }
    printer.text
}

/// Takes what `sqlparser` prints. Of a quoted name it writes each quote around it as one character, and what is between in
/// pieces: a new one begins with the quote that ended the last, which doubles it.
#[derive(Default)]
struct Printer {
    text: String,
    /// The name within quotes that is being written.
    name: Option<String>,
    /// Where names stand that may be the marks of locks.
    locks: Vec<usize>,
}

impl Write for Printer {
    fn write_char(&mut self, c: char) -> fmt::Result {
        match (self.name.take(), c) {
            (None, '"' | '\'' | '`') => self.name = Some(String::new()),
            (None, c) => self.text.push(c),
            (Some(name), '"' | '\'' | '`') => {
                if respell::is_lock_mark(&name) {
                    self.locks.push(self.text.len());
                }
                self.text.push('"');
                self.text.push_str(&name.replace('"', "\"\""));
                self.text.push('"');
            }
            (Some(name), c) => self.name = Some(name + c.encode_utf8(&mut [0; 4])),
        }
        Ok(())
    }

    fn write_str(&mut self, text: &str) -> fmt::Result {
        match &mut self.name {
            None => self.text.push_str(text),
            Some(name) if name.is_empty() => name.push_str(text),
            Some(name) => name.extend(text.chars().skip(1)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Ident;

    use super::*;

    #[test]
    fn a_name_is_quoted_as_it_is_read_again() {
        for (name, text) in [
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("\"", "\"\"\"\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\"\"b", "\"a\"\"\"\"b\""),
            ("\"\"\"", "\"\"\"\"\"\"\"\""),
            ("x\\", "\"x\\\""),
            ("x\\\"; --\"\\\"", "\"x\\\"\"; --\"\"\\\"\"\""),
        ] {
            assert_eq!(text_of(&Ident::with_quote('"', name)), text);
            assert_eq!(text_of(&Ident::with_quote('\'', name.replace('\'', ""))), text);
        }
    }
}
