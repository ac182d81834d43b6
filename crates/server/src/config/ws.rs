//! Sockets for browsers and devices.

use std::time::Duration;

use kith_service::invalid_value::{InvalidValue, above_zero, refuse};
use serde::{Deserialize, Serialize};

use super::Config;

/// WebSockets at `/ws` of the gRPC port: calls as JSON, and events for one user.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WsConfig {
    /// Whether they are served.
    pub enabled: bool,
    /// Whether a socket names its user without a token of `auth.issuers`. Only on the loopback device, for
    /// trials.
    pub trusted: bool,
    /// Whether `/demo` has a page that uses them.
    pub demo: bool,
    /// How often a socket gets a ping; it is closed after 2.4 times as long without a frame. Above 0.
    #[serde(with = "humantime_serde")]
    pub ping_every: Duration,
    /// Calls of one socket at one time.
    #[serde(skip)]
    pub calls: usize,
    /// Maximum sockets on a node. Above 0.
    pub sockets: usize,
    /// Maximum sockets that wait for their hello. From four fifths on, a new one replaces the oldest of
    /// the address with most of them.
    #[serde(skip)]
    pub sockets_waiting: usize,
}

impl Default for WsConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            trusted: false,
            demo: false,
            ping_every: Duration::from_secs(25),
            calls: 8,
            sockets: 10_000,
            sockets_waiting: 1_000,
        }
    }
}

/// Refuses sockets on which every hello would be refused, or on which every machine could be any user.
pub(super) fn check(config: &Config) -> Result<(), InvalidValue> {
    let ws = &config.ws;
    above_zero(&[("ws.ping_every", ws.ping_every.is_zero()), ("ws.sockets", ws.sockets == 0)])?;
    if ws.demo && !ws.enabled {
        return refuse("ws.demo", "needs ws.enabled: the page opens a socket");
    }
    if ws.enabled && !ws.trusted && config.auth.issuers.is_empty() {
        return refuse(
            "ws.enabled",
            "needs auth.issuers, whose tokens say who the user of a socket is; or ws.trusted, on the loopback device, to try \
             it out without",
        );
    }
    if ws.trusted && config.is_reached_by_others() {
        let text = format!(
            "lets every socket name its user without proof, and {} can be reached by other machines; listen on 127.0.0.1, \
             or leave it off",
            config.listen
        );
        return refuse("ws.trusted", &text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: impl FnOnce(&mut Config)) -> Result<(), &'static str> {
        let mut config = Config::default();
        change(&mut config);
        check(&config).map_err(|wrong| wrong.key)
    }

    #[test]
    fn sockets_without_proof_stay_on_this_machine() {
        let trusted = |config: &mut Config| {
            config.ws.enabled = true;
            config.ws.trusted = true;
        };
        assert_eq!(checked(trusted), Ok(()));
        let open = |config: &mut Config| {
            trusted(config);
            config.listen = "0.0.0.0:7600".parse().unwrap();
        };
        assert_eq!(checked(open), Err("ws.trusted"));
    }

    #[test]
    fn sockets_without_any_user_are_not_served() {
        assert_eq!(checked(|config| config.ws.enabled = true), Err("ws.enabled"));
        let with_issuer = |config: &mut Config| {
            (config.ws.enabled, config.ws.demo) = (true, true);
            let issuer = "issuer = 'a'\naudience = ['kith']\njwks_file = 'jwks.json'";
            config.auth.issuers.push(toml::from_str(issuer).unwrap());
        };
        assert_eq!(checked(with_issuer), Ok(()));
        assert_eq!(checked(|config| config.ws.demo = true), Err("ws.demo"));
        assert_eq!(checked(|config| config.ws.sockets = 0), Err("ws.sockets"));
    }
}
