//! Reads presence from a node, and judges it.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use kith_lab_servers::wait;
use kith_proto::presence::v1::{
    BatchGetPresenceRequest, CountActiveMembersRequest, GetPresenceRequest, ListActiveGatewaysRequest,
    ListActiveMembersRequest, Presence, PresenceState, presence_service_client::PresenceServiceClient,
};
use tokio::time::Instant;
use tonic::{Status, transport::Channel};

use super::online_users::{OnlineAt, OnlineUsers};
use crate::faults::{Better, Figure, calls::with_deadline, figure::float};

/// Users in one call.
const BATCH: usize = 500;
/// A page is larger than any group.
const PAGE: i32 = 1_000;
/// A node sees so soon that all was lost.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// Counts answers about all users and groups.
#[derive(Debug, Default)]
pub(super) struct PresenceTally {
    pub(super) unknown: u64,
    answers: u64,
    failed: u64,
    /// Users with an open session.
    wrongly_offline: u64,
    /// Groups that lack online members, and are reported as complete.
    wrongly_complete: u64,
}

/// A node's presence answers, from a moment on.
#[derive(Debug)]
pub(super) struct NodeView {
    began: Instant,
    /// How long it took until all users had the right state, and kept it; `None`: they do not have it.
    pub(super) users: Option<Duration>,
    /// Like `users`, for groups.
    pub(super) groups: Option<Duration>,
    /// Like `users`, for groups that are reported as complete.
    pub(super) complete: Option<Duration>,
}

/// A node's answers about a group.
#[derive(Debug)]
struct GroupPresence {
    count: i64,
    gateways: Vec<(String, i64)>,
    members: Vec<(i64, Vec<String>)>,
    incomplete: bool,
}

impl NodeView {
    pub(super) const fn new(began: Instant) -> Self {
        Self { began, users: None, groups: None, complete: None }
    }

    pub(super) const fn is_right(&self) -> bool {
        self.users.is_some() && self.groups.is_some() && self.complete.is_some()
    }

    /// Reads all users and groups once.
    pub(super) async fn read_all(
        &mut self,
        node: &Channel,
        online: &OnlineUsers,
        places: OnlineAt,
        tally: &mut PresenceTally,
    ) {
        if let Some(all) = tally.answered(users(node, &online.users()).await) {
            let right =
                all.iter().map(|one| tally.is_user_right(one, places)).fold(true, |all, one| all & one);
            self.users = since(self.users, right, self.began);
        }
        let seen = self.began.elapsed() > SEEN_WITHIN;
        let asked = online.groups().map(|(group, members)| async move {
            Ok::<_, Status>((group_presence(node, group).await?, GroupPresence::expected(members, places)))
        });
        if let Some(all) = tally.answered(try_join_all(asked).await) {
            let (groups, complete) =
                all.iter().fold((true, true), |(groups, complete), (answer, expected)| {
                    (tally.is_group_right(answer, expected, seen) & groups, !answer.incomplete & complete)
                });
            self.groups = since(self.groups, groups, self.began);
            self.complete = since(self.complete, complete, self.began);
        }
    }
}

impl PresenceTally {
    /// Whether the user is where it is.
    fn is_user_right(&mut self, answer: &Presence, places: OnlineAt) -> bool {
        self.answers += 1;
        let expected = OnlineUsers::gateways_of(answer.user_id, places);
        let mut gateways: Vec<&str> = answer.sessions.iter().map(|session| &*session.gateway_id).collect();
        gateways.sort_unstable();
        match answer.state() {
            PresenceState::Unknown => self.unknown += 1,
            PresenceState::Offline if !expected.is_empty() => self.wrongly_offline += 1,
            _ => {}
        }
        let state = if expected.is_empty() { PresenceState::Offline } else { PresenceState::Online };
        answer.state() == state && gateways == expected
    }

