//! Names the inboxes' keys and channels. Users are divided into 16 buckets with one cluster slot each, so
//! that one script run can serve many users in a Redis Cluster. On a single server, one run serves all users.

use std::collections::BTreeMap;

use kith_cache::remote::redis::{SLOT_PARTS, slot_tag};
use kith_store::{ConversationId, NodeName, UserId};

use crate::{
    inbox::Wake,
    redis::names::{number_of, readers},
};

/// Names keys and channels. All keys in a bucket are in one cluster slot, and the buckets' slots are spread
/// evenly over the cluster. Each epoch has its own keys.
#[derive(Debug)]
pub(super) struct InboxNames {
    /// The database's prefix and id, without braces.
    tag: String,
    database: u8,
    /// The text that selects each bucket's slot, without braces.
    buckets: [String; SLOT_PARTS],
    /// Whether channels have slots.
    has_sharded_channels: bool,
}

impl InboxNames {
    pub(super) fn new(tag: String, database: u8, has_sharded_channels: bool) -> Self {
        let stem = format!("{tag}:in");
        let buckets = std::array::from_fn(|bucket| slot_tag(&stem, bucket));
        Self { tag, database, buckets, has_sharded_channels }
    }

    /// Returns the hash and the stream of an inbox.
    pub(super) fn inbox(&self, user: UserId, epoch: u64) -> Vec<String> {
        let bucket = &self.buckets[bucket_of(user)];
        vec![self.hash(user, epoch), format!("{{{bucket}}}:{epoch}:s:{user}")]
    }

    /// Returns the hash of an inbox.
    pub(super) fn hash(&self, user: UserId, epoch: u64) -> String {
        format!("{{{}}}:{epoch}:m:{user}", self.buckets[bucket_of(user)])
    }

    /// Divides users into script runs. `has_slots`: a run's users must be in one slot.
    pub(super) fn runs(users: &[UserId], has_slots: bool) -> Vec<Vec<UserId>> {
        let mut runs: BTreeMap<usize, Vec<UserId>> = BTreeMap::new();
        for user in users {
            let run = if has_slots { bucket_of(*user) } else { 0 };
            runs.entry(run).or_default().push(*user);
        }
        runs.into_values().collect()
    }

    /// Names the set of nodes that read a conversation.
    pub(super) fn readers(&self, conversation: ConversationId, epoch: u64) -> Vec<String> {
        vec![readers(&self.tag, conversation, epoch)]
    }

    /// Names the times at which nodes last said that they run, and this node's confirmations; both are in one
    /// slot. All epochs share these keys: a node may have died with its epoch.
    pub(super) fn confirmed(&self, node: &NodeName) -> Vec<String> {
        let times = self.times();
        let of_node = format!("{times}:{node}");
        vec![times, of_node]
    }

    /// Names the times at which nodes last said that they run.
    pub(super) fn times(&self) -> String {
        format!("{{{}:receivers}}", self.tag)
    }

    /// Names a node's channels: one channel for each bucket in a Redis Cluster, where wakes are larger than
    /// all other publications, otherwise a single channel. A server's databases share all channels, so a
    /// channel's name has the database.
    pub(super) fn wake_channels(&self, node: &NodeName) -> Vec<String> {
        let tags =
            if self.has_sharded_channels { &self.buckets[..] } else { std::slice::from_ref(&self.tag) };
        tags.iter().map(|tag| self.channel(tag, node)).collect()
    }

    /// Names the channel of a wake for a node. Wakes for one conversation, or for one user, have the same
    /// channel.
    pub(super) fn wake_channel(&self, node: &NodeName, wake: &Wake) -> String {
        let tag = if self.has_sharded_channels { &self.buckets[bucket_of_wake(wake)] } else { &self.tag };
        self.channel(tag, node)
    }

    fn channel(&self, tag: &str, node: &NodeName) -> String {
        format!("{{{tag}}}:{}:wake:{node}", self.database)
    }
}

