//! The page: the files of `console/dist`, which the build puts into the program.
//!
//! Files under `assets/` have a name with a hash of what is in them and never change; everything else is asked for anew each time, and
//! answered with 304 while it is the same. What the build compressed is sent so to whoever takes it.

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

struct Asset {
    /// Without the slash it is asked for by.
    path: &'static str,
    plain: Form,
    gzip: Option<Form>,
}

/// An asset in one encoding.
struct Form {
    bytes: &'static [u8],
    /// Of the bytes, in quotes.
    etag: &'static str,
}

/// By path.
static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page itself.
const INDEX: &str = "index.html";
const HASHED: &str = "assets/";

fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok().map(|at| &ASSETS[at])
}

/// The file of an address; the page for one that has no dot in its last part, since the page knows addresses of its own.
fn asset_of(path: &str) -> Option<&'static Asset> {
    let path = path.trim_start_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    if last.contains('.') { find(path) } else { find(INDEX) }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Whether a client takes gzip (RFC 9110, section 12.5.3): it names it, or everything, and not with a weight of zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut any = None;
    for coding in values.flat_map(|value| value.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight =
            weight.trim().strip_prefix(['q', 'Q']).and_then(|weight| weight.trim_start().strip_prefix('='));
        let is_taken =
            weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0));
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") => return is_taken,
            "*" => any = Some(is_taken),
            _ => {}
        }
    }
    any.unwrap_or(false)
}

pub(super) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = asset_of(uri.path()) else {
        return (StatusCode::NOT_FOUND, "no such page\n").into_response();
    };
    let lasts =
        if asset.path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let gzip = asset.gzip.as_ref().filter(|_| takes_gzip(&headers));
    let form = gzip.unwrap_or(&asset.plain);
    let mut fixed = HeaderMap::new();
    fixed.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
    fixed.insert(header::ETAG, HeaderValue::from_static(form.etag));
    if asset.gzip.is_some() {
        fixed.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == form.etag) {
        return (StatusCode::NOT_MODIFIED, fixed).into_response();
    }
    fixed.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(asset.path)));
    if gzip.is_some() {
        fixed.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    (fixed, form.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_there_and_found_by_its_own_addresses() {
        assert!(ASSETS.is_sorted_by(|a, b| a.path < b.path));
        let index = find(INDEX).expect("console/dist has a page");
        assert!(std::str::from_utf8(index.plain.bytes).is_ok_and(|text| text.contains("<!doctype html>")));
        for path in ["/", "/tenants/acme", "/ledger"] {
            assert_eq!(asset_of(path).map(|asset| asset.path), Some(INDEX), "{path}");
        }
        for path in ["/nothing.js", "/../Cargo.toml", "/assets/../index.html"] {
            assert!(asset_of(path).is_none(), "{path}");
        }
        assert!(ASSETS.iter().all(|asset| content_type(asset.path) != "application/octet-stream"));
    }

    /// Of RFC 1952, section 8.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32| (0..8).fold(crc, |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)));
        !bytes.iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ step((crc ^ u32::from(*byte)) & 0xff))
    }

    #[test]
    fn what_never_changes_is_there_compressed_and_is_the_same() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        for asset in ASSETS.iter().filter(|asset| asset.path.starts_with(HASHED)) {
            let path = asset.path;
            let gzip = asset.gzip.as_ref().unwrap_or_else(|| panic!("{path}: run npm run build in console/"));
            let (plain, zipped) = (asset.plain.bytes, gzip.bytes);
            assert!(zipped.len() < plain.len() && zipped.starts_with(&[0x1f, 0x8b, 8]), "{path}");
            // A member ends with the checksum and the length of what is in it.
            let end: [u8; 8] = zipped[zipped.len() - 8..].try_into().unwrap();
            let (crc, len) = (crc32(plain).to_le_bytes(), (plain.len() as u32).to_le_bytes());
            assert_eq!(end, *[crc, len].concat(), "{path}");
            assert_ne!(gzip.etag, asset.plain.etag);
        }
        assert!(ASSETS.iter().filter(|asset| asset.gzip.is_some()).count() >= 2);
    }

    #[test]
    fn gzip_goes_to_whoever_takes_it() {
        let takes = |value: &'static str| {
            takes_gzip(&[(header::ACCEPT_ENCODING, HeaderValue::from_static(value))].into_iter().collect())
        };
        for value in [
            "gzip",
            "gzip, deflate, br, zstd",
            "br, GZIP;q=0.5",
            "*",
            "identity;q=0, *;q=0.1",
            "gzip ; q = 1",
        ] {
            assert!(takes(value), "{value}");
        }
        for value in ["", "br", "gzip;q=0", "gzip;q=0.000, *", "*;q=0", "xgzip", "gzip;q=", "identity"] {
            assert!(!takes(value), "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
