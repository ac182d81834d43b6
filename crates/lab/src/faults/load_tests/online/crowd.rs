//! Users in groups, and where each is online.

use std::{ops::RangeInclusive, time::Duration};

use anyhow::Result;
use futures::future::try_join_all;
use kith_lab_servers::imported::fill;
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    user::v1::user_service_client::UserServiceClient,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status, transport::Channel};

use crate::faults::calls::within;

/// The gateway that dies.
pub(super) const GOING: &str = "going";
/// The other one.
pub(super) const STAYING: &str = "staying";

/// As many as one call puts into a group.
const OF_A_GROUP: i64 = 100;
const MADE_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

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
        let ids: Vec<i64> = (1..=users + 1).collect();
        fill(&mut UserServiceClient::new(node.clone()), &ids).await?;
        try_join_all(crowd.groups().map(|(group, members)| crowd.found(node, group, members))).await?;
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

    async fn found(self, node: &Channel, group_id: i64, members: RangeInclusive<i64>) -> Result<()> {
        let group =
            Group { group_id, name: "online".to_owned(), creator_id: self.users + 1, ..Group::default() };
        let group = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
        until_made(async || {
            let request = within(group.clone());
            GroupServiceClient::new(node.clone()).create_group(request).await.map(drop)
        })
        .await?;
        let added =
            AddMembersRequest { group_id, user_ids: members.collect(), ..AddMembersRequest::default() };
        until_made(async || {
            let request = within(added.clone());
            MemberServiceClient::new(node.clone()).add_members(request).await.map(drop)
        })
        .await
    }
}

/// Calls until it was done, now or by a call before that seemed to fail.
async fn until_made(call: impl AsyncFn() -> Result<(), Status>) -> Result<()> {
    let until = Instant::now() + MADE_WITHIN;
    loop {
        match call().await {
            Err(status) if status.code() == Code::AlreadyExists => return Ok(()),
            Err(_) if Instant::now() < until => sleep(PAUSE).await,
            done => return Ok(done?),
        }
    }
}
