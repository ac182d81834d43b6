//! A connection to the Redis of the tests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kith_cache::remote::redis::{RedisOptions, RedisScript, ScriptCall, ScriptRunner};
use parking_lot::Mutex;

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A runner over the Redis of the tests, under a prefix that no other test has.
pub(crate) async fn connected() -> ScriptRunner {
    let (_, url) =
        std::env::vars().find(|(name, _)| name == "KITH_TEST_REDIS").expect("needs KITH_TEST_REDIS");
    connected_to(url).await
}

/// The same over the server at this address.
pub(crate) async fn connected_to(url: String) -> ScriptRunner {
    let prefix = format!("kith_windows_{:016x}", rand::random::<u64>());
    let options = RedisOptions { url, prefix, command_timeout: PATIENCE, ..RedisOptions::default() };
    let options = RedisOptions { connect_timeout: PATIENCE, unresponsive: PATIENCE, ..options };
    ScriptRunner::connect(options).await.unwrap()
}

/// The name by which the server is accepted, once it has said it.
pub(crate) async fn name(runner: &ScriptRunner) -> String {
    let (seen, script) = (Mutex::new(String::new()), RedisScript::new("return 1"));
    let accept = |server: &str| {
        server.clone_into(&mut seen.lock());
        true
    };
    let give_up = Instant::now() + PATIENCE;
    loop {
        let none: [Bytes; 0] = [];
        let call = ScriptCall::new(&script, vec![format!("{{{}}}:name", runner.tag())], none);
        if runner.run_accepted(&[call], accept).await.remove(0).is_ok() {
            break;
        }
        assert!(Instant::now() < give_up, "the server does not say who it is");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    seen.into_inner()
}
