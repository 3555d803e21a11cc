//! Slow, many and patient clients, of a server whose patience is short.

use std::time::Instant;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use super::*;

const LONG: Nanos = Nanos::from_secs(600);
const SHORT: Nanos = Nanos(200_000_000);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// Longer than [`SHORT`].
async fn work() -> &'static str {
    sleep(Nanos(5 * SHORT.0)).await;
    "done"
}

async fn told(ConnectInfo(peer): ConnectInfo<Peer>) -> &'static str {
    let _answering = peer.answering();
    work().await
}

/// Serves on a port of its own, `/` at once, `/told` and `/untold` after some work.
async fn serve(patience: Patience, proxies: &[&str]) -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let proxies = proxies.iter().map(|proxy| proxy.parse().unwrap()).collect();
    let mut listener = AdminListener::new(tcp, None, proxies, Env::real());
    listener.patience = patience;
    let routes = Router::new().route("/", get("here")).route("/told", get(told)).route("/untold", get(work));
    let service = routes.into_make_service_with_connect_info::<Peer>();
    tokio::spawn(async { axum::serve(listener, service).await });
    address
}

async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

/// What is answered to a request, to the end of the connection; empty if nothing is.
async fn ask(mut client: TcpStream, request: &[u8]) -> String {
    let mut answer = Vec::new();
    // One that is hung up on may see a reset.
    let _ = client.write_all(request).await;
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_question_has_to_come_to_its_end() {
    let address = serve(Patience { silence: LONG, question: SHORT }, &[]).await;
    let mut slow = connect("127.0.0.1", address).await;
    let begun = Instant::now();
    let mut answer = [0; 64];
    let ended = loop {
        // Never silent, and never done.
        let _ = slow.write_all(if begun.elapsed().is_zero() { b"GET / HTTP/1.1\r\nx: " } else { b"y" }).await;
        match tokio::time::timeout(Duration::from_millis(20), slow.read(&mut answer)).await {
            Ok(Ok(0) | Err(_)) => break begun.elapsed(),
            Ok(Ok(_)) => panic!("it is answered"),
            Err(_) => assert!(begun.elapsed() < Duration::from_secs(30), "it is waited for"),
        }
    };
    assert!(ended >= Duration::from_nanos(SHORT.0), "{ended:?}");
    // One who says nothing yet is waited for, and so is one whose questions are answered.
    let quiet = connect("127.0.0.1", address).await;
    tokio::time::sleep(Duration::from_nanos(2 * SHORT.0)).await;
    assert!(ask(quiet, REQUEST).await.ends_with("here"));
}

#[tokio::test]
async fn an_answer_takes_the_time_that_it_takes() {
    let address = serve(Patience { silence: SHORT, question: SHORT }, &[]).await;
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let client = || connect("127.0.0.1", address);
    assert!(ask(client().await, request("/told").as_bytes()).await.ends_with("done"));
    assert_eq!(ask(client().await, request("/untold").as_bytes()).await, "", "silence is no answer");
}

#[tokio::test]
async fn one_address_leaves_places_to_others() {
    let address = serve(Patience { silence: LONG, question: LONG }, &["127.0.0.3"]).await;
    let mut many = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut one = connect("127.0.0.2", address).await;
        let _ = one.write_all(&REQUEST[..20]).await;
        many.push(one);
    }
    assert!(ask(connect("127.0.0.1", address).await, REQUEST).await.ends_with("here"));
    assert_eq!(ask(connect("127.0.0.2", address).await, REQUEST).await, "", "it has its part");
    // A proxy that was named has what is left.
    let of_proxy = connect("127.0.0.3", address);
    assert!(ask(of_proxy.await, REQUEST).await.ends_with("here"));
    drop(many);
    let begun = Instant::now();
    while ask(connect("127.0.0.2", address).await, REQUEST).await.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "places are not given back");
    }
}
