//! Configured issuers for users' tokens.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use kith_service::invalid_value::{InvalidValue, refuse};
use serde::{Deserialize, Serialize};

use super::JwksUrl;

const KEY: &str = "auth.issuers";
/// Claims that mean something else.
const NO_USER: [&str; 7] = ["iss", "aud", "exp", "iat", "nbf", "jti", ""];

/// An issuer for JSON Web Tokens, each of which lets its user call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// The name in its tokens (`iss`), compared character by character.
    pub issuer: String,
    /// The audiences, of which a token must name one (`aud`). Without them every token from the issuer would
    /// be taken, also a token for another program.
    pub audience: Vec<String>,
    /// The algorithms that it signs with.
    #[serde(default = "all_algorithms")]
    pub algorithms: Vec<TokenAlgorithm>,
    /// The file with its public keys (JWKS).
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    /// Where it publishes its keys by HTTPS, in place of the file.
    #[serde(default)]
    pub jwks_url: Option<JwksUrl>,
    /// The certificates (PEM) that verify the server at `jwks_url`. Default: the certificates that the system
    /// trusts.
    #[serde(default)]
    pub jwks_ca_file: Option<PathBuf>,
    /// The claim with the user's id.
    #[serde(default = "subject")]
    pub user_claim: String,
    /// Most time between `iat` and `exp` in a token.
    #[serde(default = "day", with = "humantime_serde")]
    pub lifetime_max: Duration,
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum TokenAlgorithm {
    /// Signs with Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
    /// P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// RSA PKCS#1 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
}

impl TokenAlgorithm {
    /// Every algorithm. All sign by a private key: what a node has cannot sign.
    pub const ALL: [Self; 3] = [Self::EdDsa, Self::Es256, Self::Rs256];

    /// The name in tokens and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }

    /// The algorithm with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

fn all_algorithms() -> Vec<TokenAlgorithm> {
    TokenAlgorithm::ALL.to_vec()
}

fn subject() -> String {
    "sub".to_owned()
}

const fn day() -> Duration {
    Duration::from_secs(24 * 60 * 60)
}

/// Refuses a configuration that would take no token, or too many.
pub(crate) fn check(issuers: &[IssuerConfig]) -> Result<(), InvalidValue> {
    let mut names = BTreeSet::new();
    for issuer in issuers {
        let name = &issuer.issuer;
        let says = |why: &str| refuse(KEY, &format!("issuer `{name}` {why}"));
        if name.is_empty() {
            return refuse(KEY, "has an entry without a name; set issuer to what tokens name (iss)");
        }
        if !names.insert(name) {
            return says("is there twice; write its keys into one file");
        }
        if issuer.audience.is_empty() || issuer.audience.iter().any(String::is_empty) {
            return says(
                "has no audience, so that its tokens for other programs would be taken; name that of Kith (aud)",
            );
        }
        if issuer.jwks_file.is_some() == issuer.jwks_url.is_some() {
            return says("needs jwks_file or jwks_url, and not both, to find its keys");
        }
        if issuer.jwks_ca_file.is_some() && issuer.jwks_url.is_none() {
            return says("has a jwks_ca_file, which is for jwks_url alone; leave it out");
        }
        if issuer.algorithms.is_empty() {
            return says("has no algorithms; name some of EdDSA, ES256, RS256, or leave the key out");
        }
        if NO_USER.contains(&issuer.user_claim.as_str()) {
            return says("has a user_claim that names no user; name the claim with the id, as sub");
        }
        if issuer.lifetime_max.is_zero() {
            return says("has a lifetime_max of 0; give it a value above 0");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> IssuerConfig {
        toml::from_str("issuer = 'https://id.example/'\naudience = ['kith']\njwks_file = 'jwks.json'")
            .unwrap()
    }

    #[test]
    fn an_issuer_says_by_default_what_most_do() {
        let issuer = issuer();
        assert_eq!((issuer.user_claim.as_str(), issuer.lifetime_max), ("sub", Duration::from_secs(86_400)));
        assert_eq!(issuer.algorithms, TokenAlgorithm::ALL);
        assert!(check(&[issuer]).is_ok());
    }

    #[test]
    fn issuers_without_own_audience_are_refused() {
        let why = |change: fn(&mut IssuerConfig)| {
            let mut changed = issuer();
            change(&mut changed);
            check(&[changed]).unwrap_err().text
        };
        assert!(why(|one| one.audience.clear()).contains("has no audience"));
        assert!(why(|one| one.audience.push(String::new())).contains("has no audience"));
        assert!(why(|one| one.issuer.clear()).contains("without a name"));
        assert!(why(|one| one.algorithms.clear()).contains("has no algorithms"));
        assert!(why(|one| one.user_claim = "aud".to_owned()).contains("user_claim"));
        assert!(why(|one| one.lifetime_max = Duration::ZERO).contains("lifetime_max"));
        assert!(check(&[issuer(), issuer()]).unwrap_err().text.contains("twice"));
    }

    #[test]
    fn keys_of_an_issuer_have_one_source() {
        let why = |toml: &str| {
            let issuer = toml::from_str(&format!("issuer = 'a'\naudience = ['kith']\n{toml}")).unwrap();
            check(&[issuer]).err().map(|wrong| wrong.text).unwrap_or_default()
        };
        let (file, url) = ("jwks_file = 'jwks.json'\n", "jwks_url = 'https://id.example/jwks'\n");
        assert_eq!((why(file), why(url)), (String::new(), String::new()));
        assert_eq!(why(&format!("{url}jwks_ca_file = 'ca.pem'")), "");
        for wrong in ["", &format!("{file}{url}")] {
            assert!(why(wrong).contains("needs jwks_file or jwks_url"), "{wrong}");
        }
        assert!(why(&format!("{file}jwks_ca_file = 'ca.pem'")).contains("is for jwks_url alone"));
    }

    #[test]
    fn other_algorithms_and_unknown_keys_are_refused() {
        let base = "issuer = 'a'\naudience = ['kith']\njwks_file = 'jwks.json'\n";
        for more in
            ["algorithms = ['HS256']", "algorithms = ['none']", "jwks_uri = 'x'", "audience_any = true"]
        {
            assert!(toml::from_str::<IssuerConfig>(&format!("{base}{more}")).is_err(), "{more}");
        }
        assert!(
            toml::from_str::<IssuerConfig>("issuer = 'a'\njwks_file = 'b'").is_err(),
            "an audience is needed"
        );
    }
}
