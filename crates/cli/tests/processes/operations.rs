//! The operations port: its answers, with words where there is no figure, and never stored data.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{
    node,
    spawned::{Started, http},
};
use kith_cache::{CacheError, LoadError};
use kith_proto::user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient};
use kith_server::health::{Reporter, State};
use kith_service::error::Error;
use kith_store::{Outcome, StoreError};

#[test]
fn every_path_answers_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &[]);
    let get = |path: &str| http(&node.operations(), "GET", path);
    assert_eq!(get("/livez"), (200, "alive\n".to_owned()));
    let (code, index) = get("/");
    assert!(
        code == 200
            && ["/livez", "/readyz", "/metrics", "/openapi.json", "/console"]
                .iter()
                .all(|path| index.contains(path)),
        "{index}"
    );
    assert_eq!(get("/openapi.json"), (200, kith_server::openapi::document().unwrap()));
    let (code, body) = get("/healthz");
    assert_eq!((code, body), (404, format!("there is nothing at /healthz; there is:\n{index}")));
    let (code, _) = http(&node.operations(), "POST", "/readyz");
    assert_eq!(code, 405);
}

#[test]
fn stop_is_a_reason_and_keeps_the_last_one() {
    let health = Reporter::new();
    assert_eq!(health.causes()[0].reason, "starting");
    health.set(State::Serving);
    assert_eq!(health.causes(), []);
    health.set(State::StoreAway);
    health.set(State::Stopping);
    let reasons: Vec<_> = health.causes().iter().map(|cause| cause.reason).collect();
    assert_eq!(reasons, ["draining", "store_away"]);
    health.set(State::Serving);
    assert_eq!(health.state(), State::Stopping, "what is found out late undoes no stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_nothing_of_what_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let started = Started::new(dir.path(), &[]);
    let mut users = UserServiceClient::new(started.channel().await);
    let user = User {
        user_name: "zebulon".to_owned(),
        nick_name: "Quagga".to_owned(),
        email: "quagga@example.org".to_owned(),
        phone: "+15550001234".to_owned(),
        params: node::params([("lang", "tlhingan")]),
        ..User::default()
    };
    let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
    let id = users.create_user(request).await.unwrap().into_inner().user.unwrap().user_id;
    for path in ["/", "/livez", "/readyz", "/metrics", "/openapi.json", "/console", "/users"] {
        let (_, body) = http(&started.operations(), "GET", path);
        for shown in ["zebulon", "Quagga", "quagga@", "15550001234", "tlhingan", &id.to_string()] {
            assert!(!body.contains(shown), "{path} shows {shown}");
        }
    }
}

/// A driver's error with the worst possible text.
#[derive(Debug)]
struct Driver;

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "mongodb://ann:hunter2@db.internal/ SELECT * FROM users WHERE key = 'quagga' at store.rs:1",
        )
    }
}

impl std::error::Error for Driver {}

#[test]
fn failing_store_hides_its_driver_from_callers() {
    let source = || std::sync::Arc::new(Driver);
    let failures = [
        StoreError::Unavailable { outcome: Outcome::Unknown, source: source() },
        StoreError::Internal { outcome: Outcome::NotApplied, source: source() },
        StoreError::Full { source: source() },
        StoreError::Corrupt { source: source() },
    ];
    for failure in failures {
        let wrapped = CacheError::Load(LoadError::new(failure.clone()));
        for error in [Error::store("user", &failure), Error::cache("user", &wrapped)] {
            let status = tonic::Status::from(error);
            let text = format!("{status:?} {}", String::from_utf8_lossy(status.details()));
            for secret in ["hunter2", "mongodb", "db.internal", "SELECT", "quagga", ".rs:"] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
        assert!(!failure.to_string().contains("hunter2"), "nor the log that writes its text");
    }
}
