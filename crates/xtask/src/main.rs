//! `cargo run -p xtask -- tidy`: the house rules, also run as a test.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    if task.as_deref() != Some("tidy") {
        eprintln!("usage: cargo run -p xtask -- tidy    check the source against the house rules");
        return ExitCode::from(2);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let findings = xtask::tidy::check(&root);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
