//! Rules for the text of a source file.

/// The longest file; what outgrows one sitting is split by mechanism.
const FILE_LINES_MAX: usize = 900;

pub(super) fn check(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(format!("has {lines} lines, more than {FILE_LINES_MAX}; split it by mechanism"));
    }
    if !text.starts_with("//!") {
        findings.push("begins without a `//!` header that says what it is for".into());
    }
    let krate = name.split('/').nth(1).unwrap_or_default();
    if krate != "xtask" {
        for leftover in ["FIXME", "XXX", "TODO", "unimplemented!(", "todo!(", "dbg!("] {
            if text.contains(leftover) {
                findings.push(format!("has a leftover `{leftover}`"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_breach() {
        assert!(check("crates/base/src/a.rs", "//! A.\n").is_empty());
        assert_eq!(check("crates/base/src/a.rs", "fn a() {}\n").len(), 1);
        assert_eq!(check("crates/base/src/a.rs", &format!("//! A.\n{}", "\n".repeat(1000))).len(), 1);
        assert_eq!(check("crates/base/src/a.rs", "//! A.\n// TODO\n").len(), 1);
    }
}
