//! The section about who may call.

use std::{fmt, path::PathBuf, time::Duration};

use kith_service::invalid_value::{InvalidValue, above_zero, refuse};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::Config;
use crate::auth::{
    Digest, IssuerConfig,
    new_key::{self, WeakKey},
    tokens,
};

/// Configured callers, each with a name, scopes and keys.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// TOML with the callers, their scopes and the digests of their keys: `kith keys create` writes it.
    pub callers_file: Option<PathBuf>,
    /// How often this file, `api_key_file` and the `jwks_file` of issuers are read again. Above 0.
    #[serde(with = "humantime_serde")]
    pub read_again_every: Duration,
    /// How often the `jwks_url` of issuers are read. Within 30 s also when a token names an unknown key.
    #[serde(skip)]
    pub jwks_read_every: Duration,
    /// Who issues tokens of users, as tables `[[auth.issuers]]`: see
    /// [security](../guide/security.md#users-tokens).
    pub issuers: Vec<IssuerConfig>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            callers_file: None,
            read_again_every: Duration::from_secs(10),
            jwks_read_every: Duration::from_secs(10 * 60),
            issuers: Vec::new(),
        }
    }
}

/// A key for the caller `default`. Only its digest is kept: the key itself is overwritten as soon as it was
/// read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ApiKey {
    digest: Digest,
    weak: Option<WeakKey>,
}

impl ApiKey {
    /// The digest by which the key is known.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl Serialize for ApiKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("<redacted>")
    }
}

impl<'de> Deserialize<'de> for ApiKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let key = Zeroizing::new(String::deserialize(from)?);
        Ok(Self { digest: Digest::of(key.as_bytes()), weak: new_key::check(&key).err() })
    }
}

impl Config {
    /// Whether a caller or a token issuer is configured. A node without them is open.
    #[must_use]
    pub const fn has_callers(&self) -> bool {
        self.has_keys() || !self.auth.issuers.is_empty()
    }

    /// Whether a caller with a key is configured.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        self.api_key.is_some() || self.api_key_file.is_some() || self.auth.callers_file.is_some()
    }

    /// Whether other machines can reach the gRPC port.
    #[must_use]
    pub fn is_reached_by_others(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback()
    }
}

/// A node that other machines reach has callers, or says that it wants none.
pub(super) fn check(config: &Config) -> Result<(), InvalidValue> {
    above_zero(&[("auth.read_again_every", config.auth.read_again_every.is_zero())])?;
    tokens::check(&config.auth.issuers)?;
    if config.api_key.is_some() && config.api_key_file.is_some() {
        return refuse("api_key_file", "and api_key are both given; give one");
    }
    if let Some(weak) = config.api_key.as_ref().and_then(|key| key.weak) {
        return refuse("api_key", &weak.to_string());
    }
    if config.insecure_callers && config.has_callers() {
        return refuse(
            "insecure_callers",
            "lets everybody call, and a caller is configured too; leave out one of them",
        );
    }
    if config.ws.trusted && config.has_callers() {
        return refuse(
            "ws.trusted",
            "lets every socket name its user without proof, and callers need a key; leave it off, or configure no caller",
        );
    }
    if config.is_reached_by_others() && !config.has_callers() && !config.insecure_callers {
        let text = format!(
            "{} can be reached by other machines, and everybody there could do everything; make a key (kith keys generate \
             --file kith.key) and set api_key_file to it, or set insecure_callers",
            config.listen
        );
        return refuse("listen", &text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "correct-horse-battery-staple-mfx";

    fn api_key(key: &str) -> Option<ApiKey> {
        Some(serde_json::from_value(serde_json::Value::from(key)).unwrap())
    }

    fn checked(change: impl FnOnce(&mut Config)) -> Result<(), String> {
        let mut config = Config::default();
        change(&mut config);
        check(&config).map_err(|wrong| wrong.text)
    }

    fn open(config: &mut Config) {
        config.listen = "0.0.0.0:7600".parse().unwrap();
    }

    #[test]
    fn reachable_node_needs_callers_or_the_word() {
        assert_eq!(checked(|_| {}), Ok(()));
        assert!(checked(open).unwrap_err().contains("kith keys generate --file kith.key"));
        for caller in [
            |config: &mut Config| config.api_key = api_key(KEY),
            |config: &mut Config| config.api_key_file = Some("kith.key".into()),
            |config: &mut Config| config.auth.callers_file = Some("callers.toml".into()),
            |config: &mut Config| config.insecure_callers = true,
        ] {
            assert_eq!(checked(|config| (open(config), caller(config)).0), Ok(()));
        }
    }

    #[test]
    fn what_contradicts_a_caller_is_refused() {
        let key = |config: &mut Config| config.api_key_file = Some("kith.key".into());
        let insecure = checked(|config| (key(config), config.insecure_callers = true).0);
        assert!(insecure.unwrap_err().starts_with("insecure_callers lets everybody call"));
        let trusted = checked(|config| (key(config), config.ws.trusted = true).0);
        assert!(trusted.unwrap_err().starts_with("ws.trusted lets every socket"));
        let both = checked(|config| (key(config), config.api_key = api_key(KEY)).0);
        assert_eq!(both, Err("api_key_file and api_key are both given; give one".to_owned()));
    }

    #[test]
    fn weak_key_is_refused_and_no_key_is_shown() {
        let weak = checked(|config| config.api_key = api_key("hunter2"));
        assert!(weak.as_ref().unwrap_err().starts_with("api_key has fewer than 32 characters"), "{weak:?}");
        assert!(!weak.unwrap_err().contains("hunter2"));
        let key = api_key(KEY).unwrap();
        assert_eq!(format!("{key:?} {}", serde_json::to_string(&key).unwrap()), "<redacted> \"<redacted>\"");
        assert_eq!(key.digest(), Digest::of(KEY.as_bytes()));
    }
}