fn bucket_of_wake(wake: &Wake) -> usize {
    match wake {
        Wake::Messages { sent, .. } | Wake::Conversation(sent) => {
            usize::try_from(number_of(sent.conversation)).unwrap_or_default() % SLOT_PARTS
        }
        Wake::Entries { user, .. } | Wake::Lost { user } | Wake::Signal { user, .. } => bucket_of(*user),
    }
}

fn bucket_of(user: UserId) -> usize {
    usize::try_from(user.get()).unwrap_or_default() % SLOT_PARTS
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use kith_cache::remote::redis::key_slot;

    use super::*;

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    fn tag_of(key: &str) -> &str {
        key.strip_prefix('{').unwrap().split_once('}').unwrap().0
    }

    fn names(has_sharded_channels: bool) -> InboxNames {
        InboxNames::new("kith:1".to_owned(), 0, has_sharded_channels)
    }

    #[test]
    fn slot_is_that_of_the_documentation() {
        assert_eq!(key_slot("123456789"), 0x31C3);
    }

    #[test]
    fn buckets_are_spread_over_every_cluster() {
        let names = names(false);
        let slot = |key: &str| usize::from(key_slot(tag_of(key)));
        let slots: Vec<usize> = (1..=16).map(|id| slot(&names.inbox(user(id), 5)[0])).collect();
        for masters in [2, 3, 4, 6, 8, 12, 16] {
            let owners: HashSet<usize> = slots.iter().map(|slot| slot * masters / 16_384).collect();
            assert_eq!(owners.len(), masters, "a master of {masters} has none of {slots:?}");
        }
    }

    #[test]
    fn keys_of_an_inbox_are_in_one_slot() {
        let names = names(false);
        let [hash, stream] = &names.inbox(user(7), 5)[..] else { panic!() };
        assert_eq!(tag_of(hash), tag_of(stream));
        assert_ne!(hash, stream);
        assert_ne!(names.inbox(user(7), 5), names.inbox(user(7), 6), "of two epochs");
        assert_ne!(names.inbox(user(7), 5), names.inbox(user(23), 5), "of two users of a bucket");
        assert_eq!(names.readers("g9".parse().unwrap(), 5), ["{kith:1:log:g9}:5:n"]);
        let confirmed = names.confirmed(&"n1".parse().unwrap());
        assert_eq!(confirmed, ["{kith:1:receivers}", "{kith:1:receivers}:n1"]);
        assert_eq!(names.wake_channels(&"n1".parse().unwrap()), ["{kith:1}:0:wake:n1"]);
    }

    #[test]
    fn wake_is_on_a_channel_of_its_node() {
        let node = "n1".parse().unwrap();
        for has_sharded_channels in [false, true] {
            let names = names(has_sharded_channels);
            let channels: HashSet<String> = names.wake_channels(&node).into_iter().collect();
            let used: HashSet<String> =
                (1..=100).map(|id| names.wake_channel(&node, &Wake::Lost { user: user(id) })).collect();
            assert_eq!(used, channels);
            assert_eq!(channels.len(), if has_sharded_channels { 16 } else { 1 });
        }
        let slots: HashSet<u16> =
            names(true).wake_channels(&node).iter().map(|name| key_slot(name)).collect();
        assert_eq!(slots.len(), 16);
    }

    #[test]
    fn run_has_users_of_one_slot() {
        let users: Vec<UserId> = (1..=1_000).map(user).collect();
        let runs = InboxNames::runs(&users, true);
        assert_eq!(runs.len(), 16);
        for run in &runs {
            assert!(run.iter().all(|user| bucket_of(*user) == bucket_of(run[0])));
        }
        let all: HashSet<UserId> = runs.concat().into_iter().collect();
        assert_eq!(all.len(), 1_000);
        assert_eq!(InboxNames::runs(&users, false), [users]);
        assert!(InboxNames::runs(&[], false).is_empty());
    }
}
