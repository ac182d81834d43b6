//! Malformed credentials are refused. After each the node is unchanged: healthy, and it accepts a valid key.

use kith_proto::user::v1::User;
use kith_server::auth::{Rights, Scope};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;

use crate::{
    edge::raw::framed,
    http::{self, GET_USER, JSON},
    node::assert_refused,
    secured_node::{ALL, NODE_PROOF, SecuredNode, bearer, key_of},
};

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const GET_NODE: &str = "/kith.admin.v1.AdminService/GetNode";
/// A key that `kith keys generate` could have made, except for its checksum.
const WRONG_SUM: &str = "kith_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst000000";

async fn node() -> SecuredNode {
    let node = SecuredNode::start([("few".to_owned(), Rights::of(&[Scope::UserRead]))]).await;
    node.create_user(User { user_id: 7, user_name: "ann".into(), ..Default::default() }).await;
    node
}

/// Checks that health needs no key, and that a key is accepted.
async fn assert_well(node: &SecuredNode, after: &str) {
    let health = node.grpc(HEALTH, &[], framed(&[])).await;
    assert!(health.is_none(), "after {after}: {health:?}");
    let key = bearer(ALL);
    let found = node.grpc(GET_USER, &[("authorization", &key)], framed(&[8, 7])).await;
    assert!(found.is_none(), "after {after}: {found:?}");
}

#[tokio::test]
async fn malformed_credentials_leave_no_trace() {
    let node = node().await;
    let (key, good) = (key_of(ALL), bearer(ALL));
    let bad = [
        String::new(),
        "Bearer".to_owned(),
        format!("Bearer {}", "k".repeat(8 * 1024 + 1 - 7)),
        "Bearer \u{e9}\u{e9}".to_owned(),
        format!("Bearer  {key}"),
        format!("Basic {key}"),
        key.clone(),
        format!("Bearer {key},{key}"),
        format!("Bearer {key}, Bearer {key}"),
        format!("Bearer {}", &key[..key.len() - 1]),
        format!("Bearer {key}{key}"),
        format!("Bearer {WRONG_SUM}"),
    ];
    for value in &bad {
        // The HTTP/2 client sends no other header.
        if value.is_ascii() {
            let refused = node.grpc(GET_USER, &[("authorization", value)], framed(&[8, 7])).await.unwrap();
            assert_refused(&refused, Code::Unauthenticated, "CREDENTIALS_REFUSED", None);
            assert!(!refused.message().contains(&key), "{refused:?}");
        }
        let answer =
            http::send(node.address, "POST", GET_USER, &[JSON, ("authorization", value)], "{}").await;
        answer.assert_refused(401, "unauthenticated", "CREDENTIALS_REFUSED");
        assert_well(&node, value).await;
    }
    for other in ["bearer", "BEARER"] {
        let value = format!("{other} {key}");
        assert!(
            node.grpc(GET_USER, &[("authorization", &value)], framed(&[8, 7])).await.is_none(),
            "{other}"
        );
    }
    let twice = [("authorization", good.as_str()), ("authorization", good.as_str())];
    let with_proof = [("authorization", good.as_str()), ("kith-node", NODE_PROOF)];
    for headers in [twice, with_proof] {
        let refused = node.grpc(GET_USER, &headers, framed(&[8, 7])).await.unwrap();
        assert_refused(&refused, Code::Unauthenticated, "CREDENTIALS_REFUSED", None);
        assert_well(&node, "two credentials").await;
    }
}

/// A trailing blank does not belong to an HTTP/1.1 header; in HTTP/2 it arrives.
#[tokio::test]
async fn key_with_trailing_blank_is_refused() {
    let node = node().await;
    let value = format!("{} ", bearer(ALL));
    let refused = node.grpc(GET_USER, &[("authorization", &value)], framed(&[8, 7])).await.unwrap();
    assert_refused(&refused, Code::Unauthenticated, "CREDENTIALS_REFUSED", None);
    let answer =
        http::send(node.address, "POST", GET_USER, &[JSON, ("authorization", &value)], "{\"userId\":7}")
            .await;
    assert_eq!(answer.code, 200);
    assert_well(&node, "a blank").await;
}

#[tokio::test]
async fn forbidden_header_ends_only_its_connection() {
    let node = node().await;
    let mut socket = TcpStream::connect(node.address).await.unwrap();
    let head = format!("POST {GET_USER} HTTP/1.1\r\nhost: kith\r\nauthorization: {}\0\r\n\r\n", bearer(ALL));
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.ok();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_well(&node, "a NUL").await;
}

#[tokio::test]
async fn large_body_without_a_right_gets_an_answer() {
    let node = node().await;
    let body = format!("{{\"userId\": \"{}\"}}", "7".repeat(1 << 20));
    let wrong = [JSON, ("authorization", "Bearer wrong")];
    let answer = http::send(node.address, "POST", GET_USER, &wrong, &body).await;
    answer.assert_refused(401, "unauthenticated", "CREDENTIALS_REFUSED");
    let few = bearer("few");
    let answer = http::send(node.address, "POST", GET_NODE, &[JSON, ("authorization", &few)], &body).await;
    answer.assert_refused(403, "permission_denied", "SCOPE_MISSING");
    let good = bearer(ALL);
    let answer = http::send(node.address, "POST", GET_USER, &[JSON, ("authorization", &good)], &body).await;
    assert!(answer.code >= 400 && answer.code < 500, "{answer:?}");
    assert_well(&node, "large bodies").await;
}

/// Paths are compared byte by byte: no other form has another method's rule, or none.
#[tokio::test]
async fn other_forms_of_a_path_are_no_method() {
    let node = node().await;
    let few = bearer("few");
    for path in [
        "/kith.admin.v1.AdminService/Get%4eode",
        "/kith.admin.v1.AdminService%2FGetNode",
        "/kith.user.v1.UserService/../../kith.admin.v1.AdminService/GetNode",
        "/kith.admin.v1.AdminService/GetNode/",
        "//kith.admin.v1.AdminService/GetNode",
        "/KITH.admin.v1.AdminService/GetNode",
    ] {
        let without = node.grpc(path, &[], framed(&[])).await.unwrap();
        assert_refused(&without, Code::Unauthenticated, "CREDENTIALS_MISSING", None);
        let unknown = node.grpc(path, &[("authorization", &few)], framed(&[])).await.unwrap();
        assert_refused(&unknown, Code::Unimplemented, "METHOD_UNKNOWN", None);
        assert_well(&node, path).await;
    }
    let refused =
        node.grpc(&format!("{GET_NODE}?x=1"), &[("authorization", &few)], framed(&[])).await.unwrap();
    assert_refused(&refused, Code::PermissionDenied, "SCOPE_MISSING", None);
}
