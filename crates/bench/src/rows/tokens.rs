//! Measures a user token's cost: a call whose token is known, over a call with a key; and a token that is
//! seen for the first time, over verifying its signature alone.

use std::{
    fs,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kith_lab_servers::people;
use kith_server::{
    auth::{Issuer, Tokens},
    config::IssuerConfig,
};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::json;
use tempfile::TempDir;

use super::loaded::{KEY, LoadedServer, cpu_micros};
use crate::{
    claims::{Plan, TOKEN_COST_CPU, TOKEN_FIRST},
    ratio::{Pair, Side, count, interleave},
    results::Results,
    served::ServerProcess,
};

const NAME: &str = "https://id.example/";
/// Longer than a run.
const LIFETIME: Duration = Duration::from_hours(12);

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let signer = Signer::new()?;
    results.row(&TOKEN_COST_CPU, cost(plan, &signer)).await?;
    results.row(&TOKEN_FIRST, first(plan, &signer)).await
}

/// Issues tokens for the bench.
struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Result<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]);
        Ok(Self(pair.map_err(|_| anyhow!("the key of the bench is none"))?))
    }

    fn jwks(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "bench", "x": x}]}).to_string()
    }

    fn token(&self, user: i64) -> Result<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": NAME, "aud": "kith", "sub": user.to_string(), "iat": now, "exp": now + LIFETIME.as_secs(),
        });
        let header = json!({"alg": "EdDSA", "kid": "bench", "typ": "JWT"});
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()))))
    }
}

/// Processor time for a call by a user / by a caller, on one node.
async fn cost(plan: &Plan, signer: &Signer) -> Result<Vec<Pair<f64>>> {
    let folder = TempDir::new()?;
    let (config, jwks) = (folder.path().join("kith.toml"), folder.path().join("jwks.json"));
    fs::write(&jwks, signer.jwks())?;
    let issuer = format!(
        "[[auth.issuers]]\nissuer = '{NAME}'\naudience = ['kith']\njwks_file = '{}'\n",
        jwks.display()
    );
    fs::write(&config, issuer)?;
    let served = ServerProcess::kith_with_users(plan, &config, KEY)?;
    let ids = people::shuffled(plan.size(10_000, 200), 1);
    let by_key = LoadedServer::node(served, Some(KEY), &ids).await?;
    let by_token = by_key.with_credential(&signer.token(*ids.first().context("there is a user")?)?)?;
    cpu_micros(plan, &by_key, &by_token).await
}

/// Tokens that are seen for the first time, a second / signatures that ring verifies.
async fn first(plan: &Plan, signer: &Signer) -> Result<Vec<Pair<f64>>> {
    let tokens: Vec<_> =
        (1..=plan.size(20_000, 500)).map(|user| signer.token(user)).collect::<Result<_>>()?;
    let parts = tokens.iter().map(|token| {
        let (signed, signature) = token.rsplit_once('.').context("a token has a signature")?;
        Ok((signed, URL_SAFE_NO_PAD.decode(signature)?))
    });
    let parts: Vec<(&str, Vec<u8>)> = parts.collect::<Result<_>>()?;
    let key = UnparsedPublicKey::new(&ED25519, signer.0.public_key());
    interleave(plan.rounds, async |side| {
        // The table of known tokens is empty.
        let known = Tokens::new(vec![issuer(signer)?]);
        let begun = Instant::now();
        match side {
            Side::Baseline => {
                let right =
                    parts.iter().all(|(signed, signature)| key.verify(signed.as_bytes(), signature).is_ok());
                ensure!(right, "ring refuses a token");
            }
            Side::Kith => {
                for token in &tokens {
                    ensure!(known.user(token).await.is_ok(), "a token is refused");
                }
            }
        }
        Ok(count(tokens.len()) / begun.elapsed().as_secs_f64())
    })
    .await
}

fn issuer(signer: &Signer) -> Result<Issuer> {
    let config = json!({"issuer": NAME, "audience": ["kith"], "jwks_file": "jwks.json"});
    let config: IssuerConfig = serde_json::from_value(config)?;
    Issuer::new(config, signer.jwks().as_bytes())
        .map_err(|why| anyhow!("the keys of the bench are none:{why}"))
}
