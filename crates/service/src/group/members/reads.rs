//! Reads of single members, and of what is true of all: decode, one call, encode.

use kith_cache::{Consistency, Entry};
use kith_proto::member::v1::{self as wire, member_result::Result as Answer};
use kith_store::{GroupId, Member, MemberKey, Role, UserId};
use tonic::Response;

use super::{MemberRpc, convert, lists::Asked, service::KIND};
use crate::{
    error::Error,
    rpc::{
        batch,
        call::{Call, Principal, Served, own},
        request::consistency,
    },
};

/// Groups of one page where all of a user are counted.
const COUNTED: usize = 1000;

impl MemberRpc {
    pub(super) async fn one(
        &self,
        request: wire::GetMemberRequest,
        call: Call,
    ) -> Result<Response<wire::GetMemberResponse>, Error> {
        let key = convert::key(request.group_id, request.user_id)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        if call.principal == Principal::User(key.user) {
            self.members.group(key.group).await?;
        } else {
            self.members.may_see(key.group, call.principal).await?;
        }
        let found = self.members.get_many(&[key], &consistency).await.into_iter().next();
        let entry = found.transpose()?.flatten().ok_or_else(|| Error::not_found(KIND))?;
        let member = Some(convert::member_to_wire(&entry.value));
        let mut response = Response::new(wire::GetMemberResponse { member });
        response.extensions_mut().insert(Served::of(&entry));
        Ok(response)
    }

    /// Who sends messages of a private group asks for its members: a service. Users see those of groups that they see.
    pub(super) async fn are_members(
        &self,
        request: wire::BatchIsMemberRequest,
        call: Call,
    ) -> Result<wire::BatchIsMemberResponse, Error> {
        batch::check_count("user_ids", request.user_ids.len(), self.limits.batch_ids)?;
        let group = convert::group(request.group_id)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        let key = |id: &i64| Ok(MemberKey { group, user: convert::user("user_ids", *id)? });
        let keys: Vec<MemberKey> = request.user_ids.iter().map(key).collect::<Result<_, Error>>()?;
        self.members.may_see(group, call.principal).await?;
        let found = self.members.get_many(&keys, &consistency).await;
        let results = keys.iter().zip(found).map(|(key, found)| answer(key.user, found)).collect();
        Ok(wire::BatchIsMemberResponse { results })
    }

    pub(super) async fn count(
        &self,
        request: wire::CountMembersRequest,
        call: Call,
    ) -> Result<wire::CountMembersResponse, Error> {
        let id = convert::group(request.group_id)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        self.members.may_see(id, call.principal).await?;
        let roster = self.members.roster(id, &consistency).await?;
        Ok(wire::CountMembersResponse { roster: Some(convert::roster_to_wire(id, &roster)) })
    }

    pub(super) async fn count_groups(
        &self,
        request: wire::CountMembershipsRequest,
        call: Call,
    ) -> Result<wire::CountMembershipsResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let consistency = self.consistency(request.consistency.as_ref())?;
        let (mut count, mut after) = (0_i64, 0);
        loop {
            let asked = Asked { least: Role::Member, after, size: COUNTED };
            let part = self.members.lists.groups_of(user, asked, &consistency).await?;
            count += i64::try_from(part.ids.len()).unwrap_or(i64::MAX);
            match part.ids.last().filter(|_| part.more) {
                Some(last) => after = last.get(),
                None => return Ok(wire::CountMembershipsResponse { count }),
            }
        }
    }

    pub(super) fn consistency(
        &self,
        asked: Option<&kith_proto::r#type::v1::Consistency>,
    ) -> Result<Consistency, Error> {
        consistency(asked, self.limits.tokens)
    }

    /// Those of these groups that stand and that a user is in by its records.
    pub(super) async fn of_these(
        &self,
        user: UserId,
        groups: &[GroupId],
        consistency: &Consistency,
    ) -> Result<Vec<i64>, Error> {
        let keys: Vec<MemberKey> = groups.iter().map(|group| MemberKey { group: *group, user }).collect();
        let among = self.members.among(&keys, consistency).await?;
        let groups: Vec<GroupId> = among.iter().map(|entry| entry.value.key.group).collect();
        Ok(self.members.standing(&groups, consistency).await.into_iter().map(GroupId::get).collect())
    }
}

fn answer(user: UserId, found: Result<Option<Entry<Member>>, Error>) -> wire::MemberResult {
    let result = match found {
        Ok(Some(entry)) => Answer::Role(convert::role_to_wire(entry.value.role).into()),
        Ok(None) => Answer::Role(wire::Role::Unspecified.into()),
        Err(error) => Answer::Error(error.to_result()),
    };
    wire::MemberResult { user_id: user.get(), result: Some(result) }
}
