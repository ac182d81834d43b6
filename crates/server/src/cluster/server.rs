//! The server that the configuration names.

use std::sync::Arc;

#[cfg(feature = "cluster")]
use kith_cache::remote::{
    Retention,
    redis::{BreakerState, BroadcastTest, RedisError, RedisOptions, RedisShared, ScriptRunner},
};
use kith_cache::{
    SystemClock,
    remote::{SharedBackend, SharedError},
};
use kith_delivery::{
    EpochSource, FanOutNotes, InboxKeeper, InboxLimits, ReaderBitmaps, SequenceKeeper, WindowLimits, Windows,
};
#[cfg(not(feature = "cluster"))]
use kith_delivery::{MemoryInboxes, MemorySequences};
#[cfg(feature = "cluster")]
use kith_delivery::{RedisBitmaps, RedisFanOutNotes, RedisInboxes, RedisSequences, RedisWindows};
use kith_presence::Presences;
#[cfg(feature = "cluster")]
use kith_presence::RedisPresence;

use kith_store::MessageStore;

use super::{NodeKeys, RedisRefused};
#[cfg(feature = "cluster")]
use super::{database_lease, refused};
use crate::{config::Config, start_error::StartError};
#[cfg(feature = "cluster")]
use kith_service::{metric, presence};

/// The server that nodes share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedServer {
    shared: Arc<dyn SharedBackend>,
    #[cfg(feature = "cluster")]
    redis: Arc<RedisShared>,
    #[cfg(feature = "cluster")]
    runner: Arc<ScriptRunner>,
    #[cfg(feature = "cluster")]
    prefix: String,
    presences: Presences,
}

impl SharedServer {
    pub(super) fn shared(&self) -> &Arc<dyn SharedBackend> {
        &self.shared
    }

    /// Presence, on the script connections.
    pub(super) const fn presences(&self) -> &Presences {
        &self.presences
    }
}

#[cfg(feature = "cluster")]
impl SharedServer {
    /// Creates it for the configured server, which may be unavailable.
    ///
    /// # Errors
    /// If its address is invalid.
    pub(crate) async fn connect(config: &Config, keys: &NodeKeys) -> Result<Self, StartError> {
        let (database_id, seal) = (keys.database_id(), Some(keys.message_mac()));
        Self::of(RedisOptions { database_id, mac: seal, ..options(config) }, config).await
    }

    /// Connects only to examine the server. `keys` are the database's, if the store answered.
    ///
    /// # Errors
    /// If its address is invalid.
    pub async fn connect_to_examine(config: &Config, keys: Option<&NodeKeys>) -> Result<Self, StartError> {
        let database_id = keys.map_or(0, NodeKeys::database_id);
        Self::of(RedisOptions { database_id, ..options(config) }, config).await
    }

    async fn of(options: RedisOptions, config: &Config) -> Result<Self, StartError> {
        let limits = presence::limits(&config.presence);
        // All parts with their own scripts share this connection.
        let (redis, runner) =
            tokio::try_join!(RedisShared::connect(options.clone()), ScriptRunner::connect(options))
                .map_err(|error| unusable(&error))?;
        let runner = Arc::new(runner);
        let presences = RedisPresence::over(Arc::clone(&runner), limits);
        let (shared, prefix) = (Arc::<RedisShared>::clone(&redis), config.redis.prefix.clone());
        Ok(Self { shared, redis, runner, prefix, presences: presences.presences() })
    }

    /// The conversation windows, over the script connections.
    pub(super) fn windows(
        &self,
        epochs: Arc<dyn EpochSource>,
        store: Arc<dyn MessageStore>,
        limits: WindowLimits,
    ) -> Windows {
        let clock = Arc::new(SystemClock::new());
        let runner = Arc::clone(&self.runner);
        let keeper = RedisWindows::over(runner, epochs, Arc::<SystemClock>::clone(&clock), limits);
        Windows::over(Arc::new(keeper), store, clock, limits)
    }

