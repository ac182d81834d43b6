//! Bad input at the edge (reliability rows A01 to A08, A11 to A13): the code that callers expect, and a node
//! that answers afterwards as before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use crate::edge::{
    assert_refused,
    raw::{
        self, BATCH_GET_USERS, CREATE_USER, FIND_USER, GET_USER, IMPORT_USERS, flagged, framed, unknown_field,
    },
    serve,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use tonic::Code;

/// `GetUserRequest { user_id: 1 }`.
const GET_FINE: [u8; 2] = [0x08, 0x01];

#[tokio::test]
async fn large_unary_message_is_resource_exhausted() {
    let node = serve(|_| {}).await;
    let answer = raw::call(node.address, GET_USER, &[], framed(&unknown_field(300 << 10))).await.unwrap();
    assert_refused(answer.status(), Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    node.assert_healthy().await;
}

#[tokio::test]
async fn batch_has_a_larger_limit() {
    let node = serve(|_| {}).await;
    let fits =
        raw::call(node.address, BATCH_GET_USERS, &[], framed(&unknown_field(300 << 10))).await.unwrap();
    assert_eq!(fits.status().code(), Code::Ok);
    let large =
        raw::call(node.address, BATCH_GET_USERS, &[], framed(&unknown_field(1100 << 10))).await.unwrap();
    assert_refused(large.status(), Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a_gzip_bomb_is_resource_exhausted() {
    let node = serve(|_| {}).await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..32 {
        gzip.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < 200 << 10, "small enough to pass: {}", bomb.len());
    let body = flagged(1, bomb.len(), &bomb);
    let answer = raw::call(node.address, GET_USER, &[("grpc-encoding", "gzip")], body).await.unwrap();
    assert_refused(answer.status(), Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    node.assert_healthy().await;
}

#[tokio::test]
async fn an_unknown_compression_is_unimplemented() {
    let node = serve(|_| {}).await;
    let body = flagged(1, 2, &GET_FINE);
    let answer = raw::call(node.address, GET_USER, &[("grpc-encoding", "br")], body).await.unwrap();
    assert_eq!(answer.status().code(), Code::Unimplemented);
    node.assert_healthy().await;
}

#[tokio::test]
async fn what_cannot_be_decoded_is_invalid_argument() {
    let node = serve(|_| {}).await;
    let cases: [(&str, &str, Bytes); 7] = [
        ("a field that ends early", CREATE_USER, framed(&[0x0a, 0x40, 0x01])),
        ("a frame that ends early", GET_USER, flagged(0, 100, &GET_FINE)),
        ("no message at all", GET_USER, Bytes::new()),
        ("a flag that nobody knows", GET_USER, flagged(9, 2, &GET_FINE)),
        ("compressed without saying how", GET_USER, flagged(1, 2, &GET_FINE)),
        ("text that is not UTF-8", FIND_USER, framed(&[0x0a, 0x02, 0xff, 0xfe])),
        (
            "groups nested 200 deep",
            GET_USER,
            framed(&[[0xa3, 0x06].repeat(200), [0xa4, 0x06].repeat(200)].concat()),
        ),
    ];
    for (what, path, body) in cases {
        let answer = raw::call(node.address, path, &[], body).await.unwrap();
        assert_eq!(answer.status().code(), Code::InvalidArgument, "{what}: {answer:?}");
        assert_refused(answer.status(), Code::InvalidArgument, "MALFORMED_MESSAGE");
        node.assert_healthy().await;
    }
}

#[tokio::test]
async fn broken_gzip_is_invalid_argument() {
    let node = serve(|_| {}).await;
    let body = flagged(1, 2, &GET_FINE);
    let answer = raw::call(node.address, GET_USER, &[("grpc-encoding", "gzip")], body).await.unwrap();
    assert_refused(answer.status(), Code::InvalidArgument, "MALFORMED_MESSAGE");
    node.assert_healthy().await;
}

#[tokio::test]
async fn bad_stream_message_is_invalid_argument() {
    let node = serve(|_| {}).await;
    let body = [framed(&[]), framed(&[0x0a, 0x40, 0x01])].concat();
    let answer = raw::call(node.address, IMPORT_USERS, &[], body.into()).await.unwrap();
    assert_refused(answer.status(), Code::InvalidArgument, "MALFORMED_MESSAGE");
    node.assert_healthy().await;
}

#[tokio::test]
async fn unknown_fields_are_passed_over() {
    let node = serve(|_| {}).await;
    let message = [&GET_FINE[..], &unknown_field(200 << 10)].concat();
    let answer = raw::call(node.address, GET_USER, &[], framed(&message)).await.unwrap();
    assert_eq!(answer.status().code(), Code::Ok);
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let node = serve(|_| {}).await;
    for path in ["/kith.user.v1.UserService/Nothing", "/kith.nothing.v1.Nothing/Get", "/", "/x"] {
        let answer = raw::call(node.address, path, &[], framed(&[])).await.unwrap();
        assert_eq!(answer.status().code(), Code::Unimplemented, "{path}");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn too_many_headers_end_only_the_call() {
    let node = serve(|_| {}).await;
    let long = "x".repeat(17 << 10);
    let refused = match raw::call(node.address, GET_USER, &[("x-long", &long)], framed(&GET_FINE)).await {
        Ok(answer) => answer.http == 431 || answer.status().code() == Code::ResourceExhausted,
        Err(_reset) => true,
    };
    assert!(refused);
    assert_eq!(node.seen.calls(), 0);
    node.assert_healthy().await;
}

#[tokio::test]
async fn a_timeout_that_is_none_is_invalid_argument() {
    let node = serve(|_| {}).await;
    for timeout in ["-1S", "abc", "", "1", "S", "1.5S", "999999999S", "1x"] {
        let headers = [("grpc-timeout", timeout)];
        let answer = raw::call(node.address, GET_USER, &headers, framed(&GET_FINE)).await.unwrap();
        assert_refused(answer.status(), Code::InvalidArgument, "INVALID_METADATA");
    }
    assert_eq!(node.seen.calls(), 0, "no handler saw one of them");
    node.assert_healthy().await;
}

#[tokio::test]
async fn huge_timeout_counts_as_the_longest() {
    let node = serve(|_| {}).await;
    let headers = [("grpc-timeout", "99999999H")];
    let answer = raw::call(node.address, GET_USER, &headers, framed(&GET_FINE)).await.unwrap();
    assert_eq!(answer.status().code(), Code::Ok);
}

#[tokio::test]
async fn past_deadline_ends_before_any_write() {
    let node = serve(|_| {}).await;
    let answer = raw::call(node.address, CREATE_USER, &[("grpc-timeout", "1n")], framed(&[])).await.unwrap();
    assert_refused(answer.status(), Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    assert_eq!(node.seen.calls(), 0);
    node.assert_healthy().await;
}

#[tokio::test]
async fn invalid_acting_user_is_invalid_argument() {
    let node = serve(|_| {}).await;
    for user in ["0", "-1", "abc", "", "9223372036854775808", "1 "] {
        let headers = [("kith-acting-user", user)];
        let answer = raw::call(node.address, GET_USER, &headers, framed(&GET_FINE)).await.unwrap();
        assert_refused(answer.status(), Code::InvalidArgument, "INVALID_METADATA");
    }
    let twice = [("kith-acting-user", "1"), ("kith-acting-user", "2")];
    let answer = raw::call(node.address, GET_USER, &twice, framed(&GET_FINE)).await.unwrap();
    assert_refused(answer.status(), Code::InvalidArgument, "INVALID_METADATA");
    assert_eq!(node.seen.calls(), 0);
}
