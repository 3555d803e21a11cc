//! The house rules that a compiler does not check: crate levels, invariants of absence, headers, sizes, leftovers.

mod levels;
mod paths;
mod source;
mod tokens;
mod world;

use std::path::{Path, PathBuf};

/// Every breach of a rule, one line each, with the file it stands in.
pub fn check(root: &Path) -> Vec<String> {
    let mut findings = levels::check(root);
    let files: Vec<(PathBuf, String)> = rust_files(&root.join("crates"))
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("a source file can be read");
            (file, text)
        })
        .collect();
    let tests: Vec<PathBuf> = files.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
    let mut exceptions_used = Vec::new();
    for (file, text) in &files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let mut of_file = source::check(&name, text);
        if !is_test_or_tool(&name) && !tests.iter().any(|test| file.starts_with(test)) {
            let (found, used) = world::check(&name, text);
            of_file.extend(found);
            exceptions_used.extend(used);
        }
        findings.extend(of_file.into_iter().map(|finding| format!("{name}: {finding}")));
    }
    findings.extend(world::unused(&exceptions_used));
    findings.sort();
    findings
}

/// Test binaries, measurements and build scripts run where no server does.
fn is_test_or_tool(name: &str) -> bool {
    let inside = name.splitn(3, '/').nth(2).unwrap_or_default();
    ["tests/", "benches/", "fuzz/"].iter().any(|folder| inside.starts_with(folder)) || inside == "build.rs"
}

/// Files and folders of the modules that a file declares for its tests alone.
fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match file.file_name().and_then(|name| name.to_str()) {
        Some("mod.rs" | "lib.rs" | "main.rs") => file.parent().expect("a file is in a folder").to_owned(),
        _ => file.with_extension(""),
    };
    let modules = paths::test_modules(text);
    modules.iter().flat_map(|module| [folder.join(format!("{module}.rs")), folder.join(module)]).collect()
}

/// All `.rs` files below `folder`, build output left out.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a source folder can be read") {
            let path = entry.expect("an entry of a source folder can be read").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_for_tests_is_a_file_beside_or_below_its_parent() {
        let declared = "#[cfg(test)]\nmod move_tests;";
        for (parent, folder) in
            [("a/src/mod.rs", "a/src"), ("a/src/b.rs", "a/src/b"), ("a/src/lib.rs", "a/src")]
        {
            let folder = Path::new(folder);
            let expected = [folder.join("move_tests.rs"), folder.join("move_tests")];
            assert_eq!(test_modules(Path::new(parent), declared), expected);
        }
        assert!(is_test_or_tool("crates/sql/tests/golden.rs") && is_test_or_tool("crates/server/build.rs"));
        assert!(!is_test_or_tool("crates/sql/src/tests/a.rs") && !is_test_or_tool("crates/tests/src/a.rs"));
    }
}