    /// Sequence numbers, over the script connections.
    pub(super) fn sequences(&self, epochs: Arc<dyn EpochSource>) -> Arc<dyn SequenceKeeper> {
        Arc::new(RedisSequences::over(Arc::clone(&self.runner), epochs))
    }

    /// Bitmaps with the readers of notices, over the script connections.
    #[expect(clippy::unnecessary_wraps, reason = "other builds have none")]
    pub(super) fn reader_bitmaps(&self, epochs: Arc<dyn EpochSource>) -> Option<Arc<dyn ReaderBitmaps>> {
        Some(Arc::new(RedisBitmaps::over(Arc::clone(&self.runner), epochs)))
    }

    /// All users' inboxes, over the script connections.
    pub(super) fn inboxes(&self, epochs: Arc<dyn EpochSource>, limits: InboxLimits) -> Arc<dyn InboxKeeper> {
        Arc::new(RedisInboxes::over(Arc::clone(&self.runner), epochs, limits))
    }

    /// Notes about unfinished fan-outs, over the script connections.
    #[expect(clippy::unnecessary_wraps, reason = "other builds have none")]
    pub(super) fn fan_out_notes(&self, epochs: Arc<dyn EpochSource>) -> Option<Arc<dyn FanOutNotes>> {
        Some(Arc::new(RedisFanOutNotes::over(Arc::clone(&self.runner), epochs)))
    }

    /// The circuit breaker's state: `closed`, `open` or `half_open`.
    pub(crate) fn breaker(&self) -> &'static str {
        match self.redis.breaker() {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }

    /// Brings its metrics up to date.
    pub(super) fn export_metrics(&self) {
        metrics::counter!(metric::REDIS_BREAKER_OPENED.name).absolute(self.redis.breaker_opened());
        metrics::counter!(metric::REDIS_GARBLED.name).absolute(self.redis.garbled());
    }

    /// The reason for which it cannot be used although it answers, in one line with what to do; `None`: it
    /// can be used, or is unavailable. Takes at most a few times the time that a connection may take.
    pub async fn refusal(&self) -> Option<RedisRefused> {
        let refusal = Box::pin(self.redis.refusal()).await?;
        let line = refused::line(&refusal, &self.prefix);
        Some(RedisRefused { line, lasts: refusal.lasts() })
    }

    /// Takes or renews the prefix for this node's database. Returns whether another database's nodes have it.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) async fn prefix_taken(&self) -> Result<bool, SharedError> {
        Ok(self.redis.own_prefix(database_lease::LASTS).await?.is_some())
    }

    /// Whether another database's nodes have the prefix. Changes nothing.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn prefix_of_others(&self, keys: &NodeKeys) -> Result<bool, SharedError> {
        Ok(self
            .redis
            .prefix_owner(database_lease::LASTS)
            .await?
            .is_some_and(|owner| owner != keys.database_id()))
    }

    /// The server's visible problems, each in one line with what to do. Takes at most a second.
    ///
    /// # Errors
    /// If it is unavailable.
    pub async fn findings(&self) -> Result<Vec<String>, SharedError> {
        let (fitness, broadcast) = tokio::join!(self.redis.fitness(), self.redis.self_test());
        let mut found = Vec::new();
        if fitness.is_fit() == Some(false) {
            found.push(format!(
                "{fitness}: it cannot be relied on, so that memories may be old for as long as cache.ttl; use \
                 Redis 7 or later with maxmemory-policy noeviction or volatile-*"
            ));
        }
        match broadcast {
            BroadcastTest::Unavailable => return Err(SharedError::Unavailable),
            BroadcastTest::NotReceived => found.push(SILENT.to_owned()),
            BroadcastTest::Received(_) => {}
        }
        Ok(found)
    }
}

#[cfg(feature = "cluster")]
const SILENT: &str = "Redis takes what is published and does not deliver it (something between, or its ACL): nodes \
                      do not receive the changes of each other; allow the channels of redis.prefix";

#[cfg(not(feature = "cluster"))]
const NO_REDIS: &str = "redis.url is given, which this build of kith cannot use";

