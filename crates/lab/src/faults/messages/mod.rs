//! Clients that send messages into few conversations through all nodes, read them, and mark them as read.

mod calls;
mod client;
mod dump;
mod receiver;
mod receivers;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Result;
use kith_proto::group::v1::Group;

use self::receivers::Receivers;
pub(super) use self::{
    calls::PreparedCall,
    client::MessageClient,
    dump::{dump, stored},
};
use super::{answered::make_group, client::ClientState};

/// All clients send for one of these users.
const USERS: i64 = 8;
/// The users after them are each in one group, and only receive.
const RECEIVERS: i64 = 176;
/// Senders and receivers.
pub(super) const ALL_USERS: i64 = USERS + RECEIVERS;
/// Groups in which all senders are members. There are as many direct conversations.
const GROUPS: i64 = 10;
/// Number of lines about a run's progress.
const PROGRESS_LINES: u64 = 10;

/// A conversation that clients send to.
#[derive(Debug)]
struct Conversation {
    id: String,
    users: Vec<i64>,
    /// The highest number that a client knows.
    end: AtomicU64,
}

/// The state that all message clients share.
#[derive(Debug)]
pub(super) struct MessageState {
    clients: Arc<ClientState>,
    conversations: Vec<Conversation>,
    /// The number of messages to be acknowledged, and the run's name, for lines about its progress.
    goal: u64,
    name: &'static str,
    receivers: Receivers,
}

impl MessageState {
    /// Makes the groups. Users receive from then on.
    ///
    /// # Errors
    /// If the first node does not make them.
    pub(super) async fn prepare(
        clients: &Arc<ClientState>,
        goal: u64,
        name: &'static str,
        seed: u64,
    ) -> Result<Arc<Self>> {
        for group_id in 1..=GROUPS {
            let group = Group { group_id, name: "talk".to_owned(), creator_id: 1, ..Group::default() };
            let members = (2..=ALL_USERS).filter(|user| is_in_group(*user, group_id)).collect();
            make_group(&clients.nodes[..1], group, members).await?;
        }
        let receivers = Receivers::start(&clients.nodes, seed);
        Ok(Arc::new(Self {
            clients: Arc::clone(clients),
            conversations: conversations(),
            goal,
            name,
            receivers,
        }))
    }

    /// Messages were acknowledged.
    fn add_sent(&self, count: u64) {
        let before = self.clients.sent.fetch_add(count, Ordering::Relaxed);
        let (step, sent) = (self.goal.div_ceil(PROGRESS_LINES).max(1), before + count);
        if self.goal > 0 && before / step < sent / step {
            eprintln!("{}: {sent} messages are acknowledged, of {}", self.name, self.goal);
        }
    }
}

/// Ten groups with all users, and ten pairs.
fn conversations() -> Vec<Conversation> {
    let new = |id, users| Conversation { id, users, end: AtomicU64::new(0) };
    let groups = (1..=GROUPS).map(|group| new(format!("g{group}"), (1..=USERS).collect()));
    let next = |user: i64, step: i64| (user + step - 1) % USERS + 1;
    let ring = (1..=USERS).map(|user| (user, next(user, 1)));
    let pairs = ring.chain([(1, next(1, 4)), (2, next(2, 4))]);
    let pairs = pairs.map(|(one, other)| new(direct(one, other), vec![one, other]));
    groups.chain(pairs).collect()
}

/// Whether a user is in a group.
const fn is_in_group(user: i64, group: i64) -> bool {
    user <= USERS || (user - USERS - 1) % GROUPS + 1 == group
}

fn direct(one: i64, other: i64) -> String {
    format!("d{}-{}", one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn users_have_many_of_twenty_conversations() {
        let all = conversations();
        assert_eq!(all.iter().map(|one| &one.id).collect::<BTreeSet<_>>().len(), 20);
        for user in 1..=USERS {
            assert!(all.iter().filter(|one| one.users.contains(&user)).count() >= 12, "{user}");
        }
    }
}
