//! The rows of `pg_get_keywords`: drivers look there for what to quote, so the unreserved keywords, which nobody need quote, are left out.

use types::{Datum, KeywordKind, keywords};

use super::{Rows, letter, text};

pub(super) fn fill(out: &mut Rows<'_>) {
    for (word, kind, is_bare_label) in keywords() {
        let (code, meaning) = match kind {
            KeywordKind::NoFunctionOrType => (b'C', "unreserved (cannot be function or type name)"),
            KeywordKind::FunctionOrType => (b'T', "reserved (can be function or type name)"),
            KeywordKind::Reserved => (b'R', "reserved"),
        };
        out.add(vec![
            ("word", text(word)),
            ("catcode", letter(code)),
            ("barelabel", Datum::Bool(is_bare_label)),
            ("catdesc", text(meaning)),
            ("baredesc", text(if is_bare_label { "can be bare label" } else { "requires AS" })),
        ]);
    }
}
