//! Names for keys and channels in Redis.

use kith_store::{GroupId, UserId};

use crate::Instance;

/// Names the keys and the channel. The text in the first braces selects the slot in a cluster.
#[derive(Debug)]
pub(super) struct Names {
    /// The database's prefix and id, without braces.
    tag: String,
    database: u8,
}

impl Names {
    pub(super) const fn new(tag: String, database: u8) -> Self {
        Self { tag, database }
    }

    /// All databases on a server share their channels.
    pub(super) fn channel(&self) -> String {
        format!("{{{}}}:{}:presence", self.tag, self.database)
    }

    pub(super) fn user(&self, user: UserId) -> String {
        format!("{{{}:presence:user:{user}}}", self.tag)
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
    use super::*;
    use crate::Incarnation;

    #[test]
    fn keys_of_one_owner_share_a_tag() {
        let names = Names::new("kith:1".to_owned(), 0);
        let tag = |key: &str| key.split_once('}').unwrap().0.to_owned();
        let (seven, eight) = (GroupId::new(7).unwrap(), GroupId::new(8).unwrap());
        let tags: Vec<_> = names.group(seven).iter().map(|key| tag(key)).collect();
        assert!(tags.iter().all(|other| *other == tags[0]));
        assert_ne!(tags[0], tag(&names.group(eight)[0]));
        assert_ne!(tag(&names.gateways()[0]), tag(&names.user(UserId::new(7).unwrap())));
    }

    #[test]
    fn two_databases_share_no_name() {
        let names = |tag: &str| {
            let names = Names::new(tag.to_owned(), 0);
            let instance = Instance { gateway: "g1".parse().unwrap(), incarnation: Incarnation::random() };
            let one = [names.channel(), names.user(UserId::new(7).unwrap()), names.gateway_users(&instance)];
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
