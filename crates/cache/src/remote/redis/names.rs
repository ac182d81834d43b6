//! Names of keys and channels. Each contains the prefix and the database id, so that no other database's
//! copies are ever read. In a cluster all these keys are in one slot: both are in braces at the front, and
//! Redis uses the first pair of braces, whatever the key contains further on.

use fred::{types::Key, util::redis_keyslot};

use super::RedisError;

/// Slots of a cluster.
const SLOTS: u16 = 16_384;
/// Equal parts of the slots, see [`slot_tag`].
pub const SLOT_PARTS: usize = 16;

/// Longest prefix.
const PREFIX_MAX: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Before every key.
    keys: String,
    /// Before every channel: unlike keys, channels are shared by all databases of a server.
    channels: String,
    /// The channel on which ends of leases are published.
    pub(super) wakes: String,
    /// Which database has the prefix. The only key without an id in its name.
    pub(super) owner: Key,
}

impl Names {
    /// `index`: the number of the Redis database.
    pub(super) fn new(prefix: &str, database_id: u64, index: Option<u8>) -> Result<Self, RedisError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.bytes().all(allowed) {
            return Err(RedisError::Prefix);
        }
        let keys = format!("{{{}}}:", tag(prefix, database_id));
        let channels = format!("{keys}{}:", index.unwrap_or_default());
        let owner = format!("{{{prefix}:database}}").into();
        Ok(Self { wakes: format!("{channels}wakes"), keys, channels, owner })
    }

    /// Makes a cell's key. Its address begins with an epoch's number, so that it differs from all other names
    /// here.
    pub(super) fn cell(&self, address: &str) -> Key {
        [&self.keys, address].concat().into()
    }

    /// The cell's address in a key; `None` if it is no cell under this prefix.
    pub(super) fn address<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(key.strip_prefix(self.keys.as_bytes())?).ok()
    }

    pub(super) fn log(&self, epoch: u64) -> Key {
        format!("{}log:{epoch}", self.keys).into()
    }

    pub(super) fn nodes(&self, epoch: u64) -> Key {
        format!("{}nodes:{epoch}", self.keys).into()
    }

    /// The key under which the nodes describe themselves.
    pub(super) fn abouts(&self, epoch: u64) -> Key {
        format!("{}about:{epoch}", self.keys).into()
    }

    pub(super) fn highest_epoch(&self) -> Key {
        format!("{}epoch", self.keys).into()
    }

    /// Written and deleted at once, to check whether the server accepts writes.
    pub(super) fn write_test(&self) -> Key {
        format!("{}test", self.keys).into()
    }

    /// The channel on which the entries of the log are published.
    pub(super) fn entries(&self, epoch: u64) -> String {
        format!("{}log:{epoch}", self.channels)
    }

    /// The channel on which a node receives confirmations.
    pub(super) fn confirmations(&self, epoch: u64, node: u64) -> String {
        format!("{}node:{epoch}:{node}", self.channels)
    }

    /// The channel on which a node tests that it receives its own messages.
    pub(super) fn self_test(&self, node: u64) -> String {
        format!("{}test:{node}", self.channels)
    }
}

/// The text between the braces in every name except the owner's, or its beginning.
pub(super) fn tag(prefix: &str, database_id: u64) -> String {
    format!("{prefix}:{database_id:016x}")
}

/// The slot of a cluster in which a key is; below 16,384.
#[must_use]
pub fn key_slot(key: &str) -> u16 {
    redis_keyslot(key.as_bytes())
}

/// The first of the names `stem:0`, `stem:1`, ... whose slot is in this part of the slots, which are divided
/// into [`SLOT_PARTS`]. Names by number alone would not be spread evenly over a cluster's servers.
#[must_use]
pub fn slot_tag(stem: &str, part: usize) -> String {
    let name = |number: u32| format!("{stem}:{number}");
    let is_in_part = |name: &String| usize::from(key_slot(name)) / (usize::from(SLOTS) / SLOT_PARTS) == part;
    (0..=u32::MAX).map(name).find(is_in_part).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_stays_in_the_slot_of_its_prefix() {
        let names = Names::new("kith", 7, None).unwrap();
        for address in ["1:user:7", "1:user:{x}", "1:user:}{", "1:user: \r\nDEL *?[a] :", "1:user:\0é"] {
            let key = names.cell(address);
            assert_eq!(redis_keyslot(key.as_bytes()), redis_keyslot(b"kith:0000000000000007"));
            assert_eq!(names.address(key.as_bytes()), Some(address));
        }
        assert_eq!(redis_keyslot(names.log(1).as_bytes()), redis_keyslot(b"kith:0000000000000007"));
        assert_eq!(Names::new("kit", 7, None).unwrap().address(names.cell("1:user:7").as_bytes()), None);
        assert_eq!(names.address(&[&b"{kith:0000000000000007}:"[..], &[0xff]].concat()), None);
    }

    #[test]
    fn prefix_with_special_characters_is_refused() {
        for bad in ["", "a b", "a}", "{a", "a:b", "a*", "ä", &"x".repeat(41)] {
            assert_eq!(Names::new(bad, 7, None).unwrap_err(), RedisError::Prefix);
        }
        assert!(Names::new("Kith_1.prod-eu", 7, Some(3)).is_ok());
    }

    #[test]
    fn databases_of_one_server_have_own_channels() {
        let (one, two) = (Names::new("kith", 7, Some(1)).unwrap(), Names::new("kith", 7, Some(2)).unwrap());
        assert_ne!(one.entries(1), two.entries(1));
        assert_ne!(one.wakes, two.wakes);
    }

    #[test]
    fn two_databases_share_no_name() {
        let names = |id| {
            let names = Names::new("kith", id, None).unwrap();
            let keys = [
                names.cell("1:user:7"),
                names.log(1),
                names.nodes(1),
                names.abouts(1),
                names.highest_epoch(),
            ];
            let keys = keys.map(|key| key.into_string().unwrap());
            let channels = [names.entries(1), names.confirmations(1, 2), names.self_test(1), names.wakes];
            [keys.to_vec(), channels.to_vec()].concat()
        };
        let (one, other) = (names(1), names(0x10));
        assert!(one.iter().all(|name| !other.contains(name)));
        assert!(one.iter().chain(&other).all(|name| name.starts_with("{kith:")), "one pattern for ACLs");
    }
}
