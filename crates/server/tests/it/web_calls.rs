//! Browsers call by gRPC-Web, and only allowed pages may call.

use std::net::SocketAddr;

use crate::edge::raw;
use crate::http::{Answer, CREATE_USER, EXPORT_USERS, FIND_USER, GET_USER, JSON, send};
use crate::node::{TestNode, assert_refused};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kith_proto::user::v1::{ExportUsersRequest, ExportUsersResponse, GetUserRequest, GetUserResponse};
use prost::Message;
use tonic::Code;

const WEB: &str = "application/grpc-web+proto";
const WEB_TEXT: &str = "application/grpc-web-text+proto";
const PAGE: &str = "https://app.example";

fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    frame.extend(bytes);
    frame
}

/// Returns an answer's messages and trailers.
fn frames(mut body: &[u8]) -> (Vec<Vec<u8>>, String) {
    let (mut messages, mut trailers) = (Vec::new(), String::new());
    while let Some((head, rest)) = body.split_first_chunk::<5>() {
        let length = usize::try_from(u32::from_be_bytes([head[1], head[2], head[3], head[4]])).unwrap();
        let (frame, rest) = rest.split_at(length);
        match head[0] {
            0x80 => trailers.push_str(std::str::from_utf8(frame).unwrap()),
            _ => messages.push(frame.to_vec()),
        }
        body = rest;
    }
    (messages, trailers)
}

async fn call(address: SocketAddr, path: &str, kind: &str, body: &[u8]) -> Answer {
    let headers = [("content-type", kind), ("accept", kind), ("x-grpc-web", "1")];
    send(address, "POST", path, &headers, body).await
}

#[tokio::test]
async fn a_page_reads_a_user_by_grpc_web() {
    let node = TestNode::start().await;
    let id = node.user("ann").await.user_id;
    let request = framed(&GetUserRequest { user_id: id, consistency: None });
    let binary = call(node.address, GET_USER, WEB, &request).await;
    assert_eq!((binary.code, binary.header("content-type")), (200, Some(WEB)), "{binary:?}");
    let text = call(node.address, GET_USER, WEB_TEXT, STANDARD.encode(&request).as_bytes()).await;
    assert_eq!(text.header("content-type"), Some(WEB_TEXT));
    // Each part is encoded separately; padding ends only the last chunk in each part.
    let encoded = String::from_utf8(text.body).unwrap();
    let decoded: Vec<u8> =
        encoded.split_inclusive("=").filter(|part| *part != "=").flat_map(decode).collect();
    for body in [binary.body, decoded] {
        let (messages, trailers) = frames(&body);
        let answer = GetUserResponse::decode(messages[0].as_slice()).unwrap();
        assert_eq!(answer.user.unwrap().user_name, "ann");
        assert!(trailers.contains("grpc-status:0") && trailers.contains("kith-version:1"), "{trailers}");
    }
}

fn decode(part: &str) -> Vec<u8> {
    let bare = part.trim_end_matches('=');
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(bare).unwrap()
}

