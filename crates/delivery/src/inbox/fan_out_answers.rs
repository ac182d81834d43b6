//! A fan-out's answers, put together for each node.

use std::collections::BTreeMap;

use kith_cache::remote::SharedError;
use kith_store::{NodeName, UserId};

use super::{FanOutResult, NodeWake, SentMessages, Wake, WokenUser};

/// How the recipients' inboxes answer a fan-out, by node.
#[derive(Debug, Default)]
pub(super) struct FanOutAnswers {
    nodes: BTreeMap<NodeName, (Vec<WokenUser>, Vec<UserId>)>,
    without_receiver: Vec<UserId>,
    failed: Option<SharedError>,
    entries: u64,
}

impl FanOutAnswers {
    /// A user's inbox has the entry. `nodes` have receivers for the user.
    pub(super) fn entered(&mut self, nodes: Vec<NodeName>, woken: WokenUser) {
        self.entries += 1;
        self.unchanged(woken.user, !nodes.is_empty());
        for node in nodes {
            self.nodes.entry(node).or_default().0.push(woken);
        }
    }

    /// A user's inbox has ended.
    #[cfg(feature = "redis")]
    pub(super) fn lost(&mut self, nodes: Vec<NodeName>, user: UserId) {
        self.unchanged(user, !nodes.is_empty());
        for node in nodes {
            self.nodes.entry(node).or_default().1.push(user);
        }
    }

    /// A user's inbox is unchanged, or the user has none.
    pub(super) fn unchanged(&mut self, user: UserId, has_receiver: bool) {
        if !has_receiver {
            self.without_receiver.push(user);
        }
    }

    /// Some inboxes did not answer.
    #[cfg(feature = "redis")]
    pub(super) fn failed(&mut self, why: SharedError) {
        self.failed.get_or_insert(why);
    }

    /// Entries that were written.
    pub(super) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Makes the result, with one wake for each node.
    pub(super) fn into_result(self, sent: &SentMessages) -> FanOutResult {
        let wake = |(node, (woken, lost))| NodeWake {
            node,
            wake: Wake::Messages { sent: sent.clone(), woken, lost },
        };
        FanOutResult {
            wakes: self.nodes.into_iter().map(wake).collect(),
            without_receiver: self.without_receiver,
            failed: self.failed,
        }
    }
}
