//! Rules for the text of a source file.

/// The longest file; what outgrows one sitting is split by mechanism.
const FILE_LINES_MAX: usize = 900;

/// What stands for the world outside, and which crates may reach for it themselves.
const WORLD: &[(&str, &str)] = &[
    ("std::time::Instant", "env::Clock::now"),
    ("std::time::SystemTime", "env::Clock::unix_micros"),
    ("std::thread::spawn", "env::Threads::spawn"),
    ("std::fs::", "env::Disk"),
    ("std::net::Tcp", "env::Network"),
    ("rand::rng(", "env::Entropy"),
    ("rand::thread_rng", "env::Entropy"),
];

/// Crates whose business is the world outside: the one that wraps it, and those that measure a server from without.
const WORLDLY: &[&str] = &["env", "workloads", "lab", "rowhouse", "xtask"];

pub(super) fn check(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(format!("has {lines} lines, more than {FILE_LINES_MAX}; split it by mechanism"));
    }
    if !text.starts_with("//!") {
        findings.push("begins without a `//!` header that says what it is for".into());
    }
    let is_test = name.contains("/tests/") || name.ends_with("/tests.rs") || name.contains("/benches/");
    let krate = name.split('/').nth(1).unwrap_or_default();
    let is_build_script = name.ends_with("/build.rs");
    if !is_test && !is_build_script && !WORLDLY.contains(&krate) {
        // A test module at the end of a file may use what tests use.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
        for (forbidden, instead) in WORLD {
            if code.contains(forbidden) {
                findings.push(format!("uses `{forbidden}`; use {instead}"));
            }
        }
    }
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
        assert_eq!(check("crates/base/src/a.rs", "//! A.\nuse std::time::Instant;\n").len(), 1);
        assert!(check("crates/env/src/a.rs", "//! A.\nuse std::time::Instant;\n").is_empty());
        assert_eq!(check("crates/base/src/a.rs", &format!("//! A.\n{}", "\n".repeat(1000))).len(), 1);
        assert_eq!(check("crates/base/src/a.rs", "//! A.\n// TODO\n").len(), 1);
    }
}
