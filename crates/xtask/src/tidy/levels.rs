//! A crate depends only on crates of lower levels, and only the crates named here may name certain libraries.

use std::path::Path;

/// The house, as `docs/architecture.md` draws it. Crates of one level do not know each other; `analytic` stands half a level
/// above `sql`, whose seam it implements.
const LEVELS: &[(&str, u32)] = &[
    ("base", 0),
    ("types", 10),
    ("env", 10),
    ("governor", 10),
    ("pgproto", 10),
    ("storage", 20),
    ("btree", 30),
    ("tenant", 40),
    ("sql", 50),
    ("analytic", 55),
    ("server", 60),
    ("workloads", 70),
    ("lab", 80),
    ("scenarios", 80),
    ("rowhouse", 90),
    ("sim", 100),
    ("xtask", 100),
];

/// Libraries that only some crates may name, and why.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("datafusion", &["analytic"], "only `analytic` names DataFusion"),
    ("sqlparser", &["sql", "analytic"], "only the SQL crates know SQL text"),
    ("libc", &["env"], "only `env` makes system calls"),
    ("io-uring", &["env"], "only `env` makes system calls"),
    ("polling", &["env"], "only `env` makes system calls"),
    ("rand", &["env", "workloads", "sim"], "randomness comes from `env`"),
];

pub(super) fn check(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    let crates = std::fs::read_dir(root.join("crates")).expect("the crates' folder can be read");
    for entry in crates {
        let folder = entry.expect("an entry of the crates' folder can be read").path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(text) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        seen.push(name.clone());
        match level(&name) {
            None => findings.push(format!(
                "crates/{name}: has no level; add it to docs/architecture.md and the tidy check"
            )),
            Some(level) => findings.extend(check_dependencies(&name, level, &manifest)),
        }
    }
    let missing = LEVELS.iter().filter(|(name, _)| !seen.iter().any(|s| s == name));
    findings.extend(missing.map(|(name, _)| format!("crates/{name}: has a level and does not exist")));
    findings
}

fn level(name: &str) -> Option<u32> {
    LEVELS.iter().find(|(n, _)| *n == name).map(|(_, level)| *level)
}

fn check_dependencies(name: &str, own: u32, manifest: &toml::Table) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(dependencies) = manifest.get("dependencies").and_then(|d| d.as_table()) else { return findings };
    for dependency in dependencies.keys() {
        if let Some(other) = level(dependency)
            && other >= own
        {
            findings.push(format!("crates/{name}: depends on `{dependency}`, which is not of a lower level"));
        }
        for (library, allowed, why) in RESERVED {
            if dependency == library && !allowed.contains(&name) {
                findings.push(format!("crates/{name}: depends on `{library}`: {why}"));
            }
        }
    }
    // What the pure crates must not have within reach at all.
    if matches!(name, "governor" | "pgproto" | "types" | "base") && dependencies.contains_key("env") {
        findings.push(format!("crates/{name}: is pure and must not reach `env`"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, dependencies: &str) -> Vec<String> {
        let manifest = format!("[dependencies]\n{dependencies}").parse().unwrap();
        check_dependencies(name, level(name).unwrap(), &manifest)
    }

    #[test]
    fn a_crate_that_reaches_upwards_is_found() {
        assert_eq!(findings("storage", "btree.workspace = true").len(), 1);
        assert!(findings("btree", "storage.workspace = true").is_empty());
        assert_eq!(findings("sql", "datafusion.workspace = true").len(), 1);
        assert_eq!(findings("governor", "env.workspace = true").len(), 2);
    }
}