#[cfg(not(feature = "cluster"))]
#[expect(clippy::unused_async, clippy::unused_self, reason = "other builds have a client of Redis")]
impl SharedServer {
    pub(crate) async fn connect(_config: &Config, _keys: &NodeKeys) -> Result<Self, StartError> {
        Err(StartError::new(NO_REDIS))
    }

    /// Refuses: this build has no Redis client.
    ///
    /// # Errors
    /// Always.
    pub async fn connect_to_examine(_config: &Config, _keys: Option<&NodeKeys>) -> Result<Self, StartError> {
        Err(StartError::new(NO_REDIS))
    }

    /// Returns none: this build has no Redis client.
    pub async fn refusal(&self) -> Option<RedisRefused> {
        None
    }

    pub(crate) async fn prefix_taken(&self) -> Result<bool, SharedError> {
        Ok(false)
    }

    /// Returns false: this build has no Redis client.
    ///
    /// # Errors
    /// Never.
    pub async fn prefix_of_others(&self, _keys: &NodeKeys) -> Result<bool, SharedError> {
        Ok(false)
    }

    pub(super) fn windows(
        &self,
        _epochs: Arc<dyn EpochSource>,
        store: Arc<dyn MessageStore>,
        limits: WindowLimits,
    ) -> Windows {
        Windows::none(store, Arc::new(SystemClock::new()), limits)
    }

    pub(super) fn sequences(&self, _epochs: Arc<dyn EpochSource>) -> Arc<dyn SequenceKeeper> {
        Arc::new(MemorySequences::new(1))
    }

    pub(super) fn reader_bitmaps(&self, _epochs: Arc<dyn EpochSource>) -> Option<Arc<dyn ReaderBitmaps>> {
        None
    }

    pub(super) fn inboxes(&self, _epochs: Arc<dyn EpochSource>, limits: InboxLimits) -> Arc<dyn InboxKeeper> {
        Arc::new(MemoryInboxes::new(Arc::new(SystemClock::new()), limits))
    }

    pub(super) fn fan_out_notes(&self, _epochs: Arc<dyn EpochSource>) -> Option<Arc<dyn FanOutNotes>> {
        None
    }

    pub(crate) const fn breaker(&self) -> &'static str {
        "closed"
    }

    pub(super) const fn export_metrics(&self) {}

    /// Returns none: this build has no Redis client.
    ///
    /// # Errors
    /// Never.
    pub async fn findings(&self) -> Result<Vec<String>, SharedError> {
        Ok(Vec::new())
    }
}

#[cfg(feature = "cluster")]
fn options(config: &Config) -> RedisOptions {
    let (redis, cluster) = (&config.redis, &config.cluster);
    RedisOptions {
        url: redis.url.as_ref().map(|url| url.expose().to_owned()).unwrap_or_default(),
        prefix: redis.prefix.clone(),
        ca_file: redis.ca_file.clone(),
        replicas_min: redis.replicas_min,
        command_timeout: redis.command_timeout,
        connect_timeout: redis.connect_timeout,
        pool: redis.pool,
        retention: Retention {
            copies: redis.copy_ttl,
            absences: redis.absence_ttl,
            leases: redis.lease,
            takeover: redis.takeover,
            tombs: redis.tombs,
            log_max: redis.log_entries,
            silent: cluster.silent,
        },
        ..RedisOptions::default()
    }
}

#[cfg(feature = "cluster")]
fn unusable(error: &RedisError) -> StartError {
    StartError::new(match error {
        RedisError::Url => {
            "redis.url cannot be used; write redis://HOST:6379, with USER:PASSWORD@ before HOST where Redis asks \
             for them (special characters as %XX), rediss for TLS, redis-cluster for a cluster, redis-sentinel for \
             sentinels"
        }
        RedisError::CaFile => {
            "redis.ca_file holds no certificate in PEM that can be trusted, or may not be read by this user; name \
             the file of the authority that signed the certificate of Redis"
        }
        RedisError::Prefix => "redis.prefix cannot be used; write 1 to 32 letters, digits, _ or -",
    })
}
