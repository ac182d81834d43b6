//! Bad input at the edge (reliability rows A01 to A08, A11 to A13): callers get the expected code, and the
//! node answers afterwards as before.

use std::io::Write as _;

use crate::edge::{
    ServedEdge, assert_refused,
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

/// The fault in a call, and its path, headers and body.
type BadCall<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Bytes);

/// Checks that each call is refused before a handler sees it, and that the node is healthy afterwards.
async fn assert_each_refused(calls: &[BadCall<'_>], code: Code, reason: &str) {
    let node = serve(|_| {}).await;
    for (what, path, headers, body) in calls {
        let before = node.seen.calls();
        let answer = raw::call(node.address, path, headers, body.clone()).await.unwrap();
        assert_eq!(answer.status().code(), code, "{what}: {answer:?}");
        assert_refused(answer.status(), code, reason);
        assert_eq!(node.seen.calls(), before, "{what}: no handler saw it");
        node.assert_healthy().await;
    }
}

async fn assert_answered(node: &ServedEdge, path: &str, headers: &[(&str, &str)], message: &[u8]) {
    let answer = raw::call(node.address, path, headers, framed(message)).await.unwrap();
    assert_eq!(answer.status().code(), Code::Ok, "{answer:?}");
}

/// Compresses a message by gzip and by Zstandard, each in its frame.
fn packed(message: &[u8]) -> (Bytes, Bytes) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(message).unwrap();
    let (gzip, zstd) = (gzip.finish().unwrap(), zstd::stream::encode_all(message, 0).unwrap());
    (flagged(1, gzip.len(), &gzip), flagged(1, zstd.len(), &zstd))
}

#[tokio::test]
async fn packed_messages_are_answered() {
    let node = serve(|_| {}).await;
    let (gzip, zstd) = packed(&[&GET_FINE[..], &unknown_field(200 << 10)].concat());
    for (packing, body) in [("gzip", gzip), ("zstd", zstd), ("gzip", framed(&GET_FINE))] {
        let answer = raw::call(node.address, GET_USER, &[("grpc-encoding", packing)], body).await.unwrap();
        assert_eq!(answer.status().code(), Code::Ok, "{packing}: {answer:?}");
    }
}

#[tokio::test]
async fn large_messages_are_resource_exhausted() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..32 {
        gzip.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < 200 << 10, "small enough to pass: {}", bomb.len());
    let (gzip, zstd) = packed(&unknown_field(300 << 10));
    let calls: [BadCall<'_>; 5] = [
        ("gzip above the limit of its method", GET_USER, &[("grpc-encoding", "gzip")], gzip),
        ("zstd above the limit of its method", GET_USER, &[("grpc-encoding", "zstd")], zstd),
        ("a large unary message", GET_USER, &[], framed(&unknown_field(300 << 10))),
        ("a large batch", BATCH_GET_USERS, &[], framed(&unknown_field(1100 << 10))),
        ("a gzip bomb", GET_USER, &[("grpc-encoding", "gzip")], flagged(1, bomb.len(), &bomb)),
    ];
    assert_each_refused(&calls, Code::ResourceExhausted, "MESSAGE_TOO_LARGE").await;
}

#[tokio::test]
async fn large_batches_and_unknown_fields_pass() {
    let node = serve(|_| {}).await;
    assert_answered(&node, BATCH_GET_USERS, &[], &unknown_field(300 << 10)).await;
    let message = [&GET_FINE[..], &unknown_field(200 << 10)].concat();
    assert_answered(&node, GET_USER, &[], &message).await;
}

#[tokio::test]
async fn what_cannot_be_decoded_is_invalid_argument() {
    let deep_groups = [[0xa3, 0x06].repeat(200), [0xa4, 0x06].repeat(200)].concat();
    let bad_second = [framed(&[]), framed(&[0x0a, 0x40, 0x01])].concat();
    let calls: [BadCall<'_>; 9] = [
        ("a field that ends early", CREATE_USER, &[], framed(&[0x0a, 0x40, 0x01])),
        ("a frame that ends early", GET_USER, &[], flagged(0, 100, &GET_FINE)),
        ("no message at all", GET_USER, &[], Bytes::new()),
        ("an unknown flag", GET_USER, &[], flagged(9, 2, &GET_FINE)),
        ("compressed without saying how", GET_USER, &[], flagged(1, 2, &GET_FINE)),
        ("text that is not UTF-8", FIND_USER, &[], framed(&[0x0a, 0x02, 0xff, 0xfe])),
        ("groups nested 200 deep", GET_USER, &[], framed(&deep_groups)),
        ("broken gzip", GET_USER, &[("grpc-encoding", "gzip")], flagged(1, 2, &GET_FINE)),
        ("a bad message of a stream", IMPORT_USERS, &[], bad_second.into()),
    ];
    assert_each_refused(&calls, Code::InvalidArgument, "MALFORMED_MESSAGE").await;
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
async fn wrong_metadata_is_invalid_argument() {
    for timeout in ["-1S", "abc", "", "1", "S", "1.5S", "999999999S", "1x"] {
        let call: BadCall<'_> = (timeout, GET_USER, &[("grpc-timeout", timeout)], framed(&GET_FINE));
        assert_each_refused(&[call], Code::InvalidArgument, "INVALID_METADATA").await;
    }
    for user in ["0", "-1", "abc", "", "9223372036854775808", "1 ", "007", "+7"] {
        let call: BadCall<'_> = (user, GET_USER, &[("kith-acting-user", user)], framed(&GET_FINE));
        assert_each_refused(&[call], Code::InvalidArgument, "INVALID_METADATA").await;
    }
    let twice = [("kith-acting-user", "1"), ("kith-acting-user", "2")];
    let call: BadCall<'_> = ("two users", GET_USER, &twice, framed(&GET_FINE));
    assert_each_refused(&[call], Code::InvalidArgument, "INVALID_METADATA").await;
}

#[tokio::test]
async fn past_deadline_ends_before_any_write() {
    let call: BadCall<'_> = ("a past deadline", CREATE_USER, &[("grpc-timeout", "1n")], framed(&[]));
    assert_each_refused(&[call], Code::DeadlineExceeded, "DEADLINE_EXCEEDED").await;
}
