//! Shared presence in Redis. Each script touches keys in one slot: those of a user, a gateway, a group, or
//! all gateways together. The rules are those of the memory implementation; the comments in the scripts
//! describe them.

mod groups;
mod names;
mod reply;
mod sessions;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::{
    SharedError,
    redis::{ChannelSubscription, RedisError, RedisOptions, RedisScript, Reply, ScriptCall, ScriptRunner},
};

use self::names::Names;
use crate::{Event, PresenceError, PresenceFeed, PresenceLimits, PresenceSubscription, Presences};

/// Presence in Redis, on the server that answers. A call ends within its runner's command timeout.
#[derive(Debug)]
pub struct RedisPresence {
    runner: Arc<ScriptRunner>,
    names: Names,
    scripts: Scripts,
    limits: PresenceLimits,
}

#[derive(Debug)]
struct Scripts {
    claim: RedisScript,
    gateways: RedisScript,
    forget: RedisScript,
    schedule_check: RedisScript,
    users_to_check: RedisScript,
    mark_checked: RedisScript,
    change: RedisScript,
    sessions: RedisScript,
    record_fan_out: RedisScript,
    apply: RedisScript,
    distribution: RedisScript,
    active: RedisScript,
}

impl RedisPresence {
    /// Creates it over a runner's connections, which others may use too. Its keys and channels begin with the
    /// runner's tag.
    #[must_use]
    pub fn over(runner: Arc<ScriptRunner>, limits: PresenceLimits) -> Self {
        let names = Names::new(runner.tag(), runner.database(), runner.has_sharded_channels());
        Self { runner, names, scripts: Scripts::new(), limits }
    }

    /// Like [`Self::over`], but on its own connections. Begins to connect; Redis may be unavailable.
    /// Connections are made, and made again, in the background until it is dropped. Needs a runtime.
    ///
    /// # Errors
    /// If the address or the prefix is invalid.
    pub async fn connect(options: RedisOptions, limits: PresenceLimits) -> Result<Self, RedisError> {
        ScriptRunner::connect(options).await.map(|runner| Self::over(Arc::new(runner), limits))
    }

    /// Returns the stores and the feed.
    #[must_use]
    pub fn presences(self) -> Presences {
        let this = Arc::new(self);
        Presences { sessions: Arc::<Self>::clone(&this), active: Arc::<Self>::clone(&this), feed: this }
    }

    async fn one(&self, call: ScriptCall<'_>) -> Result<Reply, PresenceError> {
        let answer = self.runner.run(&[call]).await.into_iter().next();
        answer.unwrap_or(Err(SharedError::Unexpected)).map_err(presence_error)
    }

    async fn each(&self, calls: &[ScriptCall<'_>]) -> Vec<Result<Reply, PresenceError>> {
        self.runner.run(calls).await.into_iter().map(|answer| answer.map_err(presence_error)).collect()
    }
}

impl Scripts {
    fn new() -> Self {
        Self {
            claim: RedisScript::new(include_str!("lua/claim.lua")),
            gateways: RedisScript::new(include_str!("lua/gateways.lua")),
            forget: RedisScript::new(include_str!("lua/forget.lua")),
            schedule_check: RedisScript::new(include_str!("lua/schedule_check.lua")),
            users_to_check: RedisScript::new(include_str!("lua/users_to_check.lua")),
            mark_checked: RedisScript::new(include_str!("lua/mark_checked.lua")),
            change: RedisScript::new(include_str!("lua/change.lua")),
            sessions: RedisScript::new(include_str!("lua/sessions.lua")),
            record_fan_out: RedisScript::new(include_str!("lua/record_fan_out.lua")),
            apply: RedisScript::new(include_str!("lua/apply.lua")),
            distribution: RedisScript::new(include_str!("lua/distribution.lua")),
            active: RedisScript::new(include_str!("lua/active.lua")),
        }
    }
}

#[async_trait]
impl PresenceFeed for RedisPresence {
    async fn subscribe(&self) -> Result<Box<dyn PresenceSubscription>, PresenceError> {
        let published = self.runner.subscribe(self.names.channels()).await.map_err(presence_error)?;
        Ok(Box::new(RedisSubscription(published)))
    }
}

#[derive(Debug)]
struct RedisSubscription(ChannelSubscription);

#[async_trait]
impl PresenceSubscription for RedisSubscription {
    /// Messages that no script can have published are ignored.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let message = self.0.next().await?;
            if let Some(event) = reply::event(&message) {
                return Some(event);
            }
        }
    }
}

const fn presence_error(error: SharedError) -> PresenceError {
    match error {
        SharedError::Unexpected => PresenceError::Unexpected,
        SharedError::Unavailable | SharedError::Timeout | SharedError::Refused | SharedError::Fallen => {
            PresenceError::Unavailable
        }
    }
}

/// Converts to whole milliseconds, for scripts.
fn milliseconds(time: Duration) -> String {
    time.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn several_take_one_runner() {
        let options = RedisOptions {
            url: "redis://127.0.0.1:1/3".to_owned(),
            connect_timeout: Duration::from_millis(10),
            ..RedisOptions::default()
        };
        let runner = Arc::new(ScriptRunner::connect(options).await.unwrap());
        let limits = PresenceLimits {
            sessions_max: 1,
            gateways_max: 1,
            kept: Duration::from_secs(1),
            recheck_after: Duration::from_secs(1),
        };
        let one = RedisPresence::over(Arc::clone(&runner), limits);
        let other = RedisPresence::over(Arc::clone(&runner), limits);
        assert!(Arc::ptr_eq(&one.runner, &runner) && Arc::ptr_eq(&other.runner, &runner));
        assert_eq!(one.names.channels(), [format!("{{{}}}:3:presence", runner.tag())]);
    }
}
