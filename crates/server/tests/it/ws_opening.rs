//! Some requests open a socket, and others are refused.

use crate::{
    edge::{serve, serve_with},
    http::{Connection, request},
    sockets::{Socket, messages::FakeMessages, on, opening},
};

/// Returns the HTTP code and the reason for a request that is written unchanged.
async fn answered(bytes: Vec<u8>) -> (u16, String) {
    let node = serve(on).await;
    let mut connection = Connection::open(node.address).await;
    connection.write(bytes).await;
    let answer = connection.answer().await;
    let reason = if answer.code == 101 { String::new() } else { reason(&answer.json()) };
    node.assert_healthy().await;
    (answer.code, reason)
}

fn reason(error: &serde_json::Value) -> String {
    error["details"][0]["debug"]["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn request_of_a_browser_opens_a_socket() {
    let node = serve(on).await;
    let mut connection = Connection::open(node.address).await;
    connection.write(opening(&[])).await;
    let answer = connection.answer().await;
    assert_eq!((answer.code, answer.header("upgrade")), (101, Some("websocket")));
    // The value is from the example in RFC 6455.
    assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
}

/// Headers with a fault.
type Headers<'a> = &'a [(&'a str, &'a str)];

#[tokio::test]
async fn other_requests_are_refused() {
    let cases: [(Headers<'_>, u16, &str); 18] = [
        (&[("connection", "")], 426, "METHOD_UNKNOWN"),
        (&[("connection", "keep-alive")], 426, "METHOD_UNKNOWN"),
        (&[("connection", "upgraded")], 426, "METHOD_UNKNOWN"),
        (&[("upgrade", "")], 426, "METHOD_UNKNOWN"),
        (&[("upgrade", "h2c")], 426, "METHOD_UNKNOWN"),
        (&[("upgrade", "websocketx")], 426, "METHOD_UNKNOWN"),
        (&[("sec-websocket-version", "")], 426, "INVALID_METADATA"),
        (&[("sec-websocket-version", "8")], 426, "INVALID_METADATA"),
        (&[("sec-websocket-version", "13, 8")], 426, "INVALID_METADATA"),
        (&[("sec-websocket-key", "")], 400, "INVALID_METADATA"),
        (&[("sec-websocket-key", "no base64")], 400, "INVALID_METADATA"),
        (&[("sec-websocket-key", "c2hvcnQ=")], 400, "INVALID_METADATA"),
        (&[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZXRoZSBzYW1wbGUgbm9uY2U=")], 400, "INVALID_METADATA"),
        (&[("origin", "https://other.example")], 403, "ORIGIN_REFUSED"),
        (&[("origin", "null")], 403, "ORIGIN_REFUSED"),
        (&[("origin", "http://127.0.0.1:7600")], 403, "ORIGIN_REFUSED"),
        (
            &[("origin", "http://rebound.example:7600"), ("host", "rebound.example:7600")],
            403,
            "ORIGIN_REFUSED",
        ),
        (&[("origin", "not an origin")], 403, "ORIGIN_REFUSED"),
    ];
    for (changes, code, reason) in cases {
        assert_eq!(answered(opening(changes)).await, (code, reason.to_owned()), "{changes:?}");
    }
    for method in ["POST", "PUT", "HEAD", "DELETE", "OPTIONS"] {
        let node = serve(on).await;
        let mut connection = Connection::open(node.address).await;
        connection.write(request(method, "/ws", &[], b"")).await;
        assert!(connection.is_refused().await, "{method}");
        node.assert_healthy().await;
    }
}

#[tokio::test]
async fn browsers_spell_headers_in_many_ways() {
    for changes in [&[("connection", "keep-alive, Upgrade")], &[("upgrade", "WebSocket")]] {
        assert_eq!(answered(opening(changes)).await.0, 101, "{changes:?}");
    }
}

#[tokio::test]
async fn pages_of_listed_origins_open_sockets() {
    let listed = |config: &mut kith_server::config::Config| {
        on(config);
        config.http.cors.origins = vec!["https://app.example".to_owned()];
    };
    let node = serve(listed).await;
    assert!(Socket::from_page(node.address, Some("https://app.example")).await.is_ok());
    assert_eq!(Socket::from_page(node.address, Some("https://other.example")).await.err(), Some(403));
}

#[tokio::test]
async fn own_page_opens_sockets_on_loopback() {
    let with_page = |config: &mut kith_server::config::Config| {
        on(config);
        config.ws.demo = true;
    };
    let node = serve(with_page).await;
    let port = node.address.port();
    for own in [format!("http://127.0.0.1:{port}"), format!("http://localhost:{port}")] {
        assert!(Socket::from_page(node.address, Some(&own)).await.is_ok(), "{own}");
    }
    for other in [format!("http://rebound.example:{port}"), "http://127.0.0.1:1".to_owned()] {
        assert_eq!(Socket::from_page(node.address, Some(&other)).await.err(), Some(403), "{other}");
    }
    let without_page = serve(on).await;
    let own = format!("http://{}", without_page.address);
    assert_eq!(Socket::from_page(without_page.address, Some(&own)).await.err(), Some(403));
}

#[tokio::test]
async fn node_without_sockets_knows_no_such_path() {
    let node = serve(|_| {}).await;
    assert_eq!(Socket::from_page(node.address, None).await.err(), Some(404));
    let mut connection = Connection::open(node.address).await;
    connection.write(request("GET", "/demo", &[], b"")).await;
    assert_eq!(connection.answer().await.code, 404);
}

#[tokio::test]
async fn sockets_are_bounded_and_ending_makes_room() {
    let few = |config: &mut kith_server::config::Config| {
        on(config);
        config.ws.sockets = 2;
    };
    let node = serve_with(few, |routes| routes.add_service(FakeMessages::new())).await;
    let first = Socket::live(node.address, 7).await;
    let _second = Socket::live(node.address, 7).await;
    assert_eq!(Socket::from_page(node.address, None).await.err(), Some(503));
    let remarks = node.health.remarks();
    assert_eq!((remarks.len(), remarks[0].reason), (1, "sockets_refused"));
    assert!(remarks[0].message.contains("ws.sockets allows"), "{remarks:?}");
    node.assert_healthy().await;
    first.close().await;
    while let Err(code) = Socket::from_page(node.address, None).await {
        assert_eq!(code, 503);
    }
}

#[tokio::test]
async fn the_page_is_served_where_it_is_asked_for() {
    let demo = |config: &mut kith_server::config::Config| {
        on(config);
        config.ws.demo = true;
    };
    let node = serve(demo).await;
    for (path, kind) in
        [("/demo", "text/html; charset=utf-8"), ("/demo/app.js", "text/javascript; charset=utf-8")]
    {
        let mut connection = Connection::open(node.address).await;
        connection.write(request("GET", path, &[], b"")).await;
        let answer = connection.answer().await;
        assert_eq!((answer.code, answer.header("content-type")), (200, Some(kind)), "{path}");
        assert!(
            answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"),
            "{path}"
        );
    }
}
