//! A server that answers and refuses: what is reported, and that no refusal passes for a success.

use std::{path::PathBuf, time::Duration};

use kith_cache::remote::{
    Heartbeat, Log as _, LogEntry, News, Registry as _, SharedError,
    redis::{RedisOptions, RedisShared, Refusal},
};

use crate::{
    server::{Cluster, Server, command},
    stage::{accepted, eventually, options},
};

/// How often a refused subscription is tried: whether the client sees the error answer is a race.
const ROUNDS: usize = 20;

/// A user of the server whose rights these words change; it may do everything at first.
const USER: [&str; 5] = ["kith", "on", ">sesame", "~*", "&*"];

async fn refusal(options: RedisOptions) -> Option<Refusal> {
    RedisShared::connect(options).await.unwrap().refusal().await
}

fn at(url: String) -> RedisOptions {
    RedisOptions { url, ..options("") }
}

/// The address for a user with these rights in addition to [`USER`].
async fn user(server: &Server, rights: &[&str]) -> String {
    let operator = server.operator().await;
    command(&operator, "ACL", &[&["SETUSER"], &USER[..], &["+@all"], rights].concat()).await;
    server.url().replace("redis://", "redis://kith:sesame@")
}

fn rights(commands: &[&str]) -> Option<Refusal> {
    Some(Refusal::Rights { commands: commands.iter().map(|name| (*name).to_owned()).collect() })
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn refused_subscription_is_an_error() {
    let server = Server::start(&[]);
    let (shared, operator) = (accepted(options(&server.url())).await, server.operator().await);
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    command(&operator, "ACL", &["SETUSER", "default", "resetchannels"]).await;
    assert_eq!(frames.next().await, None, "the server cuts it");
    for _ in 0..ROUNDS {
        assert_eq!(shared.subscribe(1, 1).await.err(), Some(SharedError::Refused));
    }
    let denied = shared.refusal().await;
    assert_eq!(denied, rights(&["PUBLISH", "SUBSCRIBE"]));
    command(&operator, "ACL", &["SETUSER", "default", "allchannels"]).await;
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    shared.change(1, &[], LogEntry { nonce: 1, message: b"message", strict: false }).await.unwrap();
    assert!(matches!(frames.next().await, Some(News::Entry(_))));
    assert_eq!(shared.refusal().await, None);
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn credentials_and_numbers_are_named() {
    let server = Server::start(&["--requirepass", "sesame"]);
    let with = |user: &str| server.url().replace("redis://", &format!("redis://{user}@"));
    let credentials = |code| Some(Refusal::Credentials { code });
    assert_eq!(refusal(at(with("default:sesame"))).await, None);
    assert_eq!(refusal(at(with("default:wrong"))).await, credentials("WRONGPASS"));
    assert_eq!(refusal(at(with("nobody:sesame"))).await, credentials("WRONGPASS"));
    assert_eq!(refusal(at(server.url())).await, credentials("NOAUTH"));
    let index = format!("{}/99", with("default:sesame"));
    assert_eq!(refusal(at(index)).await, Some(Refusal::Index(99)));
    let cluster = with("default:sesame").replace("redis:", "redis-cluster:");
    assert_eq!(refusal(at(cluster)).await, Some(Refusal::NoCluster));
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn healthy_cluster_refuses_nothing() {
    let cluster = Cluster::start().await;
    assert_eq!(refusal(at(cluster.url())).await, None);
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn missing_rights_are_named() {
    let server = Server::start(&[]);
    for (taken, commands) in [
        (&["-publish"][..], &["PUBLISH"][..]),
        (&["-subscribe"], &["SUBSCRIBE"]),
        (&["-evalsha", "-xrange"], &["EVALSHA", "XRANGE"]),
        (&["-eval"], &["EVAL"]),
        (&["-info"], &["INFO"]),
        (&["-client|info"], &["CLIENT"]),
        (&["resetchannels", "&other"], &["PUBLISH", "SUBSCRIBE"]),
    ] {
        let url = user(&server, taken).await;
        assert_eq!(refusal(at(url)).await, rights(commands), "{taken:?}");
        command(&server.operator().await, "ACL", &["DELUSER", "kith"]).await;
    }
    let url = user(&server, &["resetkeys", "~other"]).await;
    let Some(Refusal::Rights { commands }) = refusal(at(url)).await else { panic!("it may use no key") };
    assert!(commands.iter().any(|name| name == "GET") && commands.iter().any(|name| name == "SET"));
    let url = user(&server, &["allkeys"]).await;
    assert_eq!(refusal(at(url)).await, None);
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn renamed_commands_are_named() {
    for name in ["HELLO", "EVAL", "EVALSHA", "XADD"] {
        let server = Server::start(&["--rename-command", name, "OTHER"]);
        let commands = vec![name.to_owned()];
        assert_eq!(refusal(at(server.url())).await, Some(Refusal::Commands { commands }), "{name}");
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn transport_mismatch_is_named() {
    let plain = Server::start(&[]);
    let tls = plain.url().replace("redis:", "rediss:");
    assert_eq!(refusal(at(tls)).await, Some(Refusal::PlainText));
    let (server, cert) = Server::start_with_tls();
    assert_eq!(refusal(at(server.url())).await, Some(Refusal::Tls));
    let url = server.url().replace("redis:", "rediss:");
    assert_eq!(refusal(at(url.clone())).await, Some(Refusal::Certificate));
    let trusting = |file: PathBuf| RedisOptions { ca_file: Some(file), ..at(url.clone()) };
    assert_eq!(refusal(trusting(cert.clone())).await, None);
    accepted(trusting(cert.clone())).await;
    let no_file = RedisShared::connect(trusting(cert.with_file_name("none.pem"))).await;
    assert!(no_file.unwrap_err().to_string().starts_with("ca_file: "));
    std::fs::remove_dir_all(cert.parent().unwrap()).unwrap();
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn server_that_takes_no_writes_is_named() {
    let server = Server::start(&[]);
    let operator = server.operator().await;
    command(&operator, "CONFIG", &["SET", "maxmemory", "1"]).await;
    assert_eq!(refusal(at(server.url())).await, Some(Refusal::Writes { code: "OOM" }));
    command(&operator, "CONFIG", &["SET", "maxmemory", "0"]).await;
    let wanting = RedisOptions { replicas_min: 1, ..at(server.url()) };
    assert_eq!(refusal(wanting).await, Some(Refusal::Replicas(1)));
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn prefix_belongs_to_one_database_at_a_time() {
    let server = Server::start(&[]);
    let (prefix, operator) = (options("").prefix, server.operator().await);
    let of = |database_id| RedisOptions { database_id, prefix: prefix.clone(), ..at(server.url()) };
    let (one, other) = (accepted(of(1)).await, accepted(of(u64::MAX)).await);
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
    assert_eq!(one.prefix_owner(long).await, Ok(None));
    assert_eq!(one.own_prefix(long).await, Ok(None));
    assert_eq!(other.own_prefix(long).await, Ok(Some(1)));
    assert_eq!(other.prefix_owner(long).await, Ok(Some(1)));
    one.enter(3, &Heartbeat::default()).await.unwrap();
    one.change(3, &[], LogEntry { nonce: 1, message: b"message", strict: false }).await.unwrap();
    eventually("it is free", async || other.own_prefix(short).await == Ok(None)).await;
    assert_eq!(one.own_prefix(long).await, Ok(Some(u64::MAX)));
    for key in ["log:3", "nodes:3", "epoch"] {
        let left = command(&operator, "PTTL", &[&format!("{{{}}}:{key}", of(1).tag())]).await;
        assert!(left.as_i64() > Some(0), "what the first one left does not expire: {key} {left:?}");
    }
    command(&operator, "FLUSHALL", &[]).await;
    assert_eq!(one.own_prefix(long).await, Ok(None), "an emptied server forgets it");
}
