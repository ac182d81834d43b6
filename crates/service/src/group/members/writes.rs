//! Changes of members: decode, one call, encode.

use kith_cache::Consistency;
use kith_proto::member::v1 as wire;
use kith_store::{Member, MemberChange, MemberKey, MembersChanged};

use super::{
    MemberRpc,
    convert::{self, BanEnd},
    service::KIND,
};
use crate::{
    error::Error,
    rpc::{
        call::{Call, Principal},
        request::WriteContext,
    },
    write::mutations::Committed,
};

impl MemberRpc {
    pub(super) async fn add(
        &self,
        mut request: wire::AddMembersRequest,
        call: Call,
    ) -> Result<wire::AddMembersResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("AddMembers", &id, call, 0, &request)?;
        let group = convert::group(request.group_id)?;
        let change = MemberChange::Add(convert::users(&request.user_ids)?);
        let written = self.members.set(group, change, terms).await?;
        Ok(wire::AddMembersResponse {
            members: written.record.rows.iter().map(|row| convert::member_to_wire(&row.member)).collect(),
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        })
    }

    pub(super) async fn remove(
        &self,
        mut request: wire::RemoveMembersRequest,
        call: Call,
    ) -> Result<wire::RemoveMembersResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("RemoveMembers", &id, call, 0, &request)?;
        let group = convert::group(request.group_id)?;
        let users = convert::users(&request.user_ids)?;
        let change = match convert::ban(&request)? {
            Some(BanEnd(until)) => MemberChange::Ban(users, until),
            None => MemberChange::Remove(users),
        };
        let written = self.members.set(group, change, terms).await?;
        Ok(wire::RemoveMembersResponse {
            user_ids: written.record.rows.iter().map(|row| row.member.key.user.get()).collect(),
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        })
    }

    pub(super) async fn unban(
        &self,
        mut request: wire::UnbanMembersRequest,
        call: Call,
    ) -> Result<wire::UnbanMembersResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("UnbanMembers", &id, call, 0, &request)?;
        let group = convert::group(request.group_id)?;
        let change = MemberChange::Unban(convert::users(&request.user_ids)?);
        let written = self.members.set(group, change, terms).await?;
        Ok(wire::UnbanMembersResponse {
            user_ids: written.record.bans.iter().map(|row| row.ban.key.user.get()).collect(),
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        })
    }

    pub(super) async fn come_in(
        &self,
        mut request: wire::JoinRequest,
        call: Call,
    ) -> Result<wire::JoinResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Join", &id, call, 0, &request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let written = self.members.join(key, &request.code, terms).await?;
        let member = self.member(&written, key).await?;
        Ok(wire::JoinResponse { member: Some(member), consistency_token: written.token.to_string() })
    }

    pub(super) async fn go(
        &self,
        mut request: wire::LeaveRequest,
        call: Call,
    ) -> Result<wire::LeaveResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Leave", &id, call, 0, &request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        if let Principal::User(user) = call.principal
            && user != key.user
        {
            return Err(Error::not_allowed("users leave for themselves"));
        }
        let written = self.members.set(key.group, MemberChange::Leave(key.user), terms).await?;
        let version = written.record.rows.first().map_or(0, |row| row.member.version.get());
        Ok(wire::LeaveResponse { version, consistency_token: written.token.to_string() })
    }

    pub(super) async fn give_role(
        &self,
        mut request: wire::SetRoleRequest,
        call: Call,
    ) -> Result<wire::SetRoleResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("SetRole", &id, call, 0, &request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let change = MemberChange::SetRole(key.user, convert::role(request.role)?);
        let written = self.members.set(key.group, change, terms).await?;
        let member = self.member(&written, key).await?;
        Ok(wire::SetRoleResponse { member: Some(member), consistency_token: written.token.to_string() })
    }

    pub(super) async fn mute(
        &self,
        mut request: wire::MuteMemberRequest,
        call: Call,
    ) -> Result<wire::MuteMemberResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("MuteMember", &id, call, 0, &request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let change = MemberChange::Mute(key.user, convert::mute(request.mute_time.as_ref())?);
        let written = self.members.set(key.group, change, terms).await?;
        let member = self.member(&written, key).await?;
        Ok(wire::MuteMemberResponse { member: Some(member), consistency_token: written.token.to_string() })
    }

    pub(super) async fn mute_all(
        &self,
        mut request: wire::MuteGroupRequest,
        call: Call,
    ) -> Result<wire::MuteGroupResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("MuteGroup", &id, call, 0, &request)?;
        let group = convert::group(request.group_id)?;
        let change = MemberChange::MuteAll(convert::mute(request.mute_time.as_ref())?);
        let written = self.members.set(group, change, terms).await?;
        Ok(wire::MuteGroupResponse {
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        })
    }

    pub(super) async fn write_remark(
        &self,
        mut request: wire::SetMemberRemarkRequest,
        call: Call,
    ) -> Result<wire::SetMemberRemarkResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("SetMemberRemark", &id, call, 0, &request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let remark = Member::remark(&request.remark).map_err(|why| Error::invalid("remark", &why))?;
        let written = self.members.set(key.group, MemberChange::Remark(key.user, remark), terms).await?;
        let member = self.member(&written, key).await?;
        Ok(wire::SetMemberRemarkResponse {
            member: Some(member),
            consistency_token: written.token.to_string(),
        })
    }

    /// The member as a change left it; after one that changed nothing, as it is.
    async fn member(
        &self,
        written: &Committed<MembersChanged>,
        key: MemberKey,
    ) -> Result<wire::Member, Error> {
        let row = written.record.rows.iter().find(|row| row.member.key == key);
        if let Some(row) = row {
            return Ok(convert::member_to_wire(&row.member));
        }
        let found = self.members.get_many(&[key], &Consistency::Cached).await.into_iter().next();
        match found.transpose()?.flatten() {
            Some(entry) => Ok(convert::member_to_wire(&entry.value)),
            None => Err(Error::not_found(KIND)),
        }
    }
}
