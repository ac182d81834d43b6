//! Users in groups, and where each is online.

use std::ops::RangeInclusive;

use anyhow::Result;
use futures::future::try_join_all;
use kith_lab_servers::imported::fill_up_to;
use kith_proto::group::v1::Group;
use tonic::transport::Channel;

use crate::faults::answered::make_group;

/// The gateway that dies.
pub(super) const GOING: &str = "going";
/// The other one.
pub(super) const STAYING: &str = "staying";

/// As many as one call puts into a group.
const OF_A_GROUP: i64 = 100;

/// Where users are online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnlineAt {
    /// At both gateways.
    Both,
    /// At the one that stays alone.
    Staying,
}

/// The users from 1 on. Of four, two are at the gateway that goes, one is at both, and one at the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    users: i64,
}

impl Crowd {
    /// Makes them, and their groups, whose owner is never online.
    pub(super) async fn new(node: &Channel, users: i64) -> Result<Self> {
        let crowd = Self { users };
        fill_up_to(node.clone(), users + 1).await?;
        try_join_all(crowd.groups().map(|(group, members)| crowd.create_group(node, group, members))).await?;
        Ok(crowd)
    }

    pub(super) fn users(self) -> Vec<i64> {
        (1..=self.users).collect()
    }

    /// Each with those who are in it.
    pub(super) fn groups(self) -> impl Iterator<Item = (i64, RangeInclusive<i64>)> {
        let groups = 1..=(self.users + OF_A_GROUP - 1) / OF_A_GROUP;
        groups.map(move |group| (group, (group - 1) * OF_A_GROUP + 1..=(group * OF_A_GROUP).min(self.users)))
    }

    /// Where a user is online, by the ids of gateways.
    pub(super) fn gateways_of(user: i64, places: OnlineAt) -> &'static [&'static str] {
        match (user % 4, places) {
            (0 | 1, OnlineAt::Both) => &[GOING],
            (0 | 1, OnlineAt::Staying) => &[],
            (2, OnlineAt::Both) => &[GOING, STAYING],
            _ => &[STAYING],
        }
    }

    /// Of which users there are sessions at a gateway; one each.
    pub(super) fn sessions_at(self, gateway: &str) -> Vec<i64> {
        let is_at = |user: &i64| Self::gateways_of(*user, OnlineAt::Both).contains(&gateway);
        self.users().into_iter().filter(is_at).collect()
    }

    pub(super) fn sessions(self) -> u64 {
        (self.sessions_at(GOING).len() + self.sessions_at(STAYING).len()) as u64
    }

    async fn create_group(self, node: &Channel, group_id: i64, members: RangeInclusive<i64>) -> Result<()> {
        let group =
            Group { group_id, name: "online".to_owned(), creator_id: self.users + 1, ..Group::default() };
        make_group(std::slice::from_ref(node), group, members.collect()).await
    }
}
