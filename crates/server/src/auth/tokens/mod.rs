//! Identifies users by tokens: JSON Web Tokens that configured issuers have signed.
//!
//! Kith issues none. An issuer's keys are in a file, or at an address that the configuration names. A token
//! is bound to the keys, the audience and the algorithms of the issuer that it names, and the algorithm to
//! the kind of key.

mod cache;
mod claims;
mod compact;
mod config;
mod fetch;
mod key_set;
mod refusal;
mod url;

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use kith_store::UserId;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use self::{
    cache::{VerifiedToken, VerifiedTokens},
    compact::CompactToken,
    key_set::{KeySet, PublicKey},
};
use super::{Digest, user::User};

pub(crate) use self::{config::check, fetch::fetch};
pub use self::{
    config::{IssuerConfig, TokenAlgorithm},
    refusal::TokenRefusal,
    url::JwksUrl,
};

/// The longest token that is accepted, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 8192;
/// How far an issuer's clock and a node's clock may be apart.
pub(crate) const LEEWAY: Duration = Duration::from_secs(30);
/// How long a token that was verified is taken without another look at its signature, and before its end.
const KNOWN_FOR: Duration = Duration::from_secs(5 * 60);

/// A token issuer with its keys. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuer {
    config: IssuerConfig,
    /// Keys by their ids, which are names here and never a path or an address.
    keys: BTreeMap<Box<str>, Arc<PublicKey>>,
    odd_keys: Vec<String>,
}

/// The knowledge about a token before its signature is verified.
pub(crate) enum TokenLookup {
    /// The token was verified before.
    User(Arc<User>),
    /// Everything but its signature is right.
    Unverified(UnverifiedToken),
}

/// A token whose signature has to be verified.
pub(crate) struct UnverifiedToken {
    known: Arc<IssuerSet>,
    verify_permits: Arc<Semaphore>,
    key: Arc<PublicKey>,
    digest: Digest,
    compact: CompactToken,
    user: Arc<User>,
}

/// The issuers that a node knows at this moment, and the tokens that it has verified. Cheap to read; a new
/// set replaces the whole old set.
pub struct Tokens {
    known: ArcSwap<IssuerSet>,
    /// Everybody can make a token with a known key id and a wrong signature: those must not take all
    /// processors.
    verify_permits: Arc<Semaphore>,
    /// Notified when a token names a key that its issuer does not have, if this issuer's keys are fetched.
    missed: Notify,
}

struct IssuerSet {
    issuers: Vec<Issuer>,
    /// Replaced with the set: a removed key takes along the tokens that it has signed.
    verified: VerifiedTokens,
}

impl Issuer {
    /// Creates an issuer with the keys in this file (JWKS).
    ///
    /// # Errors
    /// Says what is wrong with the file, in words that follow its name. Contains no part of a key.
    pub fn new(config: IssuerConfig, jwks: &[u8]) -> Result<Self, String> {
        let KeySet { keys, odd: odd_keys } = key_set::parse(jwks, &config.algorithms)?;
        Ok(Self { config, keys, odd_keys })
    }

    /// Says what is wrong with keys that are left out, in words that follow the file's name. Contains no part
    /// of a key.
    #[must_use]
    pub fn odd_keys(&self) -> &[String] {
        &self.odd_keys
    }

    /// Creates an issuer whose keys are not known yet.
    pub(crate) fn without_keys(config: IssuerConfig) -> Self {
        Self { config, keys: BTreeMap::new(), odd_keys: Vec::new() }
    }

    /// How it is configured.
    pub(crate) const fn config(&self) -> &IssuerConfig {
        &self.config
    }

    /// How many keys it may sign with.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.issuer
    }
}

