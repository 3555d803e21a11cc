//! The house rules that a compiler does not check: crate levels, invariants of absence, headers, sizes, leftovers.

mod levels;
mod source;

use std::path::{Path, PathBuf};

/// Every breach of a rule, one line each, with the file it stands in.
pub fn check(root: &Path) -> Vec<String> {
    let mut findings = levels::check(root);
    for file in rust_files(&root.join("crates")) {
        let text = std::fs::read_to_string(&file).expect("a source file can be read");
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        findings.extend(source::check(&name, &text).into_iter().map(|finding| format!("{name}: {finding}")));
    }
    findings.sort();
    findings
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
