//! Shows whether nodes know the same callers, without showing which.

use std::{fmt, sync::Arc};

use hmac::Mac as _;

use super::{NodeKeys, keys::mac};
use crate::auth::Callers;

/// How many bytes are shown. Two sets have the same bytes at random in one case in 2^64.
const SHOWN: usize = 8;

/// Digests a node's callers with a key that the nodes over a store share. A plain hash would let readers of
/// the status guess a key that a person has chosen.
#[derive(Clone)]
pub(crate) struct CallersDigest {
    key: [u8; 32],
    callers: Arc<Callers>,
}

impl CallersDigest {
    pub(crate) fn new(keys: &NodeKeys, callers: Arc<Callers>) -> Self {
        Self { key: keys.callers(), callers }
    }

    /// Digests the present callers: names, rights, keys and when they expire. Returns 16 hexadecimal digits,
    /// or nothing on a node without callers. Sorts all keys.
    pub(crate) fn now(&self) -> String {
        if self.callers.is_open() {
            return String::new();
        }
        let digest = mac(&self.key, "").chain_update(self.callers.canonical()).finalize().into_bytes();
        digest.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for CallersDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallersDigest")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::auth::{CallerKey, Digest, Rights, Scope};

    fn caller(name: &str, key: &str) -> CallerKey {
        let digest = Digest::of(key.as_bytes());
        CallerKey { name: name.to_owned(), rights: Rights::ALL, digest, made: None, expires: None }
    }

    fn digest(key: u8, set: Vec<CallerKey>) -> String {
        CallersDigest { key: [key; 32], callers: Arc::new(Callers::new(set)) }.now()
    }

    #[test]
    fn digest_ignores_the_order_of_callers() {
        let (a, b) = (caller("a", "one"), caller("b", "two"));
        let both = digest(1, vec![a.clone(), b.clone()]);
        assert!(both.len() == 2 * SHOWN && both.bytes().all(|byte| byte.is_ascii_hexdigit()), "{both}");
        assert_eq!(digest(1, vec![b.clone(), a.clone()]), both);
        let made = CallerKey { made: Some(SystemTime::UNIX_EPOCH), ..a.clone() };
        assert_eq!(digest(1, vec![made, b.clone()]), both, "when a key was made changes no right");
        let expires = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(9));
        for other in [
            vec![a.clone()],
            vec![caller("c", "one"), b.clone()],
            vec![caller("a", "three"), b.clone()],
            vec![CallerKey { rights: Rights::of(&[Scope::Act]), ..a.clone() }, b.clone()],
            vec![CallerKey { expires, ..a.clone() }, b.clone()],
        ] {
            assert_ne!(digest(1, other), both);
        }
        assert_ne!(digest(2, vec![a, b]), both, "nodes of another store");
        let open = CallersDigest { key: [1; 32], callers: Arc::new(Callers::open()) };
        assert_eq!(open.now(), "");
    }
}
