//! JSON that a person types: valid and invalid texts, and the answer to each.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{
    http::{self, CREATE_USER, Connection, FIND_USER, GET_USER, JSON, post, request, send},
    node::TestNode,
};
use std::{process::Command, time::Duration};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

#[tokio::test]
async fn a_user_is_created_and_read_again() {
    let node = TestNode::start().await;
    let created = post(node.address, CREATE_USER, r#"{"user":{"userName":"ann","age":30}}"#).await;
    assert_eq!(created.code, 200, "{created:?}");
    let user = created.json()["user"].clone();
    assert_eq!((&user["userName"], &user["age"]), (&json!("ann"), &json!(30)));
    let id = user["userId"].as_str().expect("64 bits are text").to_owned();
    assert!(created.body.ends_with(b"}\n"), "for those who read it in a terminal");

    for body in [format!(r#"{{"userId":"{id}"}}"#), format!(r#"{{"user_id":{id}}}"#)] {
        let read = post(node.address, GET_USER, &body).await;
        assert_eq!(read.json()["user"], user, "{body}");
        assert_eq!(read.header("trailer-kith-version"), Some("1"));
        assert!(read.header("trailer-kith-tier").is_some() && read.header("trailer-kith-age-ms").is_some());
    }
}

#[tokio::test]
async fn health_is_answered_as_json_too() {
    let node = TestNode::start().await;
    let answer = post(node.address, "/grpc.health.v1.Health/Check", "{}").await;
    assert_eq!((answer.code, answer.json()), (200, json!({"status": "SERVING"})));
}

/// The method, the body, the field that the error names, and its message.
const FIELDS: [(&str, &str, &str, &str); 14] = [
    (GET_USER, r#"{"usrId":"7"}"#, "usrId", "usrId is no field of GetUserRequest; did you mean userId?"),
    (GET_USER, r#"{"userId":true}"#, "user_id", "user_id must be a whole number of 64 bits"),
    (GET_USER, r#"{"userId":"seven"}"#, "user_id", "user_id must be a whole number of 64 bits"),
    (GET_USER, r#"{"userId":"1:bsgd"}"#, "user_id", "user_id must be a whole number of 64 bits"),
    (GET_USER, r#"{"userId":7.5}"#, "user_id", "user_id must be a whole number of 64 bits"),
    (GET_USER, r#"{"userId":99999999999999999999}"#, "user_id", "user_id must be a whole number of 64 bits"),
    (GET_USER, r#"{"userId":1,"userId":2}"#, "user_id", "user_id is given twice"),
    (GET_USER, r#"{"userId":1,"user_id":1}"#, "user_id", "user_id is given twice"),
    (GET_USER, "{}", "user_id", "user_id must be above 0"),
    (
        GET_USER,
        r#"{"userId":1,"consistency":{"strong":true,"atLeast":{}}}"#,
        "consistency.at_least",
        "consistency.at_least excludes another field that is given; give one of them",
    ),
    (FIND_USER, r#"{"userName":7}"#, "user_name", "user_name must be a string"),
    (CREATE_USER, r#"{"user":"ann"}"#, "user", "user must be an object"),
    (
        CREATE_USER,
        r#"{"user":{"params":{"a":[[[[1]]]]}}}"#,
        "user.params.a",
        "user.params.a must be a string",
    ),
    (
        CREATE_USER,
        r#"{"user":{"gender":"male"}}"#,
        "user.gender",
        "user.gender must be one of GENDER_UNSPECIFIED, GENDER_FEMALE, GENDER_MALE, GENDER_OTHER",
    ),
];

#[tokio::test]
async fn a_wrong_field_is_named_with_what_it_must_be() {
    let node = TestNode::start().await;
    let mut connection = Connection::open(node.address).await;
    for (path, body, field, text) in FIELDS {
        let answer = connection.post(path, &[JSON], body).await;
        answer.assert_refused(400, "invalid_argument", "INVALID_FIELD");
        assert_eq!(answer.field(), field, "{body}");
        assert_eq!(answer.json()["message"], text, "{body}");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn invalid_json_is_refused_with_its_position() {
    let node = TestNode::start().await;
    let deep = "[".repeat(100_000);
    let within = format!(r#"{{"consistency":{{"atLeast":{{"consistencyTokens":{deep}"#);
    let cases: [(&[u8], &str); 10] = [
        (b"", "the body is empty"),
        (b"null", "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"7", "must be a JSON object"),
        (br#"{"userId":"7"} x"#, "trailing characters at line 1 column 16"),
        (b"{\n\"userId\":NaN}", "line 2 column 10, in user_id"),
        (br#"{"userId":"#, "EOF while parsing a value"),
        (b"userId=7", "expected value at line 1 column 1"),
        (b"{\"userId\":\"\xff\"}", "invalid unicode"),
        (deep.as_bytes(), "must be a JSON object"),
    ];
    for (body, text) in cases {
        let answer = post(node.address, GET_USER, body).await;
        answer.assert_refused(400, "invalid_argument", "MALFORMED_MESSAGE");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(text), "{message} of {:?}", String::from_utf8_lossy(body).get(..30));
    }
    post(node.address, GET_USER, within).await.assert_refused(400, "invalid_argument", "INVALID_FIELD");
    node.assert_healthy().await;
}

#[tokio::test]
async fn invalid_request_is_refused_with_the_fix() {
    let node = TestNode::start().await;
    let got = send(node.address, "GET", GET_USER, &[], "").await;
    got.assert_refused(405, "unimplemented", "NOT_POSTED");
    assert_eq!(got.header("allow"), Some("POST"));

    let lost = send(node.address, "GET", "/", &[], "").await;
    lost.assert_refused(404, "unimplemented", "METHOD_UNKNOWN");
    assert!(lost.json()["message"].as_str().unwrap().contains("POST /kith.user.v1.UserService/GetUser"));

    for kind in [None, Some("text/plain"), Some("application/grpc"), Some("application/connect+json")] {
        let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
        let answer = send(node.address, "POST", GET_USER, &headers, r#"{"userId":"7"}"#).await;
        answer.assert_refused(415, "unimplemented", "MEDIA_TYPE_UNKNOWN");
        assert!(answer.header("accept-post").unwrap().contains("application/json"), "{kind:?}");
        let curl = answer.json()["message"].as_str().unwrap().contains("-H 'content-type: application/json'");
        assert_eq!(curl, kind != Some("application/grpc"), "{}", answer.json());
    }
    let gzip = [JSON, ("content-encoding", "gzip")];
    let gzip = send(node.address, "POST", GET_USER, &gzip, "x").await;
    gzip.assert_refused(415, "unimplemented", "MEDIA_TYPE_UNKNOWN");
    assert_eq!(gzip.header("accept-encoding"), Some("identity"));

    let stream = post(node.address, http::EXPORT_USERS, "{}").await;
    stream.assert_refused(415, "unimplemented", "MEDIA_TYPE_UNKNOWN");
    assert!(stream.json()["message"].as_str().unwrap().contains("ExportUsers streams"));
}

#[tokio::test]
async fn metadata_is_that_of_every_call() {
    let node = TestNode::start().await;
    let with = |name: &'static str, value: &'static str| {
        let address = node.address;
        async move { send(address, "POST", GET_USER, &[JSON, (name, value)], r#"{"userId":"7"}"#).await }
    };
    for (name, value) in [
        ("kith-acting-user", "nobody"),
        ("grpc-timeout", "soon"),
        ("connect-timeout-ms", "1s"),
        ("connect-protocol-version", "2"),
    ] {
        let answer = with(name, value).await;
        answer.assert_refused(400, "invalid_argument", "INVALID_METADATA");
        assert!(answer.json()["message"].as_str().unwrap().starts_with(name), "{answer:?}");
    }
    with("connect-protocol-version", "1").await.assert_refused(404, "not_found", "NOT_FOUND");
    with("connect-timeout-ms", "9999999999").await.assert_refused(404, "not_found", "NOT_FOUND");
    with("connect-timeout-ms", "0").await.assert_refused(504, "deadline_exceeded", "DEADLINE_EXCEEDED");

    let email = r#"{"user":{"userName":"ann","email":"ann@example.org"}}"#;
    let id = post(node.address, CREATE_USER, email).await.json()["user"]["userId"].clone();
    let headers = [JSON, ("kith-acting-user", "4711")];
    let seen = send(node.address, "POST", GET_USER, &headers, json!({"userId": id}).to_string()).await;
    assert!(seen.json()["user"].get("email").is_none(), "others do not see it: {seen:?}");
}

#[tokio::test]
async fn ten_megabytes_are_refused_with_the_limit() {
    let node = TestNode::start().await;
    let large = format!(r#"{{"userName":"{}"}}"#, "x".repeat(10 << 20));
    let announced = post(node.address, FIND_USER, &large).await;
    announced.assert_refused(413, "resource_exhausted", "MESSAGE_TOO_LARGE");
    let message = announced.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "the body is larger than 262144 bytes (limits.message_bytes)");

    let mut chunked = Connection::open(node.address).await;
    let head = format!("POST {FIND_USER} HTTP/1.1\r\nhost: kith\r\ncontent-type: application/json\r\n");
    chunked.write(format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
    chunked.write(format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len())).await;
    chunked.answer().await.assert_refused(413, "resource_exhausted", "MESSAGE_TOO_LARGE");
    node.assert_healthy().await;
}

#[tokio::test]
async fn announced_too_large_body_is_not_read() {
    let node = TestNode::start().await;
    let mut polite = Connection::open(node.address).await;
    let head = format!("POST {FIND_USER} HTTP/1.1\r\nhost: kith\r\ncontent-type: application/json\r\n");
    polite.write(format!("{head}content-length: 10485760\r\nexpect: 100-continue\r\n\r\n")).await;
    polite.answer().await.assert_refused(413, "resource_exhausted", "MESSAGE_TOO_LARGE");
}

#[tokio::test]
async fn curl_reads_why_its_ten_megabytes_are_refused() {
    let node = TestNode::start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large.json");
    std::fs::write(&file, vec![b' '; 10 << 20]).unwrap();
    let (data, url) = (format!("@{}", file.display()), format!("http://{}{GET_USER}", node.address));
    let call = move || {
        let arguments = ["-sS", "-m", "20", "-H", "content-type: application/json", "--data-binary"];
        Command::new("curl").args(arguments).arg(data).arg(url).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(call).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("limits.message_bytes"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_batch_may_be_larger() {
    let node = TestNode::start().await;
    let fits = format!(r#"{{"userIds":[{}"1"]}}"#, " ".repeat(300 << 10));
    let answer = post(node.address, "/kith.user.v1.UserService/BatchGetUsers", fits).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    let large = format!(r#"{{"userIds":[{}"1"]}}"#, " ".repeat(1100 << 10));
    let answer = post(node.address, "/kith.user.v1.UserService/BatchGetUsers", large).await;
    answer.assert_refused(413, "resource_exhausted", "MESSAGE_TOO_LARGE");
    assert!(answer.json()["message"].as_str().unwrap().contains("limits.batch_message_bytes"));
}

#[tokio::test]
async fn absent_body_is_waited_for_until_the_deadline() {
    let node =
        TestNode::start_with(|config| config.limits.deadline_default = Duration::from_millis(200)).await;
    let mut slow = Connection::open(node.address).await;
    let whole = request("POST", GET_USER, &[JSON], br#"{"userId":"7"}"#);
    slow.write(&whole[..whole.len() - 3]).await;
    slow.answer().await.assert_refused(504, "deadline_exceeded", "DEADLINE_EXCEEDED");
    node.assert_healthy().await;
}

#[tokio::test]
async fn absent_or_large_headers_end_the_connection() {
    let node = TestNode::start_with(|config| config.limits.handshake = Duration::from_millis(200)).await;
    let mut slow = Connection::open(node.address).await;
    slow.write("POST / HTTP/1.1\r\nhost:").await;
    assert!(slow.is_closed().await);

    let many = "x".repeat(32 << 10);
    let answer = send(node.address, "POST", GET_USER, &[JSON, ("x-much", &many)], "{}").await;
    assert_eq!(answer.code, 431);
    node.assert_healthy().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let node = TestNode::start().await;
    let mut hasty = Connection::open(node.address).await;
    let create = request("POST", CREATE_USER, &[JSON], br#"{"user":{"userId":"7","userName":"ann"}}"#);
    let read = request("POST", GET_USER, &[JSON], br#"{"userId":"7"}"#);
    hasty.write([create, read, request("GET", "/", &[], b"")].concat()).await;
    assert_eq!(hasty.answer().await.json()["user"]["version"], "1");
    assert_eq!(hasty.answer().await.json()["user"]["userName"], "ann");
    assert_eq!(hasty.answer().await.code, 404);
}

#[tokio::test]
async fn caller_that_leaves_early_leaves_nothing() {
    let node = TestNode::start().await;
    let whole = request("POST", CREATE_USER, &[JSON], br#"{"user":{"userName":"ann"}}"#);
    for end in [10, whole.len() - 1] {
        let mut socket = tokio::net::TcpStream::connect(node.address).await.unwrap();
        socket.write_all(&whole[..end]).await.unwrap();
    }
    let found = post(node.address, FIND_USER, r#"{"userName":"ann"}"#).await;
    found.assert_refused(404, "not_found", "NOT_FOUND");
    node.assert_healthy().await;
}
