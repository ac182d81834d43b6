//! Connections that are not HTTP/2: how they end, and TLS.

use crate::edge;
use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use crate::edge::{
    serve,
    service::{FINE, HELD},
    until,
};
use crate::http::{Connection, GET_USER, JSON, request};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const BOUND: Duration = Duration::from_secs(10);

#[tokio::test]
async fn stop_closes_idle_connections_first() {
    let node = serve(|_| {}).await;
    let mut idle = Connection::open(node.address).await;
    assert_eq!(idle.json(GET_USER, &json!({"userId": FINE})).await.code, 200);
    let mut held = Connection::open(node.address).await;
    held.write(request("POST", GET_USER, &[JSON], json!({"userId": HELD}).to_string().as_bytes())).await;
    until("the call is with its handler", || node.seen.calls() == 2).await;

    let connections = node.connections.clone();
    let closed = tokio::spawn(async move { connections.close(BOUND).await });
    assert!(idle.is_closed().await);
    assert!(!closed.is_finished(), "it waits for the call");
    node.seen.release(1);
    let answer = held.answer().await;
    assert_eq!((answer.code, answer.header("connection")), (200, Some("close")), "{answer:?}");
    assert!(closed.await.unwrap(), "nothing was left behind");
}

/// Returns whether the connection has answered a call, and asks to close.
async fn asks_to_close(connection: &mut Connection<TcpStream>) -> bool {
    let answer = connection.json(GET_USER, &json!({"userId": FINE})).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.header("connection") == Some("close")
}

#[tokio::test]
async fn last_answer_of_an_old_connection_says_close() {
    let node = serve(|config| config.limits.connection_age = Duration::from_millis(50)).await;
    let mut old = Connection::open(node.address).await;
    while !asks_to_close(&mut old).await {}
    assert!(old.is_closed().await);
}

#[tokio::test]
async fn idle_connection_is_not_cut_at_its_age() {
    let node = serve(|config| config.limits.connection_age = Duration::from_millis(50)).await;
    let mut idle = Connection::open(node.address).await;
    assert!(!asks_to_close(&mut idle).await);
    // Each connection has reached its age limit when it ends; the random part makes both together older.
    for _ in 0..2 {
        drop(node.users().await.get_user(edge::service::get(FINE)).await.unwrap());
        let (mut peer, begun) = (node.users().await, node.connections.open());
        drop(peer.get_user(edge::service::get(FINE)).await.unwrap());
        until("an HTTP/2 connection has ended for its age", || node.connections.open() < begun).await;
    }
    assert!(asks_to_close(&mut idle).await, "the request that comes late is answered");
    assert!(idle.is_closed().await);
}

#[tokio::test]
async fn idle_time_is_longer_than_that_of_a_head() {
    let node = serve(|config| {
        config.limits.handshake = Duration::from_millis(50);
        config.limits.connection_idle = Duration::from_secs(75);
    })
    .await;
    let (mut idle, mut slow) = (Connection::open(node.address).await, Connection::open(node.address).await);
    assert!(!asks_to_close(&mut idle).await);
    assert!(!asks_to_close(&mut slow).await);
    slow.write("POST / HTTP/1.1\r\nhost:").await;
    assert!(slow.is_closed().await, "a head that has begun is due");
    assert!(!asks_to_close(&mut idle).await, "nothing has begun");
}

#[tokio::test]
async fn connection_is_closed_after_its_idle_time() {
    let node = serve(|config| config.limits.connection_idle = Duration::from_millis(50)).await;
    let mut idle = Connection::open(node.address).await;
    assert!(!asks_to_close(&mut idle).await);
    assert!(idle.is_closed().await);
}

#[tokio::test]
async fn a_caller_who_leaves_ends_the_call() {
    let node = serve(|_| {}).await;
    let mut left = Connection::open(node.address).await;
    left.write(request("POST", GET_USER, &[JSON], json!({"userId": HELD}).to_string().as_bytes())).await;
    until("the call is with its handler", || node.edge.in_flight() == 1).await;
    drop(left);
    until("its place is free", || node.edge.in_flight() == 0).await;
    assert_eq!(node.seen.ended(), 0);
    node.assert_healthy().await;
}

#[tokio::test]
async fn failed_call_keeps_its_connection() {
    let node = serve(|_| {}).await;
    let mut connection = Connection::open(node.address).await;
    let panics = connection.json(GET_USER, &json!({"userId": edge::service::PANICS})).await;
    panics.assert_refused(500, "internal", "INTERNAL");
    assert_eq!(connection.json(GET_USER, &json!({"userId": FINE})).await.code, 200);
}

#[tokio::test]
async fn json_is_answered_over_http2_too() {
    let node = serve(|_| {}).await;
    let socket = TcpStream::connect(node.address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let request = ::http::Request::post(format!("http://{}{GET_USER}", node.address));
    let request = request.header(JSON.0, JSON.1).body(()).unwrap();
    let (response, mut body) = client.ready().await.unwrap().send_request(request, false).unwrap();
    body.send_data(r#"{"userId":"1"}"#.into(), true).unwrap();
    let mut response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["trailer-kith-version"], "7");
    assert_eq!(response.body_mut().data().await.unwrap().unwrap(), "{}\n");
}

#[tokio::test]
async fn over_tls_a_caller_chooses_its_protocol() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let node = serve(|config| {
        config.tls.cert_file = Some(cert);
        config.tls.key_file = Some(key);
    })
    .await;

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    for (offered, chosen) in
        [(vec!["h2", "http/1.1"], Some("h2")), (vec!["http/1.1"], Some("http/1.1")), (vec![], None)]
    {
        let mut client = client.clone();
        client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let socket = TcpStream::connect(node.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(client)).connect(name, socket).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed.as_deref(), chosen.map(str::as_bytes), "{offered:?}");
        if chosen != Some("h2") {
            let answer = Connection::over(stream).json(GET_USER, &json!({"userId": FINE})).await;
            assert_eq!(answer.code, 200, "{offered:?}");
        }
    }
}
