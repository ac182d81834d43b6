//! Secrets: hashed so that they can only be checked, or encrypted so that only Kith can read them.

use std::{collections::BTreeMap, hash::Hash, num::NonZeroU32, sync::Arc};

use argon2::{
    Argon2, PasswordHash, PasswordHasher as _, PasswordVerifier as _,
    password_hash::{SaltString, rand_core::OsRng},
};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use chacha20poly1305::{
    ChaCha20Poly1305, KeyInit as _,
    aead::{Aead as _, AeadCore as _, Payload},
};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use kith_store::{GroupId, Invalid, SecretChange, StoredSecret};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::error::{Error, Reason};

/// Secrets as callers send them, by name; an empty one requests removal. Wiped when dropped.
pub type PlainSecrets = BTreeMap<String, Zeroizing<String>>;

const SECRET_BYTES_MAX: usize = 1024;
/// The hash that a secret is compared with if none is stored: it costs the same, and is no secret's hash.
const NO_SECRET: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// The attempts between sweeps that remove unused counters.
const ATTEMPTS_PER_SWEEP: usize = 10_000;

/// Checks a request's secret.
///
/// # Errors
/// If it is longer than 1024 bytes.
pub fn check_secret(secret: &str) -> Result<(), Invalid> {
    if secret.len() > SECRET_BYTES_MAX {
        return Err(Invalid::new(format!("must have at most {SECRET_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// Hashes and checks secrets (argon2id with its recommended cost), at most as many at the same time as there
/// are cores.
#[derive(Clone, Debug)]
pub struct SecretHasher {
    permits: Arc<Semaphore>,
}

impl SecretHasher {
    /// Makes at most `at_once` hashes at the same time; the others wait.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(at_once.max(1))) }
    }

    /// A salted hash. Takes tens of core milliseconds, off the runtime.
    ///
    /// # Errors
    /// INTERNAL when hashing fails.
    pub async fn hash(&self, secret: Zeroizing<String>) -> Result<StoredSecret, Error> {
        self.work(move || {
            let salt = SaltString::generate(&mut OsRng);
            let hash = Argon2::default().hash_password(secret.as_bytes(), &salt).ok()?;
            Some(StoredSecret::new(hash.to_string()))
        })
        .await
    }

    /// Returns the secrets as they are stored: their hashes. An empty secret is to be removed.
    ///
    /// # Errors
    /// INTERNAL if hashing fails.
    pub async fn hash_all(&self, secrets: PlainSecrets) -> Result<SecretChange, Error> {
        let mut hashed = SecretChange::new();
        for (name, secret) in secrets {
            let change = if secret.is_empty() { None } else { Some(self.hash(secret).await?) };
            hashed.insert(name, change);
        }
        Ok(hashed)
    }

    /// Whether `secret` was hashed to this; compared in constant time. Takes the same time if none is stored,
    /// so that the time does not reveal whether there is one.
    ///
    /// # Errors
    /// INTERNAL if the stored value is not a hash.
    pub async fn verify(
        &self,
        stored: Option<StoredSecret>,
        secret: Zeroizing<String>,
    ) -> Result<bool, Error> {
        self.work(move || {
            let hash = PasswordHash::new(stored.as_ref().map_or(NO_SECRET, StoredSecret::expose)).ok()?;
            let is_same = Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok();
            Some(is_same && stored.is_some())
        })
        .await
    }

    /// A digest that is the same for the same secret and request, and as slow to guess as a hash. It
    /// represents a secret in a request's fingerprint.
    ///
    /// # Errors
    /// INTERNAL if hashing fails.
    pub async fn digest(&self, secret: Zeroizing<String>, request: String) -> Result<[u8; 32], Error> {
        self.work(move || {
            let salt = <sha2::Sha256 as sha2::Digest>::digest(request.as_bytes());
            let mut digest = [0; 32];
            Argon2::default().hash_password_into(secret.as_bytes(), &salt, &mut digest).ok()?;
            Some(digest)
        })
        .await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Result<T, Error> {
        let failed = Error::internal;
        let _permit = self.permits.acquire().await.map_err(|_| failed())?;
        tokio::task::spawn_blocking(work).await.ok().flatten().ok_or_else(failed)
    }
}

/// Counts the attempts to guess a secret, by the secret's key, on this node.
#[derive(Debug)]
pub struct AttemptLimiter<K: Clone + Eq + Hash> {
    limiter: DefaultKeyedRateLimiter<K>,
    since_sweep: std::sync::atomic::AtomicUsize,
}

impl<K: Clone + Eq + Hash> AttemptLimiter<K> {
    /// This many within a minute.
    #[must_use]
    pub fn per_minute(attempts: NonZeroU32) -> Self {
        Self { limiter: RateLimiter::keyed(Quota::per_minute(attempts)), since_sweep: 0.into() }
    }

    /// Counts one attempt.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there were too many.
    pub fn count(&self, secret: &K) -> Result<(), Error> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.since_sweep.fetch_add(1, Relaxed) >= ATTEMPTS_PER_SWEEP {
            self.since_sweep.store(0, Relaxed);
            self.limiter.retain_recent();
        }
        let within = self.limiter.check_key(secret);
        within.map_err(|_| Error::new(Reason::TooManyTries, "too many tries for this secret within a minute"))
    }
}

/// Generates and seals invite codes: encrypted with ChaCha20-Poly1305 and bound to their group.
#[derive(Clone)]
pub struct InviteCodes {
    cipher: ChaCha20Poly1305,
    key: [u8; 32],
}

impl std::fmt::Debug for InviteCodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InviteCodes(..)")
    }
}

impl InviteCodes {
    /// All nodes share the key.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self { cipher: ChaCha20Poly1305::new(&key.into()), key }
    }

    /// A new code with 12 characters (60 bits) without look-alikes. With a request id it is derived from the
    /// request, so that a repeated call has the same answer.
    #[must_use]
    pub fn generate(&self, group: GroupId, request: Option<&str>) -> Zeroizing<String> {
        use hmac::{Hmac, Mac as _};
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut bytes = [0_u8; 32];
        match request {
            None => rand::Rng::fill(&mut rand::rng(), &mut bytes[..]),
            Some(request) => {
                let mut mac = <Hmac<sha2::Sha256> as hmac::Mac>::new_from_slice(&self.key)
                    .unwrap_or_else(|_| unreachable!("any length is a key"));
                mac.update(b"invite code");
                mac.update(&group.get().to_be_bytes());
                mac.update(request.as_bytes());
                bytes.copy_from_slice(&mac.finalize().into_bytes());
            }
        }
        Zeroizing::new(bytes[..12].iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
    }

    /// The form that is stored.
    ///
    /// # Errors
    /// INTERNAL if sealing fails.
    pub fn seal(&self, group: GroupId, code: &str) -> Result<StoredSecret, Error> {
        let nonce = ChaCha20Poly1305::generate_nonce(&mut chacha20poly1305::aead::OsRng);
        let aad = group.get().to_be_bytes();
        let sealed = self.cipher.encrypt(&nonce, Payload { msg: code.as_bytes(), aad: &aad });
        let sealed = sealed.map_err(|_| Error::internal())?;
        Ok(StoredSecret::new(STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat())))
    }

    /// The code.
    ///
    /// # Errors
    /// INTERNAL if it was sealed with another key or for another group.
    pub fn open(&self, group: GroupId, sealed: &StoredSecret) -> Result<String, Error> {
        const NONCE_BYTES: usize = 12;
        let open = || {
            let bytes = STANDARD_NO_PAD.decode(sealed.expose()).ok()?;
            let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
            let aad = group.get().to_be_bytes();
            let code = self.cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: &aad }).ok()?;
            String::from_utf8(code).ok()
        };
        open().ok_or_else(Error::internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hash_verifies_its_own_secret_only() {
        let hasher = SecretHasher::new(2);
        let stored = hasher.hash(Zeroizing::new("correct horse".to_owned())).await.unwrap();
        assert!(stored.expose().starts_with("$argon2id$"));
        let right = || Zeroizing::new("correct horse".to_owned());
        assert!(hasher.verify(Some(stored.clone()), right()).await.unwrap());
        assert!(!hasher.verify(Some(stored), Zeroizing::new("wrong".to_owned())).await.unwrap());
        assert!(!hasher.verify(None, right()).await.unwrap());
    }

    #[tokio::test]
    async fn absent_secret_costs_permit_and_same_hash() {
        let hasher = SecretHasher::new(1);
        let permit = hasher.permits.acquire().await.unwrap();
        let mut verified = Box::pin(hasher.verify(None, Zeroizing::new("guess".to_owned())));
        assert!(futures::poll!(&mut verified).is_pending(), "it waits for a permit to hash");
        drop(permit);
        assert!(!verified.await.unwrap());
        let stored = hasher.hash(Zeroizing::new("guess".to_owned())).await.unwrap();
        let cost = |text: &str| text.rsplitn(3, '$').last().unwrap().to_owned();
        assert_eq!(cost(NO_SECRET), cost(stored.expose()));
        assert_eq!(NO_SECRET.len(), stored.expose().len());
    }

    #[test]
    fn sealed_code_opens_for_its_own_group_only() {
        let codes = InviteCodes::new([3; 32]);
        let (one, two) = (GroupId::new(1).unwrap(), GroupId::new(2).unwrap());
        let code = codes.generate(one, None);
        let sealed = codes.seal(one, &code).unwrap();
        assert_eq!(codes.open(one, &sealed).unwrap(), *code);
        assert!(codes.open(two, &sealed).is_err());
        assert!(InviteCodes::new([4; 32]).open(one, &sealed).is_err());
    }

    #[test]
    fn codes_repeat_for_the_same_request_alone() {
        let codes = InviteCodes::new([3; 32]);
        let group = GroupId::new(1).unwrap();
        assert_ne!(codes.generate(group, None), codes.generate(group, None));
        assert_eq!(codes.generate(group, Some("a")), codes.generate(group, Some("a")));
        assert_ne!(codes.generate(group, Some("a")), codes.generate(group, Some("b")));
    }

    #[test]
    fn sixth_attempt_within_a_minute_is_refused() {
        let attempts = AttemptLimiter::per_minute(NonZeroU32::new(5).unwrap());
        for _ in 0..5 {
            attempts.count(&(1, "pwd")).unwrap();
        }
        assert_eq!(attempts.count(&(1, "pwd")).unwrap_err().reason(), Reason::TooManyTries);
        assert!(attempts.count(&(2, "pwd")).is_ok() && attempts.count(&(1, "sid")).is_ok());
    }
}
