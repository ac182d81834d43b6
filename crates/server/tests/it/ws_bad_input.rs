//! Frames that a peer should not send: each is refused or closed with its code, and the node goes on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    edge::{
        ServedEdge, serve_with,
        service::{FAILS, FINE, LARGE, PANICS},
    },
    sockets::{Socket, messages::FakeMessages, on, opening},
};

const BOUND: Duration = Duration::from_secs(20);
const FRAME_MAX: usize = 256 << 10;

async fn node() -> ServedEdge {
    serve_with(on, |routes| routes.add_service(FakeMessages::new())).await
}

/// Returns the close code after this first frame.
async fn code_of_first(node: &ServedEdge, frame: Message) -> u16 {
    let mut socket = Socket::open(node.address).await;
    socket.message(frame).await;
    socket.closed().await.0
}

/// Returns the close code after this frame on a socket whose hello was accepted.
async fn code_of_later(node: &ServedEdge, frame: Message) -> u16 {
    let mut socket = Socket::live(node.address, 7).await;
    socket.message(frame).await;
    socket.closed().await.0
}

#[tokio::test]
async fn unknown_frames_close_the_socket() {
    let node = node().await;
    let not_json =
        ["", " ", "{", "hello", "{\"hello\":}", "{'hello':{}}", "{\"id\":1,}", "{}{}", "\u{0}", "nul"];
    for text in not_json {
        assert_eq!(code_of_first(&node, Message::text(text)).await, 1007, "{text}");
        assert_eq!(code_of_later(&node, Message::text(text)).await, 1007, "{text}");
    }
    let other_forms = [
        "{}",
        "[]",
        "7",
        "null",
        "\"hello\"",
        r#"{"id":1}"#,
        r#"{"id":1,"call":null}"#,
        r#"{"call":"GetUser","body":{}}"#,
        r#"{"id":-1,"call":"GetUser"}"#,
        r#"{"id":1.5,"call":"GetUser"}"#,
        r#"{"id":"1","call":"GetUser"}"#,
        r#"{"id":18446744073709551616,"call":"GetUser"}"#,
        r#"{"id":1,"id":2,"call":"GetUser"}"#,
        r#"{"id":1,"call":7}"#,
        r#"{"id":1,"call":"GetUser","user":8}"#,
        r#"{"id":1,"call":"GetUser","kith-acting-user":8}"#,
        r#"{"id":1,"call":"GetUser","hello":{"user":8}}"#,
        r#"{"hello":{"user":7},"hello":{"user":8}}"#,
    ];
    for text in other_forms {
        assert_eq!(code_of_first(&node, Message::text(text)).await, 1008, "{text}");
        assert_eq!(code_of_later(&node, Message::text(text)).await, 1008, "{text}");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn invalid_hello_is_refused_with_its_field() {
    let node = node().await;
    let long = "d".repeat(49);
    let cases = [
        (json!({}), "hello.user"),
        (json!({"user": 0}), "hello.user"),
        (json!({"user": -7}), "hello.user"),
        (json!({"user": "seven"}), "hello.user"),
        (json!({"user": "9223372036854775808"}), "hello.user"),
        (json!({"user": 7.5}), "hello"),
        (json!({"user": [7]}), "hello"),
        (json!({"user": 7, "credential": "secret"}), "hello.credential"),
        (json!({"credential": "secret"}), "hello.credential"),
        (json!({"user": 7, "device": ""}), "hello.device"),
        (json!({"user": 7, "device": "my phone"}), "hello.device"),
        (json!({"user": 7, "device": "\u{7535}\u{8bdd}"}), "hello.device"),
        (json!({"user": 7, "device": long}), "hello.device"),
        (json!({"user": 7, "device": 7}), "hello"),
        (json!({"user": 7, "cursor": 7}), "hello"),
        (json!({"user": 7, "positions": []}), "hello"),
        (json!({"user": 7, "positions": {"g9": "many"}}), "hello.positions"),
        (json!({"user": 7, "positions": {"g9": null}}), "hello"),
        (json!({"user": 7, "list": "no"}), "hello"),
        (json!({"user": 7, "noticeAudiences": 1}), "hello"),
        (json!({"user": 7, "noticeAudiences": ["one"]}), "hello"),
        (json!({"user": 7, "noticeAudiences": [4_294_967_296_i64]}), "hello"),
        (json!([null, 7]), "hello"),
        (json!("7"), "hello"),
        (json!(7), "hello"),
    ];
    for (hello, field) in cases {
        let mut socket = Socket::greeted(node.address, &hello).await;
        let (code, frames) = socket.closed().await;
        assert_eq!((code, frames.len()), (1008, 1), "{hello}");
        let error = &frames[0]["error"];
        assert_eq!(
            (&error["code"], &error["reason"]),
            (&json!("invalid_argument"), &json!("INVALID_FIELD")),
            "{hello}"
        );
        assert!(error["message"].as_str().unwrap().starts_with(field), "{hello}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn refused_frame_is_explained_before_the_close() {
    let node = node().await;
    let call = json!({"id": 1, "call": "GetUser", "body": {"userId": FINE}}).to_string();
    let renewal = json!({"renew": {"credential": "a.b.c"}}).to_string();
    let malformed = [
        (Message::text("{}"), 1008),
        (Message::text("[]"), 1008),
        (Message::text("{"), 1007),
        (Message::binary(b"{}".to_vec()), 1003),
    ];
    for (frame, code) in malformed {
        let mut socket = Socket::open(node.address).await;
        socket.message(frame.clone()).await;
        socket.assert_closed(code, "MALFORMED_MESSAGE").await;
        let mut socket = Socket::live(node.address, 7).await;
        socket.message(frame).await;
        socket.assert_closed(code, "MALFORMED_MESSAGE").await;
    }
    for early in [call, renewal] {
        let mut socket = Socket::open(node.address).await;
        socket.text(&early).await;
        socket.assert_closed(1008, "CREDENTIALS_MISSING").await;
    }
    for user in [7, 8] {
        let mut socket = Socket::live(node.address, 7).await;
        socket.send(&json!({"hello": {"user": user}})).await;
        let error = socket.assert_closed(1008, "STATE_FORBIDS").await;
        assert!(error["error"]["message"].as_str().unwrap().contains("hello"), "{error}");
    }
}

#[tokio::test]
async fn answer_above_a_frame_is_refused() {
    let node = node().await;
    let mut socket = Socket::live(node.address, 7).await;
    let frame = socket.call("GetUser", &json!({"userId": LARGE})).await;
    assert_eq!(refusal(&frame), ("resource_exhausted", "ANSWER_TOO_LARGE"), "{frame}");
    assert_eq!(socket.call("GetUser", &json!({"userId": FINE})).await["answer"], json!({}));
}

#[tokio::test]
async fn unsupported_call_keeps_the_socket() {
    let node = node().await;
    let mut socket = Socket::live(node.address, 7).await;
    let others = [
        "",
        "getUser",
        "GetUser ",
        "Nothing",
        "BatchSend",
        "Receive",
        "WatchOffline",
        "ImportMessages",
        "EraseUserMessages",
        "SetUserSeqRange",
        "TrimConversation",
        "DeleteUser",
        "CreateUser",
        "VerifySecret",
        "ExportUsers",
        "OpenSession",
        "Heartbeat",
        "GetNode",
        "StartEpoch",
        "PublishNotice",
        "NoticeService.PublishNotice",
        "NoticeService.ListReaders",
        "MessageService.",
        ".GetUser",
        "UserService.GetUser.",
        "Userservice.GetUser",
        "kith.user.v1.UserService.GetUser",
        "../GetUser",
        "kith.user.v1.UserService/GetUser",
        "GetUser\r\nx: y",
    ];
    for name in others {
        let frame = socket.call(name, &json!({})).await;
        assert_eq!(refusal(&frame), ("unimplemented", "METHOD_UNKNOWN"), "{name}: {frame}");
    }
    for name in ["GetUser", "UserService.GetUser"] {
        assert_eq!(socket.call(name, &json!({"userId": FINE})).await["answer"], json!({}), "{name}");
    }
}

fn refusal(frame: &Value) -> (&str, &str) {
    let error = &frame["error"];
    (error["code"].as_str().unwrap_or_default(), error["reason"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn unreadable_body_keeps_the_socket() {
    let node = node().await;
    let mut socket = Socket::live(node.address, 7).await;
    let bodies = [
        ("[]", "MALFORMED_MESSAGE"),
        ("7", "MALFORMED_MESSAGE"),
        ("\"x\"", "MALFORMED_MESSAGE"),
        (r#"{"userId":"4929x"}"#, "INVALID_FIELD"),
        (r#"{"userId":4929.5}"#, "INVALID_FIELD"),
        (r#"{"userId":1,"userId":1}"#, "INVALID_FIELD"),
        (r#"{"userId":1,"user_id":1}"#, "INVALID_FIELD"),
        (r#"{"usrId":4929}"#, "INVALID_FIELD"),
        (r#"{"userId":{"4929":1}}"#, "INVALID_FIELD"),
    ];
    for (body, reason) in bodies {
        socket.text(&format!(r#"{{"id":3,"call":"GetUser","body":{body}}}"#)).await;
        let frame = socket.until("id").await;
        assert_eq!(
            (&frame["id"], refusal(&frame)),
            (&json!(3), ("invalid_argument", reason)),
            "{body}: {frame}"
        );
        assert!(!frame.to_string().contains("4929"), "{frame}");
    }
    for user in [FAILS, PANICS] {
        let frame = socket.call("GetUser", &json!({"userId": user})).await;
        assert_eq!(refusal(&frame).0, "internal", "{frame}");
    }
    assert_eq!(socket.call("GetUser", &json!({"userId": FINE})).await["answer"], json!({}));
}

#[tokio::test]
async fn large_or_binary_frames_close_the_socket() {
    let node = node().await;
    let large =
        |length: usize| format!(r#"{{"id":1,"call":"GetUser","body":"{}"}}"#, "x".repeat(length - 35));
    assert_eq!(large(FRAME_MAX).len(), FRAME_MAX);
    let mut socket = Socket::live(node.address, 7).await;
    socket.text(&large(FRAME_MAX)).await;
    assert_eq!(refusal(&socket.until("id").await).0, "invalid_argument", "it is read");
    assert_eq!(code_of_later(&node, Message::text(large(FRAME_MAX + 1))).await, 1009);
    assert_eq!(code_of_first(&node, Message::text(large(FRAME_MAX + 1))).await, 1009);
    assert_eq!(code_of_first(&node, Message::text("x".repeat(FRAME_MAX * 8))).await, 1009);
    for bytes in [&b"{}"[..], b"", b"\xff\xfe"] {
        assert_eq!(code_of_first(&node, Message::binary(bytes.to_vec())).await, 1003, "{bytes:?}");
        assert_eq!(code_of_later(&node, Message::binary(bytes.to_vec())).await, 1003, "{bytes:?}");
    }
    node.assert_healthy().await;
}

/// Returns the code in the close frame after these bytes on a socket that was just opened. `None`: there is
/// no close frame.
async fn code_of_bytes(node: &ServedEdge, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(&opening(&[])).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(BOUND, stream.read_u8()).await.unwrap().unwrap());
    }
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    drop(timeout(BOUND, stream.read_to_end(&mut rest)).await.expect("an end in time"));
    (rest.first() == Some(&0x88)).then(|| u16::from_be_bytes([rest[2], rest[3]]))
}

/// Control frames have at most 125 bytes.
fn long_ping() -> Vec<u8> {
    [vec![0x89, 0xFE, 0, 126], vec![0; 4 + 126]].concat()
}

#[tokio::test]
async fn protocol_violation_closes_the_socket() {
    let node = node().await;
    let cases: [(&str, &[u8], u16); 12] = [
        ("not masked", &[0x81, 0x02, b'{', b'}'], 1002),
        ("first reserved bit", &[0xC1, 0x80, 0, 0, 0, 0], 1002),
        ("second reserved bit", &[0xA1, 0x80, 0, 0, 0, 0], 1002),
        ("third reserved bit", &[0x91, 0x80, 0, 0, 0, 0], 1002),
        ("reserved kind", &[0x83, 0x80, 0, 0, 0, 0], 1002),
        ("reserved kind of control", &[0x8B, 0x80, 0, 0, 0, 0], 1002),
        ("ping in parts", &[0x09, 0x80, 0, 0, 0, 0], 1002),
        ("ping of 126 bytes", &long_ping(), 1002),
        ("continues nothing", &[0x80, 0x80, 0, 0, 0, 0], 1002),
        ("new text within a text", &[0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002),
        ("not UTF-8", &[0x81, 0x82, 0, 0, 0, 0, 0xC3, 0x28], 1007),
        ("announces 2^62 bytes", &[0x81, 0xFF, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009),
    ];
    for (what, bytes, code) in cases {
        assert_eq!(code_of_bytes(&node, bytes).await, Some(code), "{what}");
    }
    let mut request = opening(&[]);
    request.extend([0x81, 0x82, 0, 0, 0, 0, b'{', b'}']);
    let mut early = TcpStream::connect(node.address).await.unwrap();
    early.write_all(&request).await.unwrap();
    let mut all = Vec::new();
    drop(timeout(BOUND, early.read_to_end(&mut all)).await.expect("an end in time"));
    assert!(
        all.windows(4).any(|part| part[0] == 0x88 && part[2..] == 1008_u16.to_be_bytes()),
        "sent before the answer"
    );
    node.assert_healthy().await;
}
