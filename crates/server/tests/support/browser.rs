//! A client of the console: HTTP/1.1 in bytes, a cookie and a token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;

use super::{ADMIN_PASSWORD, TestServer, tcp, trusting};

trait Bytes: Read + Write + Send {}
impl<T: Read + Write + Send> Bytes for T {}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The code of a refusal.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().expect("a code").to_owned()
    }
}

/// One user's browser, or none's.
#[derive(Clone)]
pub struct Browser {
    address: SocketAddr,
    host: String,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub cookie: Option<String>,
    pub csrf: Option<String>,
}

impl Browser {
    pub fn new(server: &TestServer) -> Browser {
        let address = server.running().admin_address().expect("the server serves HTTP");
        Browser {
            address,
            host: format!("localhost:{}", address.port()),
            tls: None,
            cookie: None,
            csrf: None,
        }
    }

    /// The administrator's.
    pub fn admin(server: &TestServer) -> Browser {
        let mut browser = Browser::new(server);
        assert_eq!(browser.login("admin", ADMIN_PASSWORD).status, 200);
        browser
    }

    pub fn login(&mut self, user: &str, password: &str) -> Response {
        let body = serde_json::json!({ "user": user, "password": password }).to_string();
        let answer =
            self.send("POST", "/api/login", &[("content-type", "application/json")], body.as_bytes());
        if answer.status == 200 {
            let cookie = answer.header("set-cookie").expect("a cookie");
            self.cookie = Some(cookie.split(';').next().expect("a pair").to_owned());
            self.csrf = answer.json()["csrf"].as_str().map(str::to_owned);
        }
        answer
    }

    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], b"")
    }

    /// What a path answers that must.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// A change, with the session's token.
    pub fn change(&self, method: &str, path: &str, body: &Value) -> Response {
        let mut headers = vec![("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
        headers.extend(self.csrf.as_deref().map(|csrf| ("x-csrf-token", csrf)));
        self.send(method, path, &headers, body.to_string().as_bytes())
    }

    /// A request as it is said to be. A header given takes the place of the one of its name.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut stream = self.begin(method, path, headers, body);
        let (status, headers) = head(&mut stream);
        let mut bytes = Vec::new();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        if is_chunked {
            while let Some(chunk) = chunk(&mut stream) {
                bytes.extend(chunk);
            }
        } else if method != "HEAD" && status != 304 && status != 204 {
            let len = headers.iter().find(|(name, _)| name == "content-length");
            bytes = vec![0; len.map_or(0, |(_, len)| len.parse().expect("a length"))];
            stream.read_exact(&mut bytes).expect("the whole body");
        }
        Response { status, headers, body: bytes }
    }

    /// Sends a request and gives what is answered, from its first byte.
    fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<Box<dyn Read + Send>> {
        let mut all = vec![("host", self.host.as_str()), ("connection", "close")];
        all.extend(self.cookie.as_deref().map(|cookie| ("cookie", cookie)));
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers);
        let len = body.len().to_string();
        if !body.is_empty() {
            all.push(("content-length", &len));
        }
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in all {
            request += &format!("{name}: {value}\r\n");
        }
        let mut bytes = (request + "\r\n").into_bytes();
        bytes.extend_from_slice(body);
        let mut stream: Box<dyn Bytes> = match &self.tls {
            None => Box::new(tcp(self.address)),
            Some(config) => Box::new(trusting::over(config, tcp(self.address))),
        };
        // A server that refuses early may hang up before it read everything.
        let _ = stream.write_all(&bytes);
        let _ = stream.flush();
        BufReader::new(Box::new(stream))
    }

    /// Opens a stream of server-sent events.
    pub fn events(&self, path: &str) -> Events {
        self.try_events(path).unwrap_or_else(|status| panic!("{path}: {status}"))
    }

    /// As [`Browser::events`]; the status where it is refused.
    pub fn try_events(&self, path: &str) -> Result<Events, u16> {
        let mut stream = self.begin("GET", path, &[], b"");
        let (status, headers) = head(&mut stream);
        if status != 200 {
            return Err(status);
        }
        assert!(headers.iter().any(|(name, value)| name == "content-type" && value == "text/event-stream"));
        Ok(Events { stream, rest: String::new() })
    }
}

fn line(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

fn head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let first = line(stream);
    let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {first:?}"));
    let mut headers = Vec::new();
    loop {
        let line = line(stream);
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    (status.parse().expect("a number"), headers)
}

/// The next piece of a chunked body; `None` at its end.
fn chunk(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let len = usize::from_str_radix(&line(stream), 16).ok()?;
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).expect("the whole chunk");
    line(stream);
    (len > 0).then_some(bytes)
}

/// A stream of events.
pub struct Events {
    stream: BufReader<Box<dyn Read + Send>>,
    rest: String,
}

impl Events {
    /// The next event and its data; `None` at the end of the stream. Waits as long as the client's timeout.
    pub fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                // A heartbeat is a comment.
                let Some(name) = field("event:") else { continue };
                let data = field("data:").expect("every event has data");
                return Some((name.to_owned(), serde_json::from_str(data).expect("JSON")));
            }
            let chunk = chunk(&mut self.stream)?;
            self.rest += std::str::from_utf8(&chunk).expect("text");
        }
    }

    /// The next event of this name that is as wanted, within so many events of any name.
    pub fn wait_for(&mut self, name: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..100 {
            let (event, data) = self.next().expect("the stream goes on");
            if event == name && is_wanted(&data) {
                return data;
            }
        }
        panic!("no {name} as wanted");
    }
}
