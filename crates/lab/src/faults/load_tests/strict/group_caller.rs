//! A caller that adds users to its own group and removes them on one node, and asks the other node for the
//! members as soon as a write is acknowledged.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_proto::{
    group::v1::Group,
    member::v1::{
        AddMembersRequest, BatchIsMemberRequest, RemoveMembersRequest, Role, member_result,
        member_service_client::MemberServiceClient,
    },
    r#type::v1::Consistency,
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{CALLERS, StrictState, pair::Known, tally::UsedValue};
use crate::{
    faults::{
        answered::make_group,
        calls::{consistency, failed, name_of, with_deadline},
    },
    history::Level,
};

/// Users that each caller adds and removes.
const USERS: i64 = 4;
/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a read from the store is attempted.
const TRIES: usize = 100;

/// A user that is added and removed.
#[derive(Clone, Copy, Debug)]
struct TrackedUser {
    user: i64,
    /// Whether it is a member.
    known: Known<bool>,
}

/// Whether each user is a group member, in order, or the error's code.
type MembershipAnswers = Vec<Result<bool, String>>;

/// One caller, with its own group.
#[derive(Debug)]
pub(super) struct GroupCaller {
    state: Arc<StrictState>,
    group: i64,
    users: Vec<TrackedUser>,
    random: SmallRng,
    sent: u64,
}

impl GroupCaller {
    /// The caller with this number, which is also its group's id.
    pub(super) fn new(state: &Arc<StrictState>, number: i64, seed: u64) -> Self {
        let user = |step| (number + step - 1) % CALLERS + 1;
        let tracked = |step| TrackedUser { user: user(step), known: Known::nothing() };
        let random = SmallRng::seed_from_u64(seed.wrapping_add(number.cast_unsigned()));
        let users = (1..=USERS).map(tracked).collect();
        Self { state: Arc::clone(state), group: number, users, random, sent: 0 }
    }

    /// Calls until enough writes are acknowledged.
    pub(super) async fn work(mut self) -> Result<()> {
        let group = Group { group_id: self.group, name: "members".to_owned(), ..Group::default() };
        make_group(&self.state.nodes, group, Vec::new()).await?;
        while !self.state.progress.is_over() {
            let at = self.random.random_range(0..self.users.len());
            self.sent += 1;
            let adds = self.users[at].known.value.map_or_else(|| self.random.random(), |is_in| !is_in);
            let has_id = self.random.random_ratio(1, self.state.id_every);
            let request_id = if has_id { format!("{}-{}", self.group, self.sent) } else { String::new() };
            if !self.write(at, 0, adds, &request_id).await? && has_id {
                // A client without an answer sends the same request again, on the other node.
                self.write(at, 1, adds, &request_id).await?;
            }
        }
        Ok(())
    }

    /// Writes on `node`, and reads from the other node. Returns whether the write was acknowledged.
    async fn write(&mut self, at: usize, node: usize, adds: bool, request_id: &str) -> Result<bool> {
        match self.send(at, node, adds, request_id).await {
            Ok(()) => {
                self.users[at].known.value = Some(adds);
                self.state.progress.add(1);
                self.ask(1 - node).await;
                Ok(true)
            }
            Err(status) => {
                self.users[at].known.forget();
                self.state.tally.lock().fail_write(&failed(&status, false).0);
                sleep(PAUSE).await;
                Ok(false)
            }
        }
    }

    async fn send(&self, at: usize, node: usize, adds: bool, request_id: &str) -> Result<(), Status> {
        let mut client = MemberServiceClient::new(self.state.nodes[node].clone());
        let (group_id, user_ids) = (self.group, vec![self.users[at].user]);
        let request_id = request_id.to_owned();
        if adds {
            let asked = AddMembersRequest { group_id, user_ids, request_id };
            client.add_members(with_deadline(asked)).await.map(drop)
        } else {
            let asked = RemoveMembersRequest { group_id, user_ids, request_id, ..Default::default() };
            client.remove_members(with_deadline(asked)).await.map(drop)
        }
    }

    /// Reads all users and judges the answers, except those about users whose last write was not
    /// acknowledged.
    async fn ask(&self, node: usize) {
        let answers = match self.are_members(node, None).await {
            Ok(answers) => answers,
            Err(status) => {
                self.state.tally.lock().fail(&failed(&status, true).0);
                return sleep(PAUSE).await;
            }
        };
        for (at, answer) in answers.into_iter().enumerate() {
            match (answer, self.users[at].known.value) {
                (Ok(is_member), Some(known)) => self.judge(at, node, is_member, known).await,
                (Ok(_), None) => {}
                (Err(code), _) => self.state.tally.lock().fail(&code),
            }
        }
    }

    /// An answer that looks stale may come from a write with an unknown outcome that was applied later. The
    /// store then has the same value.
    async fn judge(&self, at: usize, node: usize, is_member: bool, known: bool) {
        let member = self.users[at];
        let decided = if is_member == known {
            UsedValue::Current
        } else if member.known.is_open() && self.stored(at).await == Some(is_member) {
            UsedValue::Later
        } else {
            UsedValue::Stale
        };
        self.state.tally.lock().decide(decided, || {
            let (group, user) = (self.group, member.user);
            format!("group {group}, user {user}: node {node} returned {is_member}, {known} was acknowledged")
        });
    }

    /// Whether a user is a member in the store, by a strong read. `None`: no node answers.
    async fn stored(&self, at: usize) -> Option<bool> {
        for node in (0..self.state.nodes.len()).cycle().take(TRIES) {
            let strong = consistency(Level::Strong, "");
            match self.are_members(node, strong).await.map(|answers| answers.into_iter().nth(at)) {
                Ok(Some(Ok(is_member))) => return Some(is_member),
                _ => sleep(PAUSE).await,
            }
        }
        None
    }

    async fn are_members(
        &self,
        node: usize,
        consistency: Option<Consistency>,
    ) -> Result<MembershipAnswers, Status> {
        let user_ids = self.users.iter().map(|member| member.user).collect();
        let asked = BatchIsMemberRequest { group_id: self.group, user_ids, consistency };
        let mut client = MemberServiceClient::new(self.state.nodes[node].clone());
        let answer = client.batch_is_member(with_deadline(asked)).await?.into_inner();
        answer.results.into_iter().map(|found| is_member(found.result)).collect()
    }
}

fn is_member(result: Option<member_result::Result>) -> Result<Result<bool, String>, Status> {
    match result {
        Some(member_result::Result::Role(role)) => Ok(Ok(role != i32::from(Role::Unspecified))),
        Some(member_result::Result::Error(error)) => Ok(Err(name_of(Code::from(error.code)))),
        None => Err(Status::internal("a result without a value")),
    }
}