    /// Whether a group is as it should be. `seen`: a loss before has been seen by now.
    fn is_group_right(&mut self, answer: &GroupPresence, expected: &GroupPresence, seen: bool) -> bool {
        self.answers += 1;
        let is_in = |user: &i64| answer.members.iter().any(|(member, _)| member == user);
        let lacks = !expected.members.iter().all(|(user, _)| is_in(user));
        if seen && !answer.incomplete && (answer.count < expected.count || lacks) {
            self.wrongly_complete += 1;
        }
        let same = answer.gateways == expected.gateways && answer.members == expected.members;
        same && answer.count == expected.count
    }

    /// A call that failed shows nothing.
    fn answered<T>(&mut self, answer: Result<T, Status>) -> Option<T> {
        self.failed += u64::from(answer.is_err());
        answer.ok()
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::count("answers", self.answers),
            Figure::without_target("calls that failed", "count", float(self.failed), Better::Lower),
            Figure::none("answers that report a user with a session as offline", self.wrongly_offline),
            Figure::none("groups that lack members and are reported as complete", self.wrongly_complete),
        ]
    }
}

impl GroupPresence {
    fn expected(members: impl Iterator<Item = i64>, places: OnlineAt) -> Self {
        let own = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let online: Vec<(i64, Vec<String>)> = members
            .map(|user| (user, own(OnlineUsers::gateways_of(user, places))))
            .filter(|(_, gateways)| !gateways.is_empty())
            .collect();
        let mut gateways: Vec<(String, i64)> = Vec::new();
        for id in online.iter().flat_map(|(_, gateways)| gateways) {
            match gateways.iter_mut().find(|(known, _)| known == id) {
                Some((_, count)) => *count += 1,
                None => gateways.push((id.clone(), 1)),
            }
        }
        gateways.sort_unstable();
        let count = i64::try_from(online.len()).unwrap_or(i64::MAX);
        Self { count, gateways, members: online, incomplete: false }
    }
}

/// Waits until the node knows that a user without a session is offline.
pub(super) async fn until_known(node: &Channel, patience: Duration) -> Result<()> {
    let mut client = PresenceServiceClient::new(node.clone());
    wait::until("a user without a session stays unknown", patience, async || {
        let asked = client.get_presence(with_deadline(GetPresenceRequest { user_id: 1 })).await;
        let state = asked.ok().and_then(|answer| Some(answer.into_inner().presence?.state()));
        Ok(state == Some(PresenceState::Offline))
    })
    .await
}

async fn users(node: &Channel, users: &[i64]) -> Result<Vec<Presence>, Status> {
    let mut all = Vec::with_capacity(users.len());
    for users in users.chunks(BATCH) {
        let request = with_deadline(BatchGetPresenceRequest { user_ids: users.to_vec() });
        let answer = PresenceServiceClient::new(node.clone()).batch_get_presence(request).await?;
        all.extend(answer.into_inner().presences);
    }
    Ok(all)
}

async fn group_presence(node: &Channel, group_id: i64) -> Result<GroupPresence, Status> {
    let mut client = PresenceServiceClient::new(node.clone());
    let request = CountActiveMembersRequest { group_id, consistency: None };
    let counted = client.count_active_members(with_deadline(request)).await?.into_inner();
    let request = ListActiveGatewaysRequest { group_id, consistency: None };
    let gateways = client.list_active_gateways(with_deadline(request)).await?.into_inner();
    let request = ListActiveMembersRequest { group_id, page_size: PAGE, page_token: String::new() };
    let members = client.list_active_members(with_deadline(request)).await?.into_inner();
    Ok(GroupPresence {
        count: counted.count,
        gateways: gateways.gateways.into_iter().map(|one| (one.gateway_id, one.count)).collect(),
        members: members.members.into_iter().map(|one| (one.user_id, one.gateway_ids)).collect(),
        incomplete: counted.incomplete || gateways.incomplete || members.incomplete,
    })
}

/// Returns since when a state has lasted without a break. `is_so`: it lasts now.
fn since(before: Option<Duration>, is_so: bool, began: Instant) -> Option<Duration> {
    if is_so { before.or_else(|| Some(began.elapsed())) } else { None }
}
