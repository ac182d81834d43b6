//! A connection to the tests' Redis.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use kith_cache::remote::redis::{RedisOptions, RedisScript, Reply, ScriptCall, ScriptRunner};
use parking_lot::Mutex;

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tests' Redis, under a prefix that no other test has.
#[derive(Clone, Debug)]
pub(crate) struct TestRedis {
    pub(crate) runner: Arc<ScriptRunner>,
    /// The name by which the server is accepted.
    pub(crate) name: String,
}

impl TestRedis {
    pub(crate) async fn connect() -> Self {
        Self::connect_to(url()).await
    }

    /// Connects to the server at this address.
    pub(crate) async fn connect_to(url: String) -> Self {
        let prefix = format!("kith_windows_{:016x}", rand::random::<u64>());
        let options = RedisOptions { url, prefix, command_timeout: PATIENCE, ..RedisOptions::default() };
        let options = RedisOptions { connect_timeout: PATIENCE, unresponsive: PATIENCE, ..options };
        let runner = ScriptRunner::connect(options).await.unwrap();
        let name = name(&runner).await;
        Self { runner: Arc::new(runner), name }
    }

    /// Makes a call, which must succeed.
    pub(crate) async fn call(&self, call: ScriptCall<'_>) -> Reply {
        self.runner.run(&[call]).await.remove(0).unwrap()
    }

    /// Runs a script with this text, which must succeed.
    pub(crate) async fn eval<const N: usize>(
        &self,
        text: &'static str,
        keys: Vec<String>,
        arguments: [Bytes; N],
    ) -> Reply {
        self.call(ScriptCall::new(&RedisScript::new(text), keys, arguments)).await
    }
}

/// The address of the tests' Redis.
pub(crate) fn url() -> String {
    let (_, url) =
        std::env::vars().find(|(name, _)| name == "KITH_TEST_REDIS").expect("needs KITH_TEST_REDIS");
    url
}

/// Waits for the server's name.
async fn name(runner: &ScriptRunner) -> String {
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
