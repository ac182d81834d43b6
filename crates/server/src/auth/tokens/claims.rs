//! A token's claims: its audience, its expiry and its user.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use kith_store::{Timestamp, UserId};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{IssuerConfig, LEEWAY, TokenRefusal};

/// The claims that every token has, and others.
#[derive(Debug)]
pub(super) struct Claims {
    iss: String,
    aud: Vec<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    all: Map<String, Value>,
}

/// All claims in a token. A serde map would keep the last of two equal claims.
pub(super) struct UniqueClaims(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueClaims {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ClaimsVisitor;

        impl<'de> Visitor<'de> for ClaimsVisitor {
            type Value = UniqueClaims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<UniqueClaims, A::Error> {
                let mut all = Map::new();
                while let Some((name, value)) = from.next_entry()? {
                    if all.insert(name, value).is_some() {
                        return Err(A::Error::custom("a claim is there twice"));
                    }
                }
                Ok(UniqueClaims(all))
            }
        }

        from.deserialize_map(ClaimsVisitor)
    }
}

/// The values that follow from correct claims.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ValidClaims {
    pub(super) user: UserId,
    /// When the token was issued: `iat`.
    pub(super) issued: Timestamp,
    /// How long the token is still taken.
    pub(super) left: Duration,
}

impl Claims {
    /// Finds those that every token has.
    pub(super) fn of(UniqueClaims(all): UniqueClaims) -> Result<Self, TokenRefusal> {
        let number = |name: &str| all.get(name).and_then(Value::as_f64);
        let nbf = match all.get("nbf") {
            None | Some(Value::Null) => None,
            Some(_) => Some(number("nbf").ok_or(TokenRefusal::NotBefore)?),
        };
        Ok(Self {
            iss: all.get("iss").and_then(Value::as_str).ok_or(TokenRefusal::NoIssuer)?.to_owned(),
            aud: all.get("aud").and_then(audience).ok_or(TokenRefusal::NoAudience)?,
            exp: number("exp").ok_or(TokenRefusal::NoExpiry)?,
            iat: number("iat").ok_or(TokenRefusal::NoIssueTime)?,
            nbf,
            all,
        })
    }

    /// The issuer that the token claims.
    pub(super) fn issuer(&self) -> &str {
        &self.iss
    }

    /// Checks them by what the issuer may say.
    pub(super) fn check(&self, issuer: &IssuerConfig, now: SystemTime) -> Result<ValidClaims, TokenRefusal> {
        let Self { aud, exp, iat, nbf, .. } = self;
        if !aud.iter().any(|one| issuer.audience.contains(one)) {
            return Err(TokenRefusal::Audience);
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = LEEWAY.as_secs_f64();
        let left = exp + leeway - now;
        if left <= 0.0 {
            return Err(TokenRefusal::Expired);
        }
        if *iat > now + leeway {
            return Err(TokenRefusal::IssuedAhead);
        }
        if nbf.is_some_and(|nbf| nbf > now + leeway) {
            return Err(TokenRefusal::NotBefore);
        }
        if exp - iat > issuer.lifetime_max.as_secs_f64() {
            return Err(TokenRefusal::Lifetime);
        }
        // The lifetime bounds it.
        let left = Duration::try_from_secs_f64(left).map_err(|_| TokenRefusal::Lifetime)?;
        let user = self.user(&issuer.user_claim).ok_or(TokenRefusal::User)?;
        Ok(ValidClaims { user, issued: milliseconds(*iat), left })
    }

    /// The user, as text or as a number.
    fn user(&self, claim: &str) -> Option<UserId> {
        match self.all.get(claim)? {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => UserId::new(number.as_i64()?).ok(),
            _ => None,
        }
    }
}

/// Converts seconds since 1970, with a fraction or without. A number that is no time becomes the earliest
/// time.
fn milliseconds(seconds: f64) -> Timestamp {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// One name or several.
fn audience(claim: &Value) -> Option<Vec<String>> {
    match claim {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}
