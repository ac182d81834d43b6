//! The configuration of who is online, with its defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, above_zero, refuse};

/// Presence: who is online.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PresenceConfig {
    /// After how long a session ends that is not renewed. Above 0.
    #[serde(with = "humantime_serde")]
    pub session_ttl: Duration,
    /// After how long without a heartbeat a gateway counts as dead. Above 0.
    #[serde(with = "humantime_serde")]
    pub gateway_ttl: Duration,
    /// How often dead gateways and expired sessions are searched. Above 0.
    #[serde(with = "humantime_serde")]
    pub sweep_every: Duration,
    /// How often each node reads which gateways are alive, and whether presence was lost.
    #[serde(skip)]
    pub look_every: Duration,
    /// How long after a loss of presence users not seen since are unknown, not offline.
    #[serde(skip)]
    pub unknown_for: Duration,
    /// How long an opening or closing waits until the user's groups are notified.
    #[serde(skip)]
    pub fan_out_wait: Duration,
    /// Users whose groups a node notifies at one time.
    #[serde(skip)]
    pub fan_outs_at_once: usize,
    /// Maximum sessions of one user. Above 0.
    pub sessions_max: u32,
    /// Maximum gateways.
    #[serde(skip)]
    pub gateways_max: u32,
    /// Sessions that a node restores if presence is lost.
    #[serde(skip)]
    pub sessions_held: usize,
    /// Maximum callers that watch presence on a node.
    #[serde(skip)]
    pub watchers: usize,
    /// Maximum streams in which one user watches presence on a node; users together have at most three
    /// quarters of `watchers`.
    #[serde(skip)]
    pub watchers_of_user: usize,
    /// Changes that one of the watchers may be behind.
    #[serde(skip)]
    pub watch_behind: usize,
    /// How often it is checked whom a watcher may see.
    #[serde(skip)]
    pub visibility_every: Duration,
}

impl Default for PresenceConfig {
    fn default() -> Self {
        Self {
            session_ttl: Duration::from_secs(600),
            gateway_ttl: Duration::from_secs(20),
            sweep_every: Duration::from_secs(2),
            look_every: Duration::from_secs(1),
            unknown_for: Duration::from_secs(30),
            fan_out_wait: Duration::from_millis(100),
            fan_outs_at_once: 32,
            sessions_max: 20,
            gateways_max: 10_000,
            sessions_held: 200_000,
            watchers: 1_000,
            watchers_of_user: 8,
            watch_behind: 1_024,
            visibility_every: Duration::from_secs(30),
        }
    }
}

impl PresenceConfig {
    /// Whether each value can be taken, and all of them together.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        above_zero(&[
            ("presence.session_ttl", self.session_ttl.is_zero()),
            ("presence.gateway_ttl", self.gateway_ttl.is_zero()),
            ("presence.sweep_every", self.sweep_every.is_zero()),
            ("presence.sessions_max", self.sessions_max == 0),
        ])?;
        if self.look_every > self.gateway_ttl {
            let text = format!("is {:?}; it must not be below {:?}", self.gateway_ttl, self.look_every);
            return refuse("presence.gateway_ttl", &text);
        }
        Ok(())
    }
}
