//! The console on the operations port: its files need no key and hold no data; its calls need one, as on the
//! gRPC port.

use std::{net::SocketAddr, time::Duration};

use kith_server::{Node, config::Config};
use serde_json::Value;

use crate::http::{Answer, EXPORT_USERS, GET_USER, JSON, send};

const KEY: &str = "correct-horse-battery-staple-one-key";
const GET_NODE: &str = "/kith.admin.v1.AdminService/GetNode";
const HERE: (&str, &str) = ("host", "localhost:8601");

/// Starts a node that wants a key.
async fn start() -> (Node, SocketAddr, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let key = data.path().join("kith.key");
    std::fs::write(&key, KEY).unwrap();
    let mut config = Config { data_dir: data.path().join("data"), ..Config::default() };
    config.listen.set_port(0);
    config.operations.listen.set_port(0);
    config.drain_wait = Duration::ZERO;
    config.api_key_file = Some(key);
    let node = Node::start(config).await.unwrap();
    let operations = node.addresses().operations.unwrap();
    (node, operations, data)
}

async fn call(at: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(at, "POST", path, &[headers, &[JSON]].concat(), "{}").await
}

#[tokio::test]
async fn page_is_served_with_its_headers() {
    let (node, at, _data) = start().await;
    for (path, kind) in
        [("/console", "html"), ("/console/app.js", "javascript"), ("/console/style.css", "css")]
    {
        let answer = send(at, "GET", path, &[HERE], "").await;
        assert_eq!(answer.code, 200, "{path}");
        let header = |name| answer.header(name).unwrap_or_default();
        assert!(header("content-type").contains(kind), "{path}");
        let policy = header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(
            (header("x-content-type-options"), header("referrer-policy"), header("cache-control")),
            ("nosniff", "no-referrer", "no-store"),
        );
    }
    assert_eq!(send(at, "GET", "/console/other.js", &[HERE], "").await.code, 404);
    node.stop(std::future::ready(())).await;
}

#[tokio::test]
async fn calls_of_the_console_need_the_key() {
    let (node, at, _data) = start().await;
    for path in [GET_NODE, GET_USER] {
        call(at, path, &[HERE]).await.assert_refused(401, "unauthenticated", "CREDENTIALS_MISSING");
        let wrong = [HERE, ("authorization", "Bearer another-key-that-no-caller-has-here")];
        call(at, path, &wrong).await.assert_refused(401, "unauthenticated", "CREDENTIALS_REFUSED");
    }
    let bearer = format!("Bearer {KEY}");
    let key = ("authorization", bearer.as_str());
    let own = ("origin", "http://localhost:8601");
    let answer = call(at, GET_NODE, &[HERE, own, key]).await;
    assert_eq!((answer.code, &answer.json()["state"]), (200, &Value::from("serving")));
    // Errors are those of the edge: they name the field, and which calls there are.
    let refused = call(at, GET_USER, &[HERE, own, key]).await;
    refused.assert_refused(400, "invalid_argument", "INVALID_ARGUMENT");
    assert_eq!(refused.field(), "user_id");
    assert_eq!(call(at, "/kith.user.v1.UserService/Other", &[HERE, key]).await.code, 404);
    assert_eq!(call(at, EXPORT_USERS, &[HERE, key]).await.code, 415, "streams have no JSON form");
    node.stop(std::future::ready(())).await;
}

#[tokio::test]
async fn other_pages_and_hosts_are_refused_with_a_key() {
    let (node, at, _data) = start().await;
    let bearer = format!("Bearer {KEY}");
    let key = ("authorization", bearer.as_str());
    for other in ["http://localhost:3000", "https://localhost:8601", "http://rebound.example", "null"] {
        let refused = call(at, GET_NODE, &[HERE, ("origin", other), key]).await;
        refused.assert_refused(403, "permission_denied", "ORIGIN_REFUSED");
    }
    for host in ["rebound.example:7601", "10.0.0.7:7601"] {
        let origin = format!("http://{host}");
        let headers = [("host", host), ("origin", origin.as_str()), key];
        call(at, GET_NODE, &headers).await.assert_refused(403, "permission_denied", "ORIGIN_REFUSED");
        assert_eq!(send(at, "GET", "/console", &headers, "").await.code, 403, "no key is entered there");
    }
    let preflight = [HERE, ("origin", "http://localhost:3000"), ("access-control-request-method", "POST")];
    let answer = send(at, "OPTIONS", GET_NODE, &preflight, "").await;
    assert_eq!((answer.code, answer.header("access-control-allow-origin")), (405, None));
    node.stop(std::future::ready(())).await;
}
