//! The page: the files of `console/dist`, which the build puts into the program.
//!
//! Files under `assets/` have a name with a hash of what is in them and never change; everything else is asked for anew each time, and
//! answered with 304 while it is the same.

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

struct Asset {
    /// Without the slash it is asked for by.
    path: &'static str,
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

pub(super) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = asset_of(uri.path()) else {
        return (StatusCode::NOT_FOUND, "no such page\n").into_response();
    };
    let lasts =
        if asset.path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let fixed = [
        (header::CACHE_CONTROL, HeaderValue::from_static(lasts)),
        (header::ETAG, HeaderValue::from_static(asset.etag)),
    ];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == asset.etag) {
        return (StatusCode::NOT_MODIFIED, fixed).into_response();
    }
    let kind = HeaderValue::from_static(content_type(asset.path));
    (fixed, [(header::CONTENT_TYPE, kind)], asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_there_and_found_by_its_own_addresses() {
        assert!(ASSETS.is_sorted_by(|a, b| a.path < b.path));
        let index = find(INDEX).expect("console/dist has a page");
        assert!(std::str::from_utf8(index.bytes).is_ok_and(|text| text.contains("<!doctype html>")));
        for path in ["/", "/tenants/acme", "/ledger"] {
            assert_eq!(asset_of(path).map(|asset| asset.path), Some(INDEX), "{path}");
        }
        for path in ["/nothing.js", "/../Cargo.toml", "/assets/../index.html"] {
            assert!(asset_of(path).is_none(), "{path}");
        }
        assert!(ASSETS.iter().all(|asset| content_type(asset.path) != "application/octet-stream"));
    }
}