impl Tokens {
    /// No token is taken.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Takes tokens from these issuers.
    #[must_use]
    pub fn new(issuers: Vec<Issuer>) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let verify_permits = Arc::new(Semaphore::new((cores / 4).max(1)));
        Self { known: ArcSwap::from_pointee(IssuerSet::new(issuers)), verify_permits, missed: Notify::new() }
    }

    /// How many issuers there are.
    #[must_use]
    pub fn issuers(&self) -> usize {
        self.known.load().issuers.len()
    }

    /// Finds the user that a token names, as calls do, also if the token is new here. Returns how long the
    /// token is taken, too.
    ///
    /// # Errors
    /// Returns the rule that the token breaks.
    pub async fn user(&self, token: &str) -> Result<(UserId, Duration), TokenRefusal> {
        let now = Instant::now();
        let user = match self.find(token.as_bytes(), Digest::of(token.as_bytes()), now)? {
            TokenLookup::User(user) => user,
            TokenLookup::Unverified(unverified) => unverified.verify().await?,
        };
        Ok((user.id, user.ends.saturating_duration_since(now)))
    }

    /// Returns once a token names an unknown key and its issuer's keys are fetched: the issuer may have a new
    /// key. Every client can make such a token.
    pub(crate) async fn key_missed(&self) {
        self.missed.notified().await;
    }

    /// Takes on other keys. A key that stays keeps its users' streams. All other streams end, and tokens that
    /// the removed keys have signed are no longer taken. Returns whether anything has changed.
    pub fn replace(&self, mut issuers: Vec<Issuer>) -> bool {
        let before = self.known.load_full();
        for issuer in &mut issuers {
            issuer.reuse_keys(&before);
        }
        if before.has_keys_of(&issuers) {
            return false;
        }
        let now = Arc::new(IssuerSet::new(issuers));
        self.known.store(Arc::clone(&now));
        // This comes after the new set is stored: a later call finds the key in the new set alone.
        let ended = before.all().filter(|key| !now.all().any(|other| Arc::ptr_eq(key, other)));
        ended.for_each(|key| key.ended.cancel());
        true
    }

    /// Looks a token up. If it was verified before, this locks a part of the table; else the text is read,
    /// and no signature is verified. `digest` is the token's digest.
    ///
    /// # Errors
    /// Returns whatever is wrong with it besides its signature.
    pub(crate) fn find(
        &self,
        token: &[u8],
        digest: Digest,
        now: Instant,
    ) -> Result<TokenLookup, TokenRefusal> {
        self.find_at(token, digest, now, SystemTime::now)
    }

    fn find_at(
        &self,
        token: &[u8],
        digest: Digest,
        now: Instant,
        clock: impl FnOnce() -> SystemTime,
    ) -> Result<TokenLookup, TokenRefusal> {
        let known = self.known.load();
        if let Some(user) = known.verified.get(&digest, now) {
            return Ok(TokenLookup::User(user));
        }
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenRefusal::Size);
        }
        let compact = CompactToken::read(token)?;
        let claims = compact.claims()?;
        let issuer = known.issuer(claims.issuer()).ok_or(TokenRefusal::Issuer)?;
        if !issuer.config.algorithms.contains(&compact.algorithm) {
            return Err(TokenRefusal::Algorithm);
        }
        let Some(key) = issuer.keys.get(&*compact.key_id) else {
            if issuer.config.jwks_url.is_some() {
                self.missed.notify_one();
            }
            return Err(TokenRefusal::Key);
        };
        if key.algorithm() != compact.algorithm {
            return Err(TokenRefusal::Algorithm);
        }
        let valid = claims.check(&issuer.config, clock())?;
        let issued = Some(valid.issued);
        let user = User { id: valid.user, issued, ends: now + valid.left, ended: key.ended.clone() };
        Ok(TokenLookup::Unverified(UnverifiedToken {
            known: Arc::clone(&known),
            verify_permits: Arc::clone(&self.verify_permits),
            key: Arc::clone(key),
            digest,
            compact,
            user: Arc::new(user),
        }))
    }
}

impl UnverifiedToken {
    /// Verifies the signature. At most a quarter of the processors do that at one time. Afterwards the token
    /// is known. Dropped before, it has done nothing.
    ///
    /// # Errors
    /// When the key has not signed the token.
    pub(crate) async fn verify(self) -> Result<Arc<User>, TokenRefusal> {
        let Ok(_permit) = self.verify_permits.acquire().await else { return Err(TokenRefusal::Signature) };
        let now = Instant::now();
        // Another call with the same token may have been first.
        if let Some(user) = self.known.verified.get(&self.digest, now) {
            return Ok(user);
        }
        if !self.key.has_signed(self.compact.signed(), &self.compact.signature) {
            return Err(TokenRefusal::Signature);
        }
        let until = (now + KNOWN_FOR).min(self.user.ends);
        self.known.verified.put(&self.digest, VerifiedToken { user: Arc::clone(&self.user), until }, now);
        Ok(self.user)
    }
}

impl Issuer {
    /// Replaces keys by equal keys in `before`, so that their streams go on.
    fn reuse_keys(&mut self, before: &IssuerSet) {
        let Some(before) = before.issuer(&self.config.issuer) else { return };
        for (id, key) in &mut self.keys {
            if let Some(same) = before.keys.get(id).filter(|other| other.is_same(key)) {
                *key = Arc::clone(same);
            }
        }
    }
}

impl IssuerSet {
    fn new(issuers: Vec<Issuer>) -> Self {
        Self { issuers, verified: VerifiedTokens::default() }
    }

    fn issuer(&self, name: &str) -> Option<&Issuer> {
        self.issuers.iter().find(|issuer| issuer.config.issuer == name)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<PublicKey>> {
        self.issuers.iter().flat_map(|issuer| issuer.keys.values())
    }

    /// Whether these issuers have the very keys in this set.
    fn has_keys_of(&self, issuers: &[Issuer]) -> bool {
        let others = issuers.iter().flat_map(|issuer| issuer.keys.iter());
        let own = self.issuers.iter().flat_map(|issuer| issuer.keys.iter());
        own.map(|(id, key)| (id, Arc::as_ptr(key))).eq(others.map(|(id, key)| (id, Arc::as_ptr(key))))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("issuers", &self.known.load().issuers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
