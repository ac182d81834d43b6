//! Names for keys and channels in Redis.

use kith_cache::remote::redis::{SLOT_PARTS, slot_tag};
use kith_store::{GroupId, UserId};

use crate::Instance;

/// Names of keys and channels. The text in the first braces selects the slot of a cluster.
#[derive(Debug)]
pub(super) struct Names {
    /// The database's prefix and id, without braces.
    tag: String,
    database: u8,
    /// The text that selects the slot for each part of the users, without braces: a user's events are
    /// published in its slot.
    parts: [String; SLOT_PARTS],
    /// Whether channels have slots.
    has_sharded_channels: bool,
}

impl Names {
    pub(super) fn new(tag: String, database: u8, has_sharded_channels: bool) -> Self {
        let stem = format!("{tag}:presence:users");
        let parts = std::array::from_fn(|part| slot_tag(&stem, part));
        Self { tag, database, parts, has_sharded_channels }
    }

    /// Names the channels: one channel for each part of the users in a Redis Cluster, otherwise a single
    /// channel. A server's databases share all channels, so a channel's name has the database.
    pub(super) fn channels(&self) -> Vec<String> {
        let tags = if self.has_sharded_channels { &self.parts[..] } else { std::slice::from_ref(&self.tag) };
        tags.iter().map(|tag| self.channel_of(tag)).collect()
    }

    /// The channel of a user.
    pub(super) fn channel(&self, user: UserId) -> String {
        self.channel_of(if self.has_sharded_channels { self.part(user) } else { &self.tag })
    }

    fn channel_of(&self, tag: &str) -> String {
        format!("{{{tag}}}:{}:presence", self.database)
    }

    fn part(&self, user: UserId) -> &str {
        &self.parts[usize::try_from(user.get()).unwrap_or_default() % SLOT_PARTS]
    }

    pub(super) fn user(&self, user: UserId) -> String {
        format!("{{{}}}:user:{user}", self.part(user))
    }

    /// A gateway's users.
    pub(super) fn gateway_users(&self, instance: &Instance) -> String {
        format!("{{{}:presence:gateway:{instance}}}", self.tag)
    }

    /// Claims, deadlines and the epoch.
    pub(super) fn gateways(&self) -> Vec<String> {
        let name = |what| format!("{{{}:presence}}:{what}", self.tag);
        ["claims", "deadlines", "epoch"].map(name).to_vec()
    }

    /// Users, online users, gateways, and users who went.
    pub(super) fn group(&self, group: GroupId) -> Vec<String> {
        let name = |what| format!("{{{}:presence:group:{group}}}:{what}", self.tag);
        ["users", "online", "gateways", "gone"].map(name).to_vec()
    }
}

/// An id with a fixed length, so that texts sort like numbers.
pub(super) fn padded(user: UserId) -> String {
    format!("{:019}", user.get())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kith_cache::remote::redis::key_slot;

    use super::*;
    use crate::Incarnation;

    #[test]
    fn keys_of_one_owner_share_a_tag() {
        let names = Names::new("kith:1".to_owned(), 0, false);
        let tag = |key: &str| key.split_once('}').unwrap().0.to_owned();
        let (seven, eight) = (GroupId::new(7).unwrap(), GroupId::new(8).unwrap());
        let tags: Vec<_> = names.group(seven).iter().map(|key| tag(key)).collect();
        assert!(tags.iter().all(|other| *other == tags[0]));
        assert_ne!(tags[0], tag(&names.group(eight)[0]));
        assert_ne!(tag(&names.gateways()[0]), tag(&names.user(UserId::new(7).unwrap())));
    }

    #[test]
    fn channel_of_a_user_is_in_its_slot() {
        let (names, single) =
            (Names::new("kith:1".to_owned(), 0, true), Names::new("kith:1".to_owned(), 0, false));
        let mut used = BTreeSet::new();
        for user in (1..=100).map(|id| UserId::new(id).unwrap()) {
            assert_eq!(key_slot(&names.channel(user)), key_slot(&names.user(user)));
            assert_eq!(single.channels(), [single.channel(user)]);
            used.insert(names.channel(user));
        }
        assert_eq!(used, names.channels().into_iter().collect());
        assert_eq!(used.len(), SLOT_PARTS);
    }

    #[test]
    fn two_databases_share_no_name() {
        let names = |tag: &str| {
            let names = Names::new(tag.to_owned(), 0, false);
            let instance = Instance { gateway: "g1".parse().unwrap(), incarnation: Incarnation::random() };
            let user = UserId::new(7).unwrap();
            let one = [names.channel(user), names.user(user), names.gateway_users(&instance)];
            [one.to_vec(), names.gateways(), names.group(GroupId::new(7).unwrap())].concat()
        };
        let (one, other) = (names("kith:1"), names("kith:2"));
        assert!(one.len() == 10 && one.iter().all(|name| !other.contains(name)), "{one:?}");
    }

    #[test]
    fn ids_stand_in_their_order() {
        let ids = [1, 9, 10, i64::MAX].map(|id| padded(UserId::new(id).unwrap()));
        assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == 19));
    }
}
