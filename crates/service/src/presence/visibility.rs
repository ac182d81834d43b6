//! Whose presence is shown to whom, and what is read ahead for who comes online.

use std::{collections::HashSet, sync::Arc};

use kith_cache::Consistency;
use kith_store::{Edge, UserId};
use tokio::sync::Semaphore;

use crate::{
    error::Error,
    relation::{Blocks, Follows, are_friends, warm},
    rpc::call::Principal,
};

/// Users that are read ahead for at one time; others read when they ask.
const WARMED_AT_ONCE: usize = 32;

/// Users, divided by whether they are shown to a principal; both in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visible {
    pub(super) shown: Vec<UserId>,
    pub(super) hidden: Vec<UserId>,
}

/// Who sees whom. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Visibility {
    follows: Follows,
    blocks: Blocks,
}

impl Visibility {
    pub(super) const fn new(follows: Follows, blocks: Blocks) -> Self {
        Self { follows, blocks }
    }

    /// Those of these who are shown to the principal, and those who are not: services are shown all, a user itself and its
    /// friends.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn of(&self, users: &[UserId], principal: Principal) -> Result<Visible, Error> {
        let Principal::User(principal) = principal else {
            return Ok(Visible { shown: users.to_vec(), hidden: Vec::new() });
        };
        let others: Vec<UserId> = users.iter().copied().filter(|user| *user != principal).collect();
        let friends = are_friends(&self.follows, &self.blocks, principal, &others).await?;
        let mut friends = friends.into_iter();
        let is_shown = |user: &UserId| *user == principal || friends.next().unwrap_or_default();
        let (shown, hidden) = users.iter().copied().partition(is_shown);
        Ok(Visible { shown, hidden })
    }

    /// Those of these who have blocked the principal; of a service, none.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn blockers(
        &self,
        users: &[UserId],
        principal: Principal,
    ) -> Result<HashSet<UserId>, Error> {
        let Principal::User(principal) = principal else { return Ok(HashSet::new()) };
        let edges: Vec<Edge> = users.iter().map(|user| Edge { from: *user, to: principal }).collect();
        let mut blockers = HashSet::new();
        for (edge, set) in edges.iter().zip(self.blocks.get_many(&edges, &Consistency::Cached).await) {
            if set?.is_some_and(|entry| entry.value.blocked.is_some()) {
                blockers.insert(edge.from);
            }
        }
        Ok(blockers)
    }
}

/// Reads ahead what a user that comes online asks for first. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Warmth {
    visibility: Visibility,
    turns: Arc<Semaphore>,
}

impl Warmth {
    pub(super) fn new(visibility: Visibility) -> Self {
        Self { visibility, turns: Arc::new(Semaphore::new(WARMED_AT_ONCE)) }
    }

    /// Begins the same, while the caller waits for an answer. The record of the user is there already, and its groups
    /// are read by the notification.
    pub(super) fn begin(&self, user: UserId) {
        let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() else { return };
        let Visibility { follows, blocks } = self.visibility.clone();
        tokio::spawn(async move {
            Box::pin(warm(&follows, &blocks, user)).await;
            drop(turn);
        });
    }
}
