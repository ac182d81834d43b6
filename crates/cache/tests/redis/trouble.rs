//! Faults of a server: it dies, freezes, fills up, follows another.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use kith_cache::{
    Version,
    remote::{
        Acquired, Cell, CellWrite, Cells as _, FillResult, Heartbeat, Log as _, LogEntry, Registry as _,
        SharedError,
        redis::{
            BreakerState, BroadcastTest, RedisError, RedisOptions, RedisScript, RedisShared, Reply,
            ScriptCall, ScriptRunner,
        },
    },
};

use crate::{
    server::{Server, command},
    stage::{accept, accepted, eventually, options},
};

/// How much longer than its bound a call may take: the machine has other work.
const LATE: Duration = Duration::from_millis(150);

fn key() -> [String; 1] {
    ["1:a:k".to_owned()]
}

fn quick(server: &Server) -> RedisOptions {
    let defaults = RedisOptions::default();
    RedisOptions {
        command_timeout: defaults.command_timeout,
        connect_timeout: defaults.connect_timeout,
        ..options(&server.url())
    }
}

async fn change(shared: &RedisShared) -> Result<u64, SharedError> {
    let writes = [(key()[0].clone(), CellWrite::Invalidate(Some(Version::new(9))))];
    let changed =
        shared.change(1, &writes, LogEntry { nonce: 1, message: b"message", strict: false }).await?;
    Ok(changed.number)
}

async fn fill(shared: &RedisShared) {
    shared.acquire(&key(), 1).await.unwrap();
    let cell = Cell { header: kith_cache::remote::Header { token: 1, ..value().header }, ..value() };
    assert_eq!(shared.fill(&[(key()[0].clone(), cell)]).await.unwrap(), [FillResult::Stored]);
}

