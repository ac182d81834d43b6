//! Users in groups, and where each is online.

use std::ops::RangeInclusive;

use anyhow::Result;
use futures::future::try_join_all;
use kith_lab_servers::imported::fill_up_to;
use kith_proto::group::v1::Group;
use tonic::transport::Channel;

use crate::faults::answered::make_group;

/// The gateway that dies.
pub(super) const DYING: &str = "dying";
/// The gateway that survives.
pub(super) const SURVIVING: &str = "surviving";

/// A group has as many members as one call may add.
const OF_A_GROUP: i64 = 100;

/// The gateways at which users are online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnlineAt {
    /// The sessions are at both gateways.
    Both,
    /// Only at the surviving gateway.
    Surviving,
}

/// The users from 1 on. In each four users, two are at the dying gateway, one is at both, and one at the
/// other.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnlineUsers {
    users: i64,
}

impl OnlineUsers {
    /// Makes them, and their groups, whose owner is never online.
    pub(super) async fn new(node: &Channel, users: i64) -> Result<Self> {
        let online = Self { users };
        fill_up_to(node.clone(), users + 1).await?;
        try_join_all(online.groups().map(|(group, members)| online.create_group(node, group, members)))
            .await?;
        Ok(online)
    }

    pub(super) fn users(self) -> Vec<i64> {
        (1..=self.users).collect()
    }

    /// The groups, each with its members.
    pub(super) fn groups(self) -> impl Iterator<Item = (i64, RangeInclusive<i64>)> {
        let groups = 1..=(self.users + OF_A_GROUP - 1) / OF_A_GROUP;
        groups.map(move |group| (group, (group - 1) * OF_A_GROUP + 1..=(group * OF_A_GROUP).min(self.users)))
    }

    /// Where a user is online, by gateway id.
    pub(super) fn gateways_of(user: i64, places: OnlineAt) -> &'static [&'static str] {
        match (user % 4, places) {
            (0 | 1, OnlineAt::Both) => &[DYING],
            (0 | 1, OnlineAt::Surviving) => &[],
            (2, OnlineAt::Both) => &[DYING, SURVIVING],
            _ => &[SURVIVING],
        }
    }

    /// The users with sessions at a gateway; each has one session.
    pub(super) fn sessions_at(self, gateway: &str) -> Vec<i64> {
        let is_at = |user: &i64| Self::gateways_of(*user, OnlineAt::Both).contains(&gateway);
        self.users().into_iter().filter(is_at).collect()
    }

    pub(super) fn sessions(self) -> u64 {
        (self.sessions_at(DYING).len() + self.sessions_at(SURVIVING).len()) as u64
    }

    async fn create_group(self, node: &Channel, group_id: i64, members: RangeInclusive<i64>) -> Result<()> {
        let group =
            Group { group_id, name: "online".to_owned(), creator_id: self.users + 1, ..Group::default() };
        make_group(std::slice::from_ref(node), group, members.collect()).await
    }
}
