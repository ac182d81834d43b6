//! Commands that a service would write by hand with the Redis client, with the care that a service needs:
//! every wait has a bound.

use std::{fmt::Display, time::Duration};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use fred::{
    prelude::*,
    types::{ClusterHash, CustomCommand, RespVersion, config::UnresponsiveConfig, scripts::Script},
};
use kith_cache::remote::{Codec as _, Header};
use kith_service::write::record_codec::RecordCodec;
use kith_store::User;

/// The commands in a write: the copy, the log, the broadcast.
const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000) \
    local id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', 100000, '*', 'e', ARGV[2]) \
    redis.call('PUBLISH', ARGV[3], ARGV[2]) return id";

/// How long an answer may take, as in the program; and where many commands are sent at once.
const ANSWER: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);

/// The raw side's client.
#[derive(Clone, Debug)]
pub(in crate::rows) struct RawRedis {
    pub(in crate::rows) client: Client,
    pub(super) tag: String,
    script: Script,
}

impl RawRedis {
    pub(in crate::rows) async fn connect(url: &str, tag: &str) -> Result<Self> {
        Self::with_bound(url, tag, ANSWER).await
    }

    /// A client that waits for long, for pipelines.
    pub(in crate::rows) async fn patient(url: &str, tag: &str) -> Result<Self> {
        Self::with_bound(url, tag, PATIENCE).await
    }

    async fn with_bound(url: &str, tag: &str, answer: Duration) -> Result<Self> {
        let config = Config { version: RespVersion::RESP3, ..Config::from_url(url)? };
        let client = Builder::from_config(config)
            .with_performance_config(|performance| {
                performance.default_command_timeout = answer;
                performance.broadcast_channel_capacity = 8_192;
            })
            .with_connection_config(|connection| {
                connection.max_command_buffer_len = 10_000;
                connection.tcp.nodelay = Some(true);
                connection.unresponsive = UnresponsiveConfig {
                    max_timeout: Some(Duration::from_millis(500)),
                    interval: Duration::from_millis(100),
                };
            })
            .build()?;
        client.init().await?;
        let script = Script::from_lua(SCRIPT);
        script.load(&client).await?;
        Ok(Self { client, tag: tag.to_owned(), script })
    }

    /// The key that the raw side uses for this id.
    pub(in crate::rows) fn key(&self, id: impl Display) -> String {
        format!("{{{}}}:raw:{id}", self.tag)
    }

    pub(super) async fn user(&self, key: String) -> Result<User> {
        let bytes: Option<Bytes> = self.client.get(key).await?;
        decoded(&bytes.context("a user is missing")?)
    }

    pub(super) async fn users(&self, keys: Vec<String>) -> Result<Vec<User>> {
        let found: Vec<Option<Bytes>> = self.client.mget(keys).await?;
        found.into_iter().map(|bytes| decoded(&bytes.context("a user is missing")?)).collect()
    }

    /// One question and one answer that holds nothing.
    pub(super) async fn ask_for_nothing(&self, id: i64) -> Result<()> {
        let nothing: Option<Bytes> = self.client.get(format!("{}-none", self.key(id))).await?;
        anyhow::ensure!(nothing.is_none(), "there is something");
        Ok(())
    }

    pub(super) async fn put(&self, id: i64, bytes: Vec<u8>) -> Result<()> {
        Ok(self
            .client
            .set(self.key(id), Bytes::from(bytes), Some(Expiration::PX(600_000)), None, false)
            .await?)
    }

    /// One command, and its answer.
    pub(in crate::rows) async fn ask<W: Into<Value>>(
        &self,
        name: &'static str,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Value> {
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        let words: Vec<Value> = words.into_iter().map(Into::into).collect();
        Ok(self.client.custom(command, words).await?)
    }

    /// Runs a script that does what a write has to do.
    pub(super) async fn publish(&self, id: i64, copy: Vec<u8>) -> Result<()> {
        let keys = vec![self.key(id), format!("{{{}}}:raw-log", self.tag)];
        let entry = Bytes::from(vec![7; 64]);
        let words = vec![Value::Bytes(copy.into()), Value::Bytes(entry), Value::from(self.channel())];
        let _id: Value = self.script.evalsha(&self.client, keys, words).await?;
        Ok(())
    }

    pub(super) fn channel(&self) -> String {
        format!("{{{}}}:raw-changes", self.tag)
    }
}

fn decoded(bytes: &[u8]) -> Result<User> {
    let (_, payload) = Header::decode(bytes).context("no value")?;
    RecordCodec::USER.decode(payload).context("no user")
}
