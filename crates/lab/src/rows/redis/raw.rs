//! What one would write by hand with the client of Redis, with the care that a service needs: every wait has a
//! bound.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use fred::{
    prelude::*,
    types::{RespVersion, config::UnresponsiveConfig, scripts::Script},
};
use kith_cache::remote::{Codec as _, Header};
use kith_store::User;

use super::packed::UserCodec;

/// What a write does there: the copy, the log, the broadcast.
const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000) \
    local id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', 100000, '*', 'e', ARGV[2]) \
    redis.call('PUBLISH', ARGV[3], ARGV[2]) return id";

/// A client of the raw side.
#[derive(Clone, Debug)]
pub(super) struct RawRedis {
    pub(super) client: Client,
    pub(super) tag: String,
    script: Script,
}

impl RawRedis {
    pub(super) async fn connect(url: &str, tag: &str) -> Result<Self> {
        let config = Config { version: RespVersion::RESP3, ..Config::from_url(url)? };
        let client = Builder::from_config(config)
            .with_performance_config(|performance| {
                performance.default_command_timeout = Duration::from_millis(100);
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

    pub(super) fn key(&self, id: i64) -> String {
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

    /// One call of a script that does what a write has to do.
    pub(super) async fn tell(&self, id: i64, copy: Vec<u8>) -> Result<()> {
        let keys = vec![self.key(id), format!("{{{}}}:raw-log", self.tag)];
        let told = Bytes::from(vec![7; 64]);
        let words = vec![Value::Bytes(copy.into()), Value::Bytes(told), Value::from(self.channel())];
        let _id: Value = self.script.evalsha(&self.client, keys, words).await?;
        Ok(())
    }

    pub(super) fn channel(&self) -> String {
        format!("{{{}}}:raw-told", self.tag)
    }
}

fn decoded(bytes: &[u8]) -> Result<User> {
    let (_, payload) = Header::decode(bytes).context("no value")?;
    UserCodec.decode(payload).context("no user")
}
