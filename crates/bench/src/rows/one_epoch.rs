//! Replaces the epochs for code that keeps copies in Redis where no node follows it: one epoch on one server.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::remote::redis::{RedisOptions, RedisScript, ScriptCall, ScriptRunner};
use kith_delivery::EpochSource;
use kith_lab_servers::redis_server::RedisServer;
use kith_store::Epoch;
use parking_lot::Mutex;

use super::until_done::retry;

/// How long the server may take to say who it is.
const NAMED_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// The only epoch.
#[derive(Debug)]
struct OneEpoch(Epoch);

#[async_trait]
impl EpochSource for OneEpoch {
    fn followed_epoch(&self) -> Option<Epoch> {
        Some(self.0.clone())
    }

    async fn settled_epoch(&self) -> Option<u64> {
        Some(self.0.number)
    }
}

/// Connections to a server, and its epoch.
pub(super) async fn one_epoch(redis: &RedisServer) -> Result<(Arc<ScriptRunner>, Arc<dyn EpochSource>)> {
    let options = RedisOptions { url: redis.uri(), ..RedisOptions::default() };
    let runner = Arc::new(ScriptRunner::connect(options).await?);
    let epoch = Epoch { number: 1, server: server_of(&runner).await? };
    Ok((runner, Arc::new(OneEpoch(epoch))))
}

/// Waits until the server has reported its name, by which it is accepted.
async fn server_of(runner: &ScriptRunner) -> Result<String> {
    let (seen, script) = (Mutex::new(String::new()), RedisScript::new("return 1"));
    let accept = |server: &str| {
        server.clone_into(&mut seen.lock());
        true
    };
    retry(NAMED_WITHIN, POLL, async || {
        let none: [Bytes; 0] = [];
        let call = ScriptCall::new(&script, vec![format!("{{{}}}:name", runner.tag())], none);
        let answers = runner.run_accepted(&[call], accept).await;
        ensure!(matches!(answers[..], [Ok(_)]), "the server does not say who it is");
        Ok(())
    })
    .await?;
    Ok(seen.into_inner())
}
