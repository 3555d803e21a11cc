//! The house rules hold for the whole source.

use std::path::Path;

#[test]
fn the_house_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let findings = xtask::tidy::check(&root);
    assert!(findings.is_empty(), "house rules broken:\n{}", findings.join("\n"));
}
