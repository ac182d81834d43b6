//! Keeps what each node's receivers have confirmed.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use kith_cache::Moment;
use kith_store::{NodeName, UserId};

use crate::inbox::{AbandonedReceivers, ReadFrom};

/// How long it is kept after a node said something.
const KEPT: Duration = Duration::from_secs(3_600);

/// Each node's confirmations, and when the node last said something.
#[derive(Default)]
pub(super) struct Confirmations(HashMap<NodeName, NodeConfirmations>);

struct NodeConfirmations {
    /// When the node last said something.
    said: Moment,
    /// Each user's confirmed position, and when it was said.
    users: BTreeMap<UserId, (ReadFrom, Moment)>,
}

impl Confirmations {
    pub(super) fn confirm(&mut self, node: &NodeName, confirmed: &[ReadFrom], now: Moment) {
        self.0.retain(|_, of_node| now.since(of_node.said) < KEPT);
        let none = || NodeConfirmations { said: now, users: BTreeMap::new() };
        let of_node = self.0.entry(node.clone()).or_insert_with(none);
        of_node.said = now;
        of_node.users.extend(confirmed.iter().map(|from| (from.user, (*from, now))));
    }

    pub(super) fn forget(&mut self, node: &NodeName, users: &[UserId], silent_for: Duration, now: Moment) {
        let Some(of_node) = self.0.get_mut(node) else { return };
        of_node.users.retain(|user, _| !users.contains(user));
        if of_node.users.is_empty() && now.since(of_node.said) >= silent_for {
            self.0.remove(node);
        }
    }

    /// See [`crate::InboxKeeper::abandoned`]. `renewed`: how long a user may go without renewal.
    pub(super) fn abandoned(
        &mut self,
        silent_for: Duration,
        most: usize,
        renewed: Duration,
        now: Moment,
    ) -> Vec<AbandonedReceivers> {
        let silent = |of_node: &NodeConfirmations| (silent_for..KEPT).contains(&now.since(of_node.said));
        let all = self.0.iter_mut().filter(|(_, of_node)| silent(of_node)).map(|(node, of_node)| {
            let said = of_node.said;
            of_node.users.retain(|_, (_, at)| said.since(*at) <= renewed);
            AbandonedReceivers {
                node: node.clone(),
                silent_for: now.since(said),
                confirmed: of_node.users.values().take(most).map(|(from, _)| *from).collect(),
            }
        });
        all.collect()
    }
}
