//! Presence in Redis, against a real server.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use kith_cache::remote::redis::RedisOptions;
use kith_presence::{Presences, RedisPresence, conformance::LIMITS};

async fn open() -> (Presences, ()) {
    let (_, url) =
        std::env::vars().find(|(name, _)| name == "KITH_TEST_REDIS").expect("needs KITH_TEST_REDIS");
    let prefix = format!("kith_presence_{:016x}", rand::random::<u64>());
    let options = RedisOptions {
        url,
        prefix,
        command_timeout: std::time::Duration::from_secs(5),
        ..RedisOptions::default()
    };
    (RedisPresence::connect(options, LIMITS).await.unwrap().presences(), ())
}

kith_presence::conformance!(open, #[ignore = "needs Redis"]);
