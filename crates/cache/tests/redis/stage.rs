//! New and empty servers for tests, in the place of the server that nodes share.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kith_cache::remote::{
    Cells as _, FakeServer, Heartbeat, Registry as _, Retention, SharedBackend,
    redis::{RedisOptions, RedisShared},
};

/// Bound on everything that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Times short enough to wait for.
pub(crate) const SHORT: Retention = Retention {
    copies: Duration::from_secs(600),
    absences: Duration::from_secs(30),
    leases: Duration::from_secs(3),
    takeover: Duration::from_millis(100),
    tombs: Duration::from_secs(30),
    log_max: 100,
    silent: Duration::from_secs(60),
};

/// Address of the Redis that all tests share.
pub(crate) fn address() -> String {
    std::env::vars().find(|(name, _)| name == "KITH_TEST_REDIS").expect("needs KITH_TEST_REDIS").1
}

/// Each call uses a new prefix.
pub(crate) fn options(url: &str) -> RedisOptions {
    RedisOptions {
        url: url.to_owned(),
        prefix: format!("test-{:x}", rand::random::<u64>()),
        retention: SHORT,
        // Tests share a few cores.
        command_timeout: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(2),
        ..RedisOptions::default()
    }
}

/// Connected, and accepted as who it is.
pub(crate) async fn accepted(options: RedisOptions) -> Arc<RedisShared> {
    let shared = RedisShared::connect(options).await.unwrap();
    accept(&shared).await;
    shared
}

/// Accepts who answers now, and waits until it is read.
pub(crate) async fn accept(shared: &RedisShared) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Ok(probed) = shared.enter(0, &Heartbeat::default()).await {
            shared.accept(&probed.server);
            if shared.read(&["0:a:1".to_owned()]).await.is_ok() {
                break;
            }
        }
        assert!(Instant::now() < give_up, "the server is not accepted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    shared.leave(0, 0).await.unwrap();
}

pub(crate) fn fake(retention: Retention) -> Arc<dyn SharedBackend> {
    Arc::new(FakeServer::new(retention))
}

/// Waits for something, within a bound.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < give_up, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
