//! Redis as the schemes use it that are not Kith's: plain commands, with the bounds that Kith's client has.

use std::time::Duration;

use anyhow::Result;
use fred::{
    clients::SubscriberClient,
    prelude::*,
    types::{RespVersion, config::UnresponsiveConfig, scripts::Script},
};
use tokio::task::JoinHandle;

/// The channel on which nodes publish changed records.
const CHANNEL: &str = "comparison:changed";
/// How long a copy is kept, in milliseconds: as long as Kith's.
const KEPT_MS: i64 = 600_000;
/// Longest wait for the answer to a command.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(100);
/// A connection is given up if an answer is due for this long.
const UNRESPONSIVE: Duration = Duration::from_millis(500);
/// Pause between two tries to connect, in milliseconds.
const RECONNECT_MS: u32 = 100;
/// Messages that a slow subscriber may be behind before it misses some.
const BEHIND_MAX: usize = 8_192;

/// One node's way to Redis.
#[derive(Clone, Debug)]
pub(super) struct Server {
    client: Client,
}

impl Server {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let client = builder(url)?.build()?;
        client.init().await?;
        Ok(Self { client })
    }

    /// The copy of a record; `None`: there is no copy.
    pub(super) async fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.client.get(copy(key)).await?)
    }

    pub(super) async fn set(&self, key: u64, version: u64) -> Result<()> {
        let kept = Some(Expiration::PX(KEPT_MS));
        Ok(self.client.set(copy(key), version.to_string(), kept, None, false).await?)
    }

    pub(super) async fn delete(&self, key: u64) -> Result<()> {
        Ok(self.client.del(copy(key)).await?)
    }

    /// Publishes to all subscribed nodes that this record has changed.
    pub(super) async fn publish(&self, key: u64) -> Result<()> {
        Ok(self.client.publish(CHANNEL, key.to_string()).await?)
    }

    /// Makes scripts known to Redis.
    pub(super) async fn load(&self, scripts: [&Script; 3]) -> Result<()> {
        for script in scripts {
            script.load(&self.client).await?;
        }
        Ok(())
    }

    /// Runs a script over a record's copy and its lease. The last argument, after the words, is how long a
    /// copy is kept, in milliseconds.
    pub(super) async fn run(&self, script: &Script, key: u64, words: [String; 2]) -> Result<String> {
        let [first, second] = words;
        let (keys, words) = (vec![copy(key), lease(key)], vec![first, second, KEPT_MS.to_string()]);
        Ok(script.evalsha_with_reload(&self.client, keys, words).await?)
    }
}

/// Calls with the key of each record that is published as changed, until the task is aborted. A connection
/// that ends is made again and subscribes again; messages published meanwhile are missed.
pub(super) async fn subscribe(url: &str, changed: impl Fn(u64) + Send + 'static) -> Result<JoinHandle<()>> {
    let client: SubscriberClient = builder(url)?.build_subscriber_client()?;
    client.init().await?;
    let mut messages = client.message_rx();
    client.subscribe(CHANNEL).await?;
    let subscribes = client.manage_subscriptions();
    Ok(tokio::spawn(async move {
        let _subscribes = AbortOnDrop(subscribes);
        let _connected = client;
        loop {
            match messages.recv().await {
                Ok(message) => {
                    message.value.as_u64().into_iter().for_each(&changed);
                }
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }))
}

/// A task that ends with the value.
#[derive(Debug)]
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn builder(url: &str) -> Result<Builder> {
    let config = Config { version: RespVersion::RESP3, ..Config::from_url(url)? };
    let mut builder = Builder::from_config(config);
    builder
        .set_policy(ReconnectPolicy::new_constant(0, RECONNECT_MS))
        .with_performance_config(|performance| {
            performance.default_command_timeout = COMMAND_TIMEOUT;
            performance.broadcast_channel_capacity = BEHIND_MAX;
        })
        .with_connection_config(|connection| {
            connection.tcp.nodelay = Some(true);
            connection.unresponsive =
                UnresponsiveConfig { max_timeout: Some(UNRESPONSIVE), interval: COMMAND_TIMEOUT };
        });
    Ok(builder)
}

fn copy(key: u64) -> String {
    format!("comparison:{{{key}}}:copy")
}

fn lease(key: u64) -> String {
    format!("comparison:{{{key}}}:lease")
}
