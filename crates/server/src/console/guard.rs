//! What every request goes through before it is answered, and what every answer carries.
//!
//! * Plain HTTP: the console's password and cookie do not cross a network in the clear. Where the server has a certificate, whoever is not
//!   on this machine is sent to HTTPS, by way of a proxy too; `/healthz` and `/metrics` are answered either way.
//! * `Host`: a server that listens on this machine alone is called by a name of this machine. A page elsewhere whose name was made to lead
//!   here (DNS rebinding) is told no.
//! * Requests that change something come from a page of this server: `Sec-Fetch-Site` says so or, from clients that do not send it,
//!   `Origin` where there is one; and they bring the session's token in `X-CSRF-Token`, which no other page can read.
//! * The session: everything under `/api/` but `POST /api/login` and the API's description.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base::SqlState;

use super::Console;
use super::answer::{Answer, Refusal};
use super::client::Client;
use super::logins::{Login, Role};
use crate::admin::Peer;

/// The beginning of the session's cookie's name.
pub(super) const COOKIE: &str = "rowhouse_session";
const CSRF: &str = "x-csrf-token";
/// Said by a page that nobody is at: what it asks for does not keep its session open. Who does not say so is there.
const UNATTENDED: &str = "x-unattended";
/// What anybody may ask for, and by which method.
const OPEN: [(Method, &str); 2] = [(Method::POST, "/api/login"), (Method::GET, "/api")];
/// Changes nothing but the session that asks for it, so that a viewer may.
const LOGOUT: &str = "/api/logout";

/// Nothing of another host is loaded and nothing that stands in the page itself is run; nobody shows the page within theirs.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// For all routes: where from, and what answers carry. The request carries the [`Client`] on.
pub(super) async fn guard(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = Client::of(&peer, request.headers(), &console.proxies);
    let _answering = peer.answering();
    request.extensions_mut().insert(client);
    let is_api = is_api(request.uri().path());
    let mut response = match admit(&console, &client, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    if is_api {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

fn admit(console: &Console, client: &Client, request: &Request) -> Answer<()> {
    if console.is_local_only && !is_called_locally(request.headers()) {
        let message = "this server listens on its own machine and was called by another name";
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_hint(
                "Use localhost, 127.0.0.1 or [::1]; behind a proxy, have it pass one of them as Host.",
            ));
    }
    if console.has_tls && !client.is_encrypted && !client.is_local() {
        return Err(Refusal::new(
            StatusCode::UPGRADE_REQUIRED,
            SqlState::INSUFFICIENT_PRIVILEGE,
            "use HTTPS",
        ));
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && !is_same_site(request.headers()) {
        return Err(Refusal::forbidden("the request was made by a page of another site"));
    }
    Ok(())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn is_called_locally(headers: &HeaderMap) -> bool {
    let Some(host) = text(headers, "host").and_then(|host| host.parse::<Authority>().ok()) else {
        return false;
    };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a request comes from a page of this server, or from no page at all.
fn is_same_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        // A browser's own word; a proxy may have given us another Host.
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let of_origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    matches!((of_origin, text(headers, "host")), (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host))
}

/// For routes under `/api`: the session, and what it may do. The request carries the [`Login`] on.
pub(super) async fn authorize(
    State(console): State<Arc<Console>>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    if !OPEN.iter().any(|(one, open)| one == method && *open == path) {
        match may(&console, &request) {
            Ok(login) => {
                request.extensions_mut().insert(login);
            }
            Err(refused) => return refused.into_response(),
        }
    }
    next.run(request).await
}

pub(super) fn is_attended(headers: &HeaderMap) -> bool {
    !headers.contains_key(UNATTENDED)
}

fn may(console: &Console, request: &Request) -> Answer<Login> {
    let login = console.login_of(request.headers()).ok_or_else(|| {
        let (status, state) = (StatusCode::UNAUTHORIZED, SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        Refusal::new(status, state, "log in first, or again")
    })?;
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(login);
    }
    let token = text(request.headers(), CSRF).unwrap_or_default();
    if !same(token.as_bytes(), login.csrf.as_bytes()) {
        return Err(Refusal::forbidden("the header X-CSRF-Token has not the session's token"));
    }
    if login.account.role != Role::Administrator && request.uri().path() != LOGOUT {
        return Err(Refusal::forbidden(format!(
            "\"{}\" sees everything and changes nothing",
            login.account.user
        )));
    }
    Ok(login)
}

/// Compares without telling by its time where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// What the session's cookie is called: by the port that the browser asked for. To a browser all ports of a machine are one, and a server
/// must not take the cookie of another beside it.
pub(super) fn cookie_name(headers: &HeaderMap) -> String {
    let host = text(headers, "host").and_then(|host| host.parse::<Authority>().ok());
    match host.and_then(|host| host.port_u16()) {
        Some(port) => format!("{COOKIE}_{port}"),
        None => COOKIE.to_owned(),
    }
}

/// The secret of the session that the browser is in.
pub(super) fn secret(headers: &HeaderMap) -> Option<&str> {
    let wanted = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_name_of_another_machine_is_not_ours() {
        let local = ["localhost", "LOCALHOST:8433", "127.0.0.1:1", "127.9.9.9", "[::1]:8433", "[::1]"];
        for host in local {
            assert!(is_called_locally(&headers(&[("host", host)])), "{host}");
        }
        let others =
            ["evil.example", "evil.example:8433", "localhost.evil.example", "10.0.0.1", "[::2]", "", "a b"];
        for host in others {
            assert!(!is_called_locally(&headers(&[("host", host)])), "{host}");
        }
        assert!(!is_called_locally(&HeaderMap::new()));
    }

    #[test]
    fn other_sites_are_told_from_ours() {
        let check = |pairs: &[(&'static str, &'static str)]| is_same_site(&headers(pairs));
        assert!(check(&[("host", "h:1")]), "no page at all");
        assert!(check(&[("host", "h:1"), ("origin", "http://h:1")]));
        assert!(check(&[("host", "h:1"), ("origin", "https://H:1")]));
        for origin in ["http://h", "http://h:2", "http://h:1.evil", "null", "h:1", "http://evil/h:1"] {
            assert!(!check(&[("host", "h:1"), ("origin", origin)]), "{origin}");
        }
        assert!(!check(&[("origin", "http://h:1")]), "no host to hold it against");
        for (site, expected) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            assert_eq!(check(&[("host", "h"), ("sec-fetch-site", site), ("origin", "http://h")]), expected);
        }
        assert!(check(&[
            ("host", "127.0.0.1"),
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://name")
        ]));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        assert_eq!(secret(&headers(&[("cookie", "a=b; rowhouse_session=abc; c")])), Some("abc"));
        assert_eq!(secret(&headers(&[("cookie", "xrowhouse_session=abc")])), None);
        let of_two = "rowhouse_session_1=one; rowhouse_session_2=two; rowhouse_session=none";
        for (host, expected) in
            [("localhost:1", "one"), ("127.0.0.1:2", "two"), ("[::1]:2", "two"), ("localhost", "none")]
        {
            assert_eq!(secret(&headers(&[("host", host), ("cookie", of_two)])), Some(expected), "{host}");
        }
        assert_eq!(secret(&headers(&[("host", "localhost:3"), ("cookie", of_two)])), None);
        assert_eq!(secret(&HeaderMap::new()), None);
        assert!(same(b"ab", b"ab") && !same(b"ab", b"ac") && !same(b"ab", b"abc") && !same(b"", b"a"));
    }
}
