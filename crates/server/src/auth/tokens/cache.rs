//! The tokens that were verified before.

use std::{collections::HashMap, fmt, mem, sync::Arc};

use ahash::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::{Digest, user::User};

/// Most tokens that are known at one time.
const TOKENS_MAX: usize = 100_000;
/// Parts with a lock each.
const SHARDS: usize = 16;
/// Most tokens in a shard's generation. A shard has two generations.
const GENERATION: usize = TOKENS_MAX / SHARDS / 2;

/// A token that was verified.
#[derive(Clone, Debug)]
pub(super) struct VerifiedToken {
    pub(super) user: Arc<User>,
    /// The time at which its signature has to be verified again.
    pub(super) until: Instant,
}

/// Tokens by their SHA-256: at most 100,000. Only tokens with a right signature get in, so that wrong tokens
/// displace none. In each shard the older generation makes room; a token that is used moves to the younger
/// generation.
#[derive(Default)]
pub(super) struct VerifiedTokens {
    shards: [Mutex<CacheShard>; SHARDS],
}

#[derive(Default)]
struct CacheShard {
    young: HashMap<[u8; 32], VerifiedToken, RandomState>,
    old: HashMap<[u8; 32], VerifiedToken, RandomState>,
}

impl VerifiedTokens {
    /// The user that this digest's token names, if the token was verified and is still taken.
    pub(super) fn get(&self, digest: &Digest, now: Instant) -> Option<Arc<User>> {
        let key = digest.bytes();
        let mut shard = self.shard(key).lock();
        if let Some(found) = shard.young.get(key) {
            return (now < found.until).then(|| Arc::clone(&found.user));
        }
        let found = shard.old.remove(key).filter(|found| now < found.until)?;
        let user = Arc::clone(&found.user);
        shard.put(*key, found);
        Some(user)
    }

    /// Knows a token from now on.
    pub(super) fn put(&self, digest: &Digest, verified: VerifiedToken, now: Instant) {
        if now < verified.until {
            self.shard(digest.bytes()).lock().put(*digest.bytes(), verified);
        }
    }

    fn shard(&self, key: &[u8; 32]) -> &Mutex<CacheShard> {
        &self.shards[usize::from(key[0]) % SHARDS]
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.young.len() + shard.old.len()).sum()
    }
}

impl CacheShard {
    fn put(&mut self, key: [u8; 32], verified: VerifiedToken) {
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, verified);
    }
}

impl fmt::Debug for VerifiedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kith_store::UserId;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn verified(until: Instant) -> VerifiedToken {
        let (id, ended) = (UserId::new(7).unwrap(), CancellationToken::new());
        let user = User { id, issued: None, ends: until, ended };
        VerifiedToken { user: Arc::new(user), until }
    }

    fn digest(number: usize) -> Digest {
        Digest::of(&number.to_be_bytes())
    }

    #[test]
    fn tokens_are_known_until_their_time() {
        let (tokens, now) = (VerifiedTokens::default(), Instant::now());
        tokens.put(&digest(1), verified(now + Duration::from_secs(1)), now);
        assert!(tokens.get(&digest(1), now).is_some() && tokens.get(&digest(2), now).is_none());
        assert!(tokens.get(&digest(1), now + Duration::from_secs(1)).is_none());
        tokens.put(&digest(3), verified(now), now);
        assert!(tokens.get(&digest(3), now).is_none());
    }

    #[test]
    fn tokens_in_use_stay_while_the_table_is_bounded() {
        let (tokens, now) = (VerifiedTokens::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        tokens.put(&digest(0), verified(until), now);
        for number in 1..=2 * TOKENS_MAX {
            tokens.put(&digest(number), verified(until), now);
            if number % 1000 == 0 {
                assert!(tokens.get(&digest(0), now).is_some(), "{number}");
            }
        }
        assert!((TOKENS_MAX / 2..=TOKENS_MAX).contains(&tokens.count()), "{}", tokens.count());
        assert!(tokens.get(&digest(1), now).is_none());
    }
}
