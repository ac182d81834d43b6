//! Users that are added to a group and removed.

use anyhow::Result;
use kith_proto::{
    group::v1::Group,
    member::v1::{
        AddMembersRequest, BatchIsMemberRequest, RemoveMembersRequest, Role, member_result,
        member_service_client::MemberServiceClient,
    },
    r#type::v1::Consistency,
};
use rand::{Rng as _, rngs::SmallRng};
use tonic::{Code, transport::Channel};

use super::{
    CALLERS,
    caller::{Known, PlaceAnswers, StrictSubject, UsedValue},
};
use crate::{
    faults::{
        answered::make_group,
        calls::{consistency, failed, name_of, with_deadline},
    },
    history::Level,
};

/// Users that are added and removed.
const USERS: i64 = 4;

/// A group and the users.
#[derive(Debug)]
pub(super) struct Members {
    group: i64,
    users: Vec<i64>,
}

impl Members {
    /// Makes the group.
    ///
    /// # Errors
    /// If no node does it.
    pub(super) async fn of(group: i64, nodes: &[Channel]) -> Result<Self> {
        make_group(
            nodes,
            Group { group_id: group, name: "members".to_owned(), ..Group::default() },
            Vec::new(),
        )
        .await?;
        Ok(Self { group, users: (1..=USERS).map(|step| (group + step - 1) % CALLERS + 1).collect() })
    }

    /// Whether each user is a member.
    async fn are_members(
        &self,
        node: Channel,
        consistency: Option<Consistency>,
    ) -> Result<PlaceAnswers<bool>, String> {
        let asked = BatchIsMemberRequest { group_id: self.group, user_ids: self.users.clone(), consistency };
        let answer = MemberServiceClient::new(node).batch_is_member(with_deadline(asked)).await;
        let results = answer.map_err(|status| failed(&status, true).0)?.into_inner().results;
        let answers = results.into_iter().map(|found| match found.result {
            Some(member_result::Result::Role(role)) => Ok(role != i32::from(Role::Unspecified)),
            Some(member_result::Result::Error(error)) => Err(name_of(Code::from(error.code))),
            None => Err(name_of(Code::Internal)),
        });
        Ok(answers.enumerate().collect())
    }
}

impl StrictSubject for Members {
    /// Whether the user is a member.
    type Value = bool;
    type Change = bool;
    type Answer = bool;

    fn places(&self) -> usize {
        self.users.len()
    }

    fn change(&self, known: Option<bool>, random: &mut SmallRng) -> bool {
        known.map_or_else(|| random.random(), |is_member| !is_member)
    }

    async fn write(&self, node: Channel, place: usize, adds: bool, request_id: &str) -> Result<bool, String> {
        let mut client = MemberServiceClient::new(node);
        let (group_id, user_ids, request_id) = (self.group, vec![self.users[place]], request_id.to_owned());
        let written = if adds {
            let asked = AddMembersRequest { group_id, user_ids, request_id };
            client.add_members(with_deadline(asked)).await.map(drop)
        } else {
            let asked = RemoveMembersRequest { group_id, user_ids, request_id, ..Default::default() };
            client.remove_members(with_deadline(asked)).await.map(drop)
        };
        written.map(|()| adds).map_err(|status| failed(&status, false).0)
    }

    async fn ask(
        &self,
        node: Channel,
        _place: usize,
        _random: &mut SmallRng,
    ) -> Result<PlaceAnswers<bool>, String> {
        self.are_members(node, None).await
    }

    async fn stored(&self, node: Channel, place: usize) -> Option<bool> {
        let answers = self.are_members(node, consistency(Level::Strong, "")).await.ok()?;
        answers.into_iter().find_map(|(at, answer)| answer.ok().filter(|_| at == place))
    }

    fn judge(known: &Known<bool>, answer: bool) -> Option<UsedValue> {
        match known.value? == answer {
            true => Some(UsedValue::Current),
            false if known.is_open() => None,
            false => Some(UsedValue::Stale),
        }
    }

    fn explains(stored: bool, _known: bool, answer: bool) -> bool {
        stored == answer
    }
}
