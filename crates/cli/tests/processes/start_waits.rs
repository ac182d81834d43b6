//! A node that cannot serve yet reports what it waits for, and continues by itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "cluster")]
use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    process::Command,
};

use crate::spawned::{Started, kith, output_of};
#[cfg(feature = "cluster")]
use crate::{cluster::hand::host, spawned::refused};
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use serde_json::Value;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Returns the results of a health check and a call.
async fn asked(node: &Started) -> (i32, tonic::Code) {
    let channel = node.channel().await;
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
    let call =
        UserServiceClient::new(channel).get_user(GetUserRequest { user_id: 1, consistency: None }).await;
    (health.into_inner().status, call.unwrap_err().code())
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

fn only_reason(body: &Value) -> (&str, &str) {
    let reasons = body["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{body}");
    let since = reasons[0]["since"].as_str().unwrap();
    assert!(humantime::parse_rfc3339(since).is_ok(), "{since}");
    (reasons[0]["reason"].as_str().unwrap(), reasons[0]["message"].as_str().unwrap())
}

#[cfg(feature = "embedded")]
#[tokio::test(flavor = "multi_thread")]
async fn manual_migration_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let manual = ["--set", "store.migrate=manual"];
    let node = Started::new(dir.path(), &manual);
    let line = "migration 0001 users and groups pending: run `kith migrate`";
    assert_eq!(node.banner["state"], "migration_pending");
    assert_eq!(node.banner["reasons"][0]["message"], line);
    let (code, body) = node.readyz();
    assert_eq!((code, only_reason(&body)), (503, ("migration_pending", line)));
    assert_eq!(asked(&node).await, (NOT_SERVING, tonic::Code::Unavailable));
    assert!(node.logged().contains(line), "{}", node.logged());

    let (code, _, errors) = output_of(kith(dir.path(), &["migrate"]));
    assert_eq!((code, errors.as_str()), (Some(0), ""), "the node has let the file go");
    let body = node.until_ready(|code, _| code == 200);
    assert_eq!(body["reasons"], serde_json::json!([]));
    assert_eq!(asked(&node).await, (SERVING, tonic::Code::NotFound));
    let (code, rest, _) = node.terminate();
    assert_eq!((code, rest.as_str()), (Some(0), ""));
    let again = Started::new(dir.path(), &manual);
    assert_eq!(again.banner["state"], "serving", "nothing is pending any more");
}

#[cfg(feature = "cluster")]
fn cluster(uri: &str) -> Vec<String> {
    let set = [
        "store.backend=cluster",
        &format!("store.mongodb.uri={uri}"),
        "store.mongodb.server_selection=200ms",
    ]
    .map(|pair| ["--set".to_owned(), pair.to_owned()]);
    set.concat()
}

#[cfg(feature = "cluster")]
fn words_of(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread")]
async fn absent_mongodb_is_named_without_password() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = cluster(&format!("mongodb://ann:hunter2@{free}/?replicaSet=rs0"));
    let node = Started::new(dir.path(), &words_of(&arguments));
    assert_eq!(node.banner["state"], "starting");
    let waits = node.banner["reasons"][0]["message"].as_str().unwrap();
    assert!(waits.contains(&free.to_string()), "{waits}");
    let line = format!(
        "MongoDB at {free} (database kith) does not answer as a primary; start it, or correct store.mongodb.uri"
    );
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "store_away");
    let (_, message) = only_reason(&body);
    assert!(message.starts_with(&line) && message.ends_with("tries)"), "{message}");
    let (_, first) = only_reason(&body);
    let first = first.to_owned();
    node.until_ready(|code, body| code == 503 && body["reasons"][0]["message"] != first.as_str());
    assert_eq!(asked(&node).await, (NOT_SERVING, tonic::Code::Unavailable));
    let banner = node.banner.to_string();
    let (code, _, logged) = node.terminate();
    assert_eq!(code, Some(0), "{logged}");
    assert!(logged.contains(&line) && logged.contains("tries=1"), "{logged}");
    for text in [banner, logged, body.to_string()] {
        assert!(!text.contains("hunter2") && !text.contains("ann:"), "{text}");
    }
}

