//! The server that the configuration names.

use std::sync::Arc;

use kith_cache::remote::Shared;
#[cfg(feature = "cluster")]
use kith_cache::remote::{BreakerState, Broadcast, Kept, RedisError, RedisOptions, RedisShared};

use super::Keys;
use crate::{config::Config, start::StartError};

/// The server that nodes share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    shared: Arc<dyn Shared>,
    #[cfg(feature = "cluster")]
    redis: Option<Arc<RedisShared>>,
}

impl Server {
    /// One within the process.
    #[cfg(test)]
    pub(crate) fn fake(shared: Arc<dyn Shared>) -> Self {
        Self {
            shared,
            #[cfg(feature = "cluster")]
            redis: None,
        }
    }

    pub(super) fn shared(&self) -> &Arc<dyn Shared> {
        &self.shared
    }
}

#[cfg(feature = "cluster")]
impl Server {
    /// The one that the configuration names; it may be away.
    ///
    /// # Errors
    /// When its address cannot be used.
    pub(crate) async fn connect(config: &Config, keys: &Keys) -> Result<Self, StartError> {
        let redis = RedisShared::connect(options(config, keys)).await.map_err(|error| refused(&error))?;
        Ok(Self { shared: Arc::<RedisShared>::clone(&redis), redis: Some(redis) })
    }

    /// Whether commands are let through: `closed`, `open` or `half_open`.
    pub(crate) fn breaker(&self) -> &'static str {
        match self.redis.as_ref().map(|redis| redis.breaker()) {
            None | Some(BreakerState::Closed) => "closed",
            Some(BreakerState::Open) => "open",
            Some(BreakerState::HalfOpen) => "half_open",
        }
    }

    /// What is wrong with it as far as it can be seen, each in one line that says what to do. Nothing of one that
    /// is away. Takes a second at most.
    pub(crate) async fn findings(&self) -> Vec<String> {
        let Some(redis) = &self.redis else { return Vec::new() };
        let (fitness, heard) = tokio::join!(redis.fitness(), redis.self_test());
        let mut found = Vec::new();
        if fitness.is_fit() == Some(false) {
            found.push(format!(
                "{fitness}: it cannot be relied on, so that memories may be old for as long as cache.ttl; use \
                 Redis 7 or later with maxmemory-policy noeviction or volatile-*"
            ));
        }
        if heard == Broadcast::Silent {
            found.push(
                "Redis takes what is published and does not deliver it (something between, or its ACL): nodes \
                 cannot tell each other what changes; allow the channels of redis.prefix"
                    .to_owned(),
            );
        }
        found
    }
}

#[cfg(not(feature = "cluster"))]
impl Server {
    pub(crate) async fn connect(_config: &Config, _keys: &Keys) -> Result<Self, StartError> {
        Err(StartError::new("redis.url is given, and this build of kith cannot use it"))
    }

    #[expect(clippy::unused_self, reason = "other builds have one")]
    pub(crate) const fn breaker(&self) -> &'static str {
        "closed"
    }

    #[expect(clippy::unused_self, reason = "other builds ask it")]
    pub(crate) async fn findings(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(feature = "cluster")]
fn options(config: &Config, keys: &Keys) -> RedisOptions {
    let (redis, cluster) = (&config.redis, &config.cluster);
    RedisOptions {
        url: redis.url.as_ref().map(|url| url.expose().to_owned()).unwrap_or_default(),
        prefix: redis.prefix.clone(),
        replicas_min: redis.replicas_min,
        command_timeout: redis.command_timeout,
        connect_timeout: redis.connect_timeout,
        pool: redis.pool,
        kept: Kept {
            copies: redis.copy_ttl,
            absences: redis.absence_ttl,
            leases: redis.lease,
            takeover: redis.takeover,
            tombs: redis.tombs,
            log_max: redis.log_entries,
            silent: cluster.silent,
        },
        seal: Some(keys.seal()),
        ..RedisOptions::default()
    }
}

#[cfg(feature = "cluster")]
fn refused(error: &RedisError) -> StartError {
    StartError::new(match error {
        RedisError::Url => {
            "redis.url cannot be used; write redis://HOST:6379, with USER:PASSWORD@ before HOST where Redis asks \
             for them (special characters as %XX), rediss for TLS, redis-cluster for a cluster"
        }
        RedisError::Prefix => "redis.prefix cannot be used; write 1 to 32 letters, digits, _ or -",
    })
}