#[tokio::test]
async fn a_page_reads_a_stream_by_grpc_web() {
    let node = TestNode::start().await;
    for name in ["ann", "bob", "cid"] {
        node.user(name).await;
    }
    let answer =
        call(node.address, EXPORT_USERS, WEB, &framed(&ExportUsersRequest { after_user_id: 0 })).await;
    let (messages, trailers) = frames(&answer.body);
    let users = messages
        .iter()
        .flat_map(|message| ExportUsersResponse::decode(message.as_slice()).unwrap().users)
        .map(|user| user.user_name)
        .collect::<Vec<_>>();
    assert_eq!(users, ["ann", "bob", "cid"]);
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn errors_of_grpc_web_are_those_of_grpc() {
    let node = TestNode::start().await;
    let status = |answer: &Answer| {
        let (_, trailers) = frames(&answer.body);
        let trailing = trailers.lines().find_map(|line| line.strip_prefix("grpc-status:").map(str::to_owned));
        trailing.or_else(|| answer.header("grpc-status").map(str::to_owned))
    };
    let absent = framed(&GetUserRequest { user_id: 4711, consistency: None });
    let absent = call(node.address, GET_USER, WEB, &absent).await;
    assert_eq!((absent.code, status(&absent).as_deref()), (200, Some("5")), "{absent:?}");
    let malformed = call(node.address, GET_USER, WEB_TEXT, b"!!!!").await;
    assert_eq!(status(&malformed).as_deref(), Some("3"), "{malformed:?}");
    let large = [[0, 0, 6, 0, 0].as_slice(), &vec![0; 6 << 16]].concat();
    let large = call(node.address, GET_USER, WEB, &large).await;
    assert_eq!(status(&large).as_deref(), Some("8"), "{large:?}");
    node.assert_healthy().await;
}

/// Sends the question that a browser asks before a page may call.
async fn asks(address: SocketAddr, origin: &str) -> Answer {
    send(address, "OPTIONS", GET_USER, &preflight(origin), "").await
}

fn preflight(origin: &str) -> [(&str, &str); 3] {
    [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,connect-protocol-version,kith-acting-user"),
    ]
}

fn has_cors_headers(answer: &Answer) -> bool {
    answer.headers.iter().any(|(name, _)| name.starts_with("access-control-"))
}

/// Origin and host: a page whose name resolves to this machine, an opaque origin, another page, and two at
/// once.
const REFUSED: [&[(&str, &str)]; 5] = [
    &[("origin", "http://rebound.example:7600"), ("host", "rebound.example:7600")],
    &[("origin", "http://127.0.0.1:7600")],
    &[("origin", "null")],
    &[("origin", PAGE)],
    &[("origin", "https://listed.example"), ("origin", "https://listed.example")],
];

fn lists(config: &mut kith_server::config::Config) {
    config.http.cors.origins = vec!["https://listed.example".to_owned()];
}

#[tokio::test]
async fn unlisted_pages_are_refused_by_both_protocols() {
    let node = TestNode::start_with(lists).await;
    let name = r#"{"user": {"userName": "eve"}}"#;
    for origin in REFUSED {
        for kind in ["application/json", WEB, WEB_TEXT, "text/plain"] {
            let headers = [&[("content-type", kind)][..], origin].concat();
            let answer = send(node.address, "POST", CREATE_USER, &headers, name).await;
            answer.assert_refused(403, "permission_denied", "ORIGIN_REFUSED");
            assert!(!has_cors_headers(&answer), "{answer:?}");
            assert_eq!(answer.header("vary"), Some("origin"));
        }
        let asked =
            send(node.address, "OPTIONS", CREATE_USER, &[&preflight(PAGE)[1..], origin].concat(), "").await;
        assert_eq!((asked.code, has_cors_headers(&asked)), (403, false), "{asked:?}");
        let page = send(node.address, "GET", "/demo", origin, "").await;
        assert_eq!(page.code, 403, "{page:?}");
    }
    let find = r#"{"userName": "eve"}"#;
    let found = send(node.address, "POST", FIND_USER, &[JSON], find).await;
    found.assert_refused(404, "not_found", "NOT_FOUND");
}

#[tokio::test]
async fn pages_that_are_not_listed_are_refused_by_grpc() {
    let node = TestNode::start_with(lists).await;
    let own = format!("http://{}", node.address);
    let listed = "https://listed.example";
    let call = async |origins: &[&str]| {
        let headers: Vec<_> = origins.iter().map(|origin| ("origin", *origin)).collect();
        let get = raw::framed(&GetUserRequest { user_id: 7, consistency: None }.encode_to_vec());
        raw::call(node.address, GET_USER, &headers, get).await.unwrap()
    };
    for origins in
        [&["http://rebound.example:7600"][..], &["null"], &[PAGE], &[own.as_str()], &[listed, listed]]
    {
        let answer = call(origins).await;
        assert_refused(answer.status(), Code::PermissionDenied, "ORIGIN_REFUSED", None);
    }
    assert_eq!(call(&[listed]).await.status().code(), Code::NotFound);
}

#[tokio::test]
async fn refused_page_that_still_sends_reads_why() {
    let node = TestNode::start().await;
    let body = vec![b' '; 60 << 10];
    let answer = send(node.address, "POST", GET_USER, &[JSON, ("origin", PAGE)], body).await;
    answer.assert_refused(403, "permission_denied", "ORIGIN_REFUSED");
}

#[tokio::test]
async fn only_listed_pages_get_cors_headers() {
    let node = TestNode::start_with(|config| config.http.cors.origins = vec![PAGE.to_owned()]).await;
    let asked = asks(node.address, PAGE).await;
    assert_eq!((asked.code, asked.header("access-control-allow-origin")), (200, Some(PAGE)), "{asked:?}");
    assert_eq!(asked.header("access-control-max-age"), Some("7200"));
    let allowed = asked.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    for name in
        ["content-type", "connect-protocol-version", "connect-timeout-ms", "x-grpc-web", "kith-acting-user"]
    {
        assert!(allowed.split(',').any(|allowed| allowed == name), "{name} in {allowed}");
    }

    let called = send(node.address, "POST", GET_USER, &[JSON, ("origin", PAGE)], r#"{"userId":"7"}"#).await;
    called.assert_refused(404, "not_found", "NOT_FOUND");
    assert_eq!(called.header("access-control-allow-origin"), Some(PAGE), "also errors can be read");
    let read = called.header("access-control-expose-headers").unwrap();
    assert!(read.contains("grpc-status-details-bin") && read.contains("trailer-kith-tier"), "{read}");

    for other in ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"] {
        let asked = asks(node.address, other).await;
        assert_eq!((has_cors_headers(&asked), asked.header("vary")), (false, Some("origin")), "{asked:?}");
        let called = send(node.address, "POST", GET_USER, &[JSON, ("origin", other)], "{}").await;
        assert!(!has_cors_headers(&called), "{called:?}");
    }
}