fn value() -> Cell {
    Cell::value(1, Version::new(4), b"four".to_vec())
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn unaccepted_server_is_not_used() {
    let server = Server::start(&[]);
    let shared = RedisShared::connect(options(&server.url())).await.unwrap();
    let probed = shared.enter(1, &Heartbeat::default()).await.unwrap();
    assert_eq!(shared.read(&key()).await, Err(SharedError::Unavailable));
    assert_eq!(change(&shared).await, Err(SharedError::Unavailable));
    shared.accept("another");
    assert_eq!(shared.heads(&key()).await, Err(SharedError::Unavailable));
    assert_eq!(shared.acquire(&key(), 1).await, Err(SharedError::Unavailable));
    shared.accept(&probed.server);
    assert_eq!(shared.read(&key()).await, Ok(vec![None]));
    assert_eq!(change(&shared).await, Ok(1));
    shared.accept("another");
    assert_eq!(shared.read(&key()).await, Err(SharedError::Unavailable));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn restarted_server_must_be_accepted() {
    let mut server = Server::start(&[]);
    let shared = accepted(options(&server.url())).await;
    let before = shared.enter(1, &Heartbeat::default()).await.unwrap().server;
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    for _round in 0..5 {
        server.restart();
        // The loss is seen, and the client is about to connect again: what is asked now waits, and is the
        // first that the new connection carries.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let ask = || {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { shared.read(&key()).await })
        };
        let answers = join_all((0..1_000).map(|_| ask())).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().is_err()), "another server answered");
        let mut again = String::new();
        eventually("it is there again", async || {
            assert!(shared.read(&key()).await.is_err(), "another server answered");
            again =
                shared.enter(1, &Heartbeat::default()).await.map(|probed| probed.server).unwrap_or_default();
            !again.is_empty()
        })
        .await;
        assert_ne!(again, before);
        for _ in 0..100 {
            assert_eq!(shared.read(&key()).await, Err(SharedError::Unavailable));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        accept(&shared).await;
    }
    assert_eq!(frames.next().await, None, "the subscriber learns that it lost messages");
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn cut_connection_is_restored_and_trusted() {
    let server = Server::start(&[]);
    let shared = accepted(options(&server.url())).await;
    fill(&shared).await;
    let operator = server.operator().await;
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    for kind in ["normal", "pubsub"] {
        command(&operator, "CLIENT", &["KILL", "TYPE", kind, "SKIPME", "yes"]).await;
    }
    assert_eq!(frames.next().await, None);
    eventually("it is read again", async || {
        shared
            .read(&key())
            .await
            .is_ok_and(|found| found[0].as_ref().is_some_and(|cell| *cell.payload == *b"four"))
    })
    .await;
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn node_starts_without_redis_and_finds_it_later() {
    let mut server = Server::start(&[]);
    server.kill();
    let shared = RedisShared::connect(quick(&server)).await.unwrap();
    assert_eq!(shared.read(&key()).await, Err(SharedError::Unavailable));
    assert!(shared.subscribe(1, 1).await.is_err());
    assert_eq!(shared.self_test().await, BroadcastTest::Unavailable);
    assert_eq!(shared.fitness().await.is_fit(), None);
    server.restart();
    accept(&shared).await;
    assert!(matches!(shared.self_test().await, BroadcastTest::Received(_)));
    let fitness = shared.fitness().await;
    assert!(!fitness.version.is_empty() && fitness.eviction == "noeviction", "{fitness}");
    command(&server.operator().await, "CONFIG", &["SET", "maxmemory-policy", "allkeys-lru"]).await;
    assert_eq!(shared.fitness().await.is_fit(), Some(false));
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn frozen_server_blocks_no_caller() {
    let server = Server::start(&[]);
    let options = quick(&server);
    let (bound, proof_bound) = (options.command_timeout + LATE, options.unresponsive + LATE);
    let shared = accepted(options).await;
    fill(&shared).await;
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    server.freeze();
    for round in 0..8 {
        let began = Instant::now();
        match round % 4 {
            0 => assert!(shared.read(&key()).await.is_err()),
            1 => assert!(change(&shared).await.is_err()),
            2 => assert!(shared.acquire(&[key(), key()].concat(), 1).await.is_err()),
            _ => assert!(shared.enter(1, &Heartbeat::default()).await.is_err()),
        }
        let bound = if round % 4 == 3 { proof_bound } else { bound };
        assert!(began.elapsed() < bound, "call {round} took {:?}", began.elapsed());
    }
    assert_eq!(shared.breaker(), BreakerState::Open);
    let began = Instant::now();
    assert_eq!(shared.read(&key()).await, Err(SharedError::Unavailable));
    assert!(began.elapsed() < Duration::from_millis(50), "an open breaker answers at once");
    assert!(shared.subscribe(1, 1).await.is_err(), "it does not hang either");
    assert_eq!(frames.next().await, None, "a dead connection is noticed although nothing is received on it");
    server.thaw();
    eventually("it is read again", async || shared.read(&key()).await.is_ok_and(|found| found[0].is_some()))
        .await;
    assert_eq!(shared.breaker(), BreakerState::Closed);
    assert!(shared.breaker_opened() >= 1);
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn busy_server_answers_scripts() {
    let server = Server::start(&[]);
    let options = quick(&server);
    let pause = (options.command_timeout * 2).as_millis().to_string();
    let runner = ScriptRunner::connect(options).await.unwrap();
    let (script, key) = (RedisScript::new("return 7"), format!("{{{}}}", runner.tag()));
    let call = || async {
        let none: [&str; 0] = [];
        runner.run(&[ScriptCall::new(&script, vec![key.clone()], none)]).await.remove(0)
    };
    eventually("it is connected", async || call().await.is_ok()).await;
    command(&server.operator().await, "CLIENT", &["PAUSE", &pause, "ALL"]).await;
    assert_eq!(call().await, Ok(Reply::Number(7)), "no store could answer instead");
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn full_server_refuses_writes_and_trust() {
    let server = Server::start(&[]);
    let shared = accepted(options(&server.url())).await;
    fill(&shared).await;
    let operator = server.operator().await;
    command(&operator, "CONFIG", &["SET", "maxmemory", "1"]).await;
    let found = shared.read(&key()).await.unwrap();
    assert_eq!(*found[0].as_ref().unwrap().payload, *b"four", "reads go on");
    assert_eq!(shared.enter(1, &Heartbeat::default()).await, Err(SharedError::Refused));
    assert_eq!(change(&shared).await, Err(SharedError::Refused));
    assert_eq!(shared.acquire(&["1:a:new".to_owned()], 1).await, Err(SharedError::Refused));
    assert_eq!(shared.acquire(&key(), 1).await.map(|answers| answers.len()), Ok(1), "a hit writes nothing");
    assert_eq!(shared.breaker(), BreakerState::Closed, "it answers");
    assert_eq!(shared.replay(1, 1, 10).await, Ok(Vec::new()), "nothing was half done");
    command(&operator, "CONFIG", &["SET", "maxmemory", "0"]).await;
    assert_eq!(change(&shared).await, Ok(1));
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn demoted_server_is_not_used() {
    let (server, other) = (Server::start(&[]), Server::start(&[]));
    let shared = accepted(options(&server.url())).await;
    let operator = server.operator().await;
    command(&operator, "REPLICAOF", &["127.0.0.1", &other.port.to_string()]).await;
    assert_eq!(shared.enter(1, &Heartbeat::default()).await, Err(SharedError::Refused));
    assert!(matches!(change(&shared).await, Err(SharedError::Refused | SharedError::Unavailable)));
    eventually("it is not read", async || shared.read(&key()).await == Err(SharedError::Unavailable)).await;
    command(&operator, "REPLICAOF", &["NO", "ONE"]).await;
    eventually("it is read again", async || shared.read(&key()).await.is_ok()).await;
    assert_eq!(change(&shared).await, Ok(1));
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn probe_counts_once_enough_replicas_have_it() {
    let server = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut replica = Server::start(&[]);
    let shared =
        RedisShared::connect(RedisOptions { replicas_min: 1, ..options(&server.url()) }).await.unwrap();
    assert_eq!(shared.enter(1, &Heartbeat::default()).await, Err(SharedError::Refused));
    let port = server.port.to_string();
    command(&replica.operator().await, "REPLICAOF", &["127.0.0.1", &port]).await;
    eventually("the replica has it", async || shared.enter(1, &Heartbeat::default()).await.is_ok()).await;
    replica.kill();
    assert!(shared.enter(1, &Heartbeat::default()).await.is_err());
}

#[tokio::test]
async fn invalid_address_names_its_field_only() {
    let url = |url: &str| RedisOptions { url: url.to_owned(), ..RedisOptions::default() };
    for bad in ["", "127.0.0.1:6379", "http://u:secret@h:1", "redis://u:secret@:x", "redis://h/no-number"] {
        let error = RedisShared::connect(url(bad)).await.unwrap_err();
        assert_eq!(error, RedisError::Url, "{bad}");
        assert!(error.to_string().starts_with("url: ") && !error.to_string().contains("secret"));
    }
    let prefix = RedisOptions { prefix: "a b".to_owned(), ..RedisOptions::default() };
    assert_eq!(RedisShared::connect(prefix).await.unwrap_err(), RedisError::Prefix);
    let options = url("redis://u:secret@127.0.0.1:1");
    let shown = format!("{options:?} {:?}", RedisShared::connect(options.clone()).await.unwrap());
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn password_is_sent_on_every_connection() {
    let mut server = Server::start(&["--requirepass", "secret"]);
    let url = server.url().replace("redis://", "redis://default:secret@");
    let shared = accepted(options(&url)).await;
    assert!(matches!(shared.acquire(&key(), 1).await.unwrap()[0], Acquired::Leased { .. }));
    server.restart();
    accept(&shared).await;
    let without = RedisShared::connect(quick(&server)).await.unwrap();
    assert!(without.enter(1, &Heartbeat::default()).await.is_err());
}
