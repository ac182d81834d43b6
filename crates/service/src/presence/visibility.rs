//! The visibility of presence.

use std::collections::HashSet;

use kith_cache::Consistency;
use kith_store::{Edge, UserId};

use crate::{
    error::Error,
    relation::{Blocks, Follows, are_friends},
    rpc::call::Principal,
};

/// Users, divided by whether they are shown to a principal; both in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleUsers {
    pub(super) shown: Vec<UserId>,
    pub(super) hidden: Vec<UserId>,
}

/// Decides who may see users. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Visibility {
    follows: Follows,
    blocks: Blocks,
}

impl Visibility {
    pub(super) const fn new(follows: Follows, blocks: Blocks) -> Self {
        Self { follows, blocks }
    }

    /// Divides users into those who are shown to the principal, and the others. Services see all users; a
    /// user sees itself and its friends.
    pub(super) async fn of(&self, users: &[UserId], principal: Principal) -> Result<VisibleUsers, Error> {
        let Principal::User(principal) = principal else {
            return Ok(VisibleUsers { shown: users.to_vec(), hidden: Vec::new() });
        };
        let others: Vec<UserId> = users.iter().copied().filter(|user| *user != principal).collect();
        let friends = are_friends(&self.follows, &self.blocks, principal, &others).await?;
        let mut friends = friends.into_iter();
        let is_shown = |user: &UserId| *user == principal || friends.next().unwrap_or_default();
        let (shown, hidden) = users.iter().copied().partition(is_shown);
        Ok(VisibleUsers { shown, hidden })
    }

    /// The users among these who have blocked the principal; for a service, none.
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
