//! A token issuer for trials and tests: Kith itself issues none.

use std::time::{Duration, SystemTime};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use kith_store::UserId;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{Ed25519KeyPair, KeyPair as _},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::json;
use zeroize::Zeroizing;

/// The issuer's name (`iss`), and the audience in its tokens.
pub const TRIAL_ISSUER: &str = "kith-token-make";
const AUDIENCE: &str = "kith";
/// The bytes before the seed in a key without a public key (RFC 8410, PKCS #8 version 1): more programs read
/// it than version 2 (RFC 5958).
const PKCS8_BEFORE_SEED: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const SEED: usize = 32;
/// Characters in a PEM line.
const PEM_LINE: usize = 64;

/// An issuer with a private key (Ed25519), which signs a token for each user who is named.
#[derive(Debug)]
pub struct TrialIssuer {
    pair: Ed25519KeyPair,
}

impl TrialIssuer {
    /// A new private key, as PEM (PKCS #8); `None` if the system gives no random bytes.
    #[must_use]
    pub fn generate() -> Option<Zeroizing<String>> {
        let mut seed = Zeroizing::new([0; SEED]);
        SystemRandom::new().fill(seed.as_mut()).ok()?;
        pem(&[PKCS8_BEFORE_SEED, &*seed])
    }

    /// The issuer with this private key, of either version; `None` if the text is no such key.
    #[must_use]
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        Some(Self { pair: Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.secret_pkcs8_der()).ok()? })
    }

    /// The public key, as a node reads it (JWKS).
    #[must_use]
    pub fn jwks(&self) -> String {
        let x = self.public_key();
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.key_id(), "x": x}]})
            .to_string()
    }

    /// The configuration for a node: a table `[[auth.issuers]]`, whose keys are in this file.
    #[must_use]
    pub fn configuration(jwks_file: &str) -> String {
        let [issuer, audience, file] =
            [TRIAL_ISSUER, AUDIENCE, jwks_file].map(|text| toml::Value::from(text).to_string());
        format!("[[auth.issuers]]\nissuer = {issuer}\naudience = [{audience}]\njwks_file = {file}\n")
    }

    /// Makes a token for this user, valid from now on.
    #[must_use]
    pub fn token(&self, user: UserId, lifetime: Duration, now: SystemTime) -> Zeroizing<String> {
        let issued = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({"alg": "EdDSA", "kid": self.key_id(), "typ": "JWT"});
        let claims = json!({
            "iss": TRIAL_ISSUER, "aud": AUDIENCE, "sub": user.to_string(), "iat": issued,
            "exp": issued.saturating_add(lifetime.as_secs()),
        });
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        Zeroizing::new(format!("{signed}.{signature}"))
    }

    fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key())
    }

    /// Taken from the key itself: another key has another id.
    fn key_id(&self) -> String {
        self.public_key().chars().take(8).collect()
    }
}

/// The parts of a private key as PEM.
fn pem(parts: &[&[u8]]) -> Option<Zeroizing<String>> {
    let key = Zeroizing::new(parts.concat());
    let text = Zeroizing::new(STANDARD.encode(key.as_slice()));
    let mut pem = Zeroizing::new("-----BEGIN PRIVATE KEY-----\n".to_owned());
    for line in text.as_bytes().chunks(PEM_LINE) {
        pem.push_str(std::str::from_utf8(line).ok()?);
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----");
    Some(pem)
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    #[test]
    fn new_key_has_version_one() {
        let pem = TrialIssuer::generate().unwrap();
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        // A sequence of 46 bytes, whose first element is the number 0.
        assert_eq!(key.secret_pkcs8_der()[..5], [0x30, 46, 2, 1, 0]);
        assert_eq!(key.secret_pkcs8_der().len(), 48);
        assert_ne!(*pem, *TrialIssuer::generate().unwrap());
    }

    #[test]
    fn key_with_public_key_is_read() {
        let second = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        assert_eq!(second.as_ref()[4], 1);
        let pair = Ed25519KeyPair::from_pkcs8(second.as_ref()).unwrap();
        let issuer = TrialIssuer::from_pem(pem(&[second.as_ref()]).unwrap().as_bytes()).unwrap();
        assert_eq!(issuer.public_key(), URL_SAFE_NO_PAD.encode(pair.public_key()));
    }

    #[tokio::test]
    async fn trial_tokens_are_taken_by_their_own_key() {
        let pem = TrialIssuer::generate().unwrap();
        let issuer = TrialIssuer::from_pem(pem.as_bytes()).unwrap();
        assert!(TrialIssuer::from_pem(b"no key").is_none());
        let table: toml::Table = toml::from_str(&TrialIssuer::configuration("a 'quoted' file")).unwrap();
        let config: IssuerConfig = table["auth"]["issuers"][0].clone().try_into().unwrap();
        assert_eq!(config.jwks_file.as_deref(), Some(std::path::Path::new("a 'quoted' file")));
        let tokens = Tokens::new(vec![Issuer::new(config.clone(), issuer.jwks().as_bytes()).unwrap()]);
        let (user, lifetime) = (UserId::new(7).unwrap(), Duration::from_secs(60));
        let token = issuer.token(user, lifetime, SystemTime::now());
        assert_eq!(tokens.user(&token).await.map(|(user, _)| user), Ok(user));
        let other = TrialIssuer::from_pem(TrialIssuer::generate().unwrap().as_bytes()).unwrap();
        let token = other.token(user, lifetime, SystemTime::now());
        assert_eq!(tokens.user(&token).await, Err(TokenRefusal::Key));
    }
}
