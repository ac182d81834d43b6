//! An issuer that can sign users' tokens.

#![allow(dead_code, unreachable_pub, reason = "each executable uses a part")]

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kith_server::{
    auth::{Issuer, Tokens},
    config::{IssuerConfig, TokenAlgorithm},
};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// How far an issuer's clock and a node's may be apart.
pub const LEEWAY: Duration = Duration::from_secs(30);
pub const NAME: &str = "https://id.example/";

pub struct Signer {
    key_id: String,
    pair: Ed25519KeyPair,
}

impl Signer {
    /// Makes an issuer with a different key for each number.
    pub fn new(number: u8) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap();
        Self { key_id: format!("key-{number}"), pair }
    }

    /// Returns the published keys.
    pub fn jwks(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": self.key_id, "x": x}]}).to_string()
    }

    pub fn issuer(&self) -> Issuer {
        let config = IssuerConfig {
            issuer: NAME.to_owned(),
            audience: vec!["kith".to_owned()],
            algorithms: TokenAlgorithm::ALL.to_vec(),
            jwks_file: Some("jwks.json".into()),
            jwks_url: None,
            jwks_ca_file: None,
            user_claim: "sub".to_owned(),
            lifetime_max: Duration::from_secs(3600),
        };
        Issuer::new(config, self.jwks().as_bytes()).unwrap()
    }

    /// Makes a node accept only this issuer's tokens.
    pub fn tokens(&self) -> Arc<Tokens> {
        Arc::new(Tokens::new(vec![self.issuer()]))
    }

    /// Makes a token for this user, for ten minutes.
    pub fn token(&self, user: i64) -> String {
        self.token_for(user, Duration::from_secs(600))
    }

    /// Makes a token for this user, which a node accepts for this time.
    pub fn token_for(&self, user: i64, taken: Duration) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let exp = (now + taken).saturating_sub(LEEWAY).as_secs_f64();
        let iat = (exp - 60.0).min(now.as_secs_f64());
        self.signed(&json!({
            "iss": NAME, "aud": "kith", "sub": user.to_string(), "iat": iat, "exp": exp,
        }))
    }

    /// Makes a token for this user, made at this time, for ten minutes.
    pub fn token_made(&self, user: i64, made: SystemTime) -> String {
        let iat = made.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        self.signed(&json!({
            "iss": NAME, "aud": "kith", "sub": user.to_string(), "iat": iat, "exp": iat + 600.0,
        }))
    }

    /// Makes a token with these claims.
    pub fn signed(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "kid": self.key_id, "typ": "JWT"});
        let signed = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes())))
    }
}
