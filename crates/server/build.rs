//! Lists the files of the console's page, `console/dist`, for `src/console/assets.rs` to embed: each with its gzip form, the file beside it with `.gz`
//! behind its name, where it has one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says")).join("../../console/dist");
    let root = root.canonicalize().expect("console/dist is committed");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    gather(&root, &root, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for (name, path) in files.iter().filter(|(name, _)| !name.ends_with(GZIP)) {
        let plain = form(path);
        let gzip = files.iter().find(|(other, _)| other.strip_suffix(GZIP) == Some(name));
        let gzip = gzip.map_or("None".to_owned(), |(_, path)| format!("Some({})", form(path)));
        writeln!(list, "Asset {{ path: {name:?}, plain: {plain}, gzip: {gzip} }},").expect("a string");
    }
    list.push(']');
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says"));
    fs::write(out.join("assets.rs"), list).expect("the build's directory can be written");
}

/// What a compressed file is called beyond the name of the one it is made of.
const GZIP: &str = ".gz";

/// A file as it is embedded.
fn form(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    let bytes = fs::read(path).expect("a built asset can be read");
    let etag = format!("\"{:016x}\"", fnv(&bytes));
    format!("Form {{ bytes: include_bytes!({path:?}), etag: {etag:?} }}")
}

fn gather(root: &Path, dir: &Path, files: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(dir).expect("a folder of built assets can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            gather(root, &path, files);
        } else {
            let name =
                path.strip_prefix(root).expect("found below it").to_str().expect("assets' names are UTF-8");
            files.push((name.to_owned(), path));
        }
    }
}

/// FNV-1a: tells one build's file from another's, no more.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
