//! What a token says: for whom, until when, and of which user.

use std::time::{Duration, SystemTime};

use kith_store::UserId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{IssuerConfig, LEEWAY, TokenRefusal};

/// The claims that every token has, and others. One that is there twice is an error of the reader.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    iss: String,
    aud: Audience,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// What follows from claims that are right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ValidClaims {
    pub(super) user: UserId,
    /// How long the token is still taken.
    pub(super) left: Duration,
}

impl Claims {
    /// The issuer that the token claims.
    pub(super) fn issuer(&self) -> &str {
        &self.iss
    }

    /// Checks them by what the issuer may say.
    pub(super) fn check(&self, issuer: &IssuerConfig, now: SystemTime) -> Result<ValidClaims, TokenRefusal> {
        if !self.aud.has_one_of(&issuer.audience) {
            return Err(TokenRefusal::Audience);
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = LEEWAY.as_secs_f64();
        let left = self.exp + leeway - now;
        if left <= 0.0 {
            return Err(TokenRefusal::Expired);
        }
        if self.iat > now + leeway || self.nbf.is_some_and(|nbf| nbf > now + leeway) {
            return Err(TokenRefusal::Early);
        }
        if self.exp - self.iat > issuer.lifetime_max.as_secs_f64() {
            return Err(TokenRefusal::Lifetime);
        }
        // The lifetime bounds it.
        let left = Duration::try_from_secs_f64(left).map_err(|_| TokenRefusal::Lifetime)?;
        let user = self.user(&issuer.user_claim).ok_or(TokenRefusal::User)?;
        Ok(ValidClaims { user, left })
    }

    /// A user has one text: digits without a zero in front.
    fn user(&self, claim: &str) -> Option<UserId> {
        match self.others.get(claim)? {
            Value::String(text) => text.parse().ok().filter(|user: &UserId| user.to_string() == *text),
            Value::Number(number) => UserId::new(number.as_i64()?).ok(),
            _ => None,
        }
    }
}

impl Audience {
    fn has_one_of(&self, wanted: &[String]) -> bool {
        match self {
            Self::One(one) => wanted.contains(one),
            Self::Many(all) => all.iter().any(|one| wanted.contains(one)),
        }
    }
}