#[cfg(feature = "cluster")]
#[test]
fn migrate_without_mongodb_fails_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = cluster(&format!("mongodb://ann:hunter2@{free}/"));
    let mut command: Command = kith(dir.path(), &words_of(&arguments));
    command.arg("migrate");
    let begun = std::time::Instant::now();
    let found = refused(command);
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    let line = format!(
        "kith: MongoDB at {free} (database kith) does not answer as a primary; start it, or correct \
         store.mongodb.uri"
    );
    assert_eq!(found, line);
}

#[cfg(feature = "cluster")]
#[test]
#[ignore = "needs MongoDB: run cargo xtask test"]
fn refusal_of_mongodb_is_one_line() {
    let (dir, host) = (tempfile::tempdir().unwrap(), host());
    for (uri, expected) in [
        (format!("mongodb://ann:hunter2@{host}/?replicaSet=rs0"), "refuses the user or password"),
        (format!("mongodb://{host}/?replicaSet=another"), "belongs to the replica set rs0"),
        (format!("mongodb://{host}/?replicaSet=rs0&tls=true"), "wants TLS and MongoDB at"),
    ] {
        let free = ["--listen", "127.0.0.1:0", "--set", "operations.enabled=false"];
        let arguments = cluster(&uri);
        for command in [&["serve"][..], &["migrate"]] {
            let (code, _, stderr) =
                output_of(kith(dir.path(), &[&free[..], &words_of(&arguments), command].concat()));
            assert!(stderr.contains(expected) && stderr.contains(&host), "{stderr}");
            assert!(!stderr.contains("hunter2"), "{stderr}");
            assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
        }
    }
}

/// Opens a proxy to the tests' MongoDB on which the replica set has another name for its member, which does
/// not resolve. Yields the proxy's address and the name.
#[cfg(feature = "cluster")]
fn renamed() -> (String, String) {
    let (host, listener) = (host(), TcpListener::bind("127.0.0.1:0").unwrap());
    let member = host.replace("127.0.0.1", "a.invalid");
    assert_eq!(member.len(), host.len(), "a name of another length would break the messages");
    let (at, to) = (listener.local_addr().unwrap().to_string(), member.clone());
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&host).unwrap();
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || copy(near_too, far_too, |_| {}));
            let (from, to) = (host.clone(), to.clone());
            std::thread::spawn(move || copy(far, near, move |bytes| rename(bytes, &from, &to)));
        }
    });
    (at, member)
}

#[cfg(feature = "cluster")]
fn rename(bytes: &mut [u8], from: &str, to: &str) {
    for at in 0..(bytes.len() + 1).saturating_sub(from.len()) {
        let part = &mut bytes[at..at + from.len()];
        if part == from.as_bytes() {
            part.copy_from_slice(to.as_bytes());
        }
    }
}

#[cfg(feature = "cluster")]
fn copy(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        change(&mut bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

/// Checks that a node waits for its store with these words, and that `kith migrate` ends with them in one
/// line.
#[cfg(feature = "cluster")]
fn assert_waits(uri: &str, words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let arguments = cluster(uri);
    let node = Started::new(dir.path(), &words_of(&arguments));
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "store_away");
    let (_, message) = only_reason(&body);
    let line = refused(kith(dir.path(), &[&words_of(&arguments)[..], &["migrate"]].concat()));
    for word in words {
        assert!(message.contains(word) && line.contains(word), "{word}: {message}; {line}");
    }
    assert!(!message.contains("sesame") && !line.contains("sesame"));
}

#[cfg(feature = "cluster")]
#[test]
fn host_that_does_not_resolve_is_named() {
    let words = ["the name of db.kith.invalid:27017 does not resolve", "store.mongodb.uri"];
    assert_waits("mongodb://ann:sesame@db.kith.invalid:27017/?replicaSet=rs0", &words);
}

#[cfg(feature = "cluster")]
#[test]
#[ignore = "needs MongoDB: run cargo xtask test"]
fn members_that_do_not_resolve_are_named() {
    let (at, member) = renamed();
    let words = [at.as_str(), "answers, but the names", member.as_str(), "rs.reconfig()"];
    assert_waits(&format!("mongodb://{at}/?replicaSet=rs0"), &words);
}

#[cfg(feature = "cluster")]
#[test]
fn database_of_the_uri_is_not_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = cluster("mongodb://ann:hunter2@127.0.0.1:1/shop?replicaSet=rs0");
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["migrate"]] {
        let line = refused(kith(dir.path(), &[&words_of(&arguments)[..], command].concat()));
        assert!(line.contains("names the database shop and store.mongodb.database is kith"), "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }
}
