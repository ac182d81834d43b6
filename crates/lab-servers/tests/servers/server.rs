use std::time::Duration;

use kith_lab_servers::{redis_server::RedisServer, resp::Value};
use tokio::time::timeout;

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

async fn set(server: &RedisServer, value: &str) {
    assert_eq!(server.ask(&["SET", "key", value]).await.unwrap(), text("OK"));
}

#[tokio::test]
async fn killed_server_restarts_empty_or_with_old_dump() {
    let mut server = RedisServer::start(&[]).await.unwrap();
    set(&server, "old").await;
    let (dump, run) = (server.dump().await.unwrap(), server.info("run_id").await.unwrap());
    set(&server, "new").await;
    server.kill();
    assert!(server.ask(&["PING"]).await.is_err());
    server.restart(None).await.unwrap();
    assert_eq!(server.ask(&["GET", "key"]).await.unwrap(), Value::None);
    server.restart(Some(&dump)).await.unwrap();
    assert_eq!(server.ask(&["GET", "key"]).await.unwrap(), text("old"));
    assert_ne!(server.info("run_id").await.unwrap(), run);
}

#[tokio::test]
async fn a_stopped_server_is_silent_until_it_goes_on() {
    let server = RedisServer::start(&[]).await.unwrap();
    server.pause().unwrap();
    let ping = ["PING"];
    let asked = server.ask(&ping);
    tokio::pin!(asked);
    assert!(timeout(Duration::from_millis(150), &mut asked).await.is_err());
    server.resume().unwrap();
    assert_eq!(asked.await.unwrap(), text("PONG"));
}

#[tokio::test]
async fn a_full_server_reads_and_refuses_writes() {
    let server = RedisServer::start(&[("maxmemory", "100mb")]).await.unwrap();
    set(&server, "kept").await;
    server.fill_up(true).await.unwrap();
    let refused = server.ask(&["SET", "key", "more"]).await.unwrap_err().to_string();
    assert!(refused.contains("OOM"), "{refused}");
    assert_eq!(server.ask(&["GET", "key"]).await.unwrap(), text("kept"));
    server.fill_up(false).await.unwrap();
    set(&server, "more").await;
}

#[tokio::test]
async fn promoted_replica_lacks_the_last_writes() {
    let server = RedisServer::start(&[]).await.unwrap();
    set(&server, "first").await;
    let replica = server.replica().await.unwrap();
    assert_eq!(replica.ask(&["GET", "key"]).await.unwrap(), text("first"));
    replica.promote().await.unwrap();
    set(&server, "last").await;
    assert_eq!(replica.ask(&["GET", "key"]).await.unwrap(), text("first"));
    set(&replica, "another").await;
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let error = RedisServer::start(&[("maxmemory", "much")]).await.unwrap_err().to_string();
    assert!(error.contains("ended"), "{error}");
}
