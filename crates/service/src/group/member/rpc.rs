//! The member service on the wire: each call is decoded here, made by one method of [`Members`], and encoded.

use std::sync::Arc;

use futures::stream::BoxStream;
use kith_cache::Consistency;
use kith_proto::member::v1::{self as wire, member_service_server::MemberService};
use kith_store::{GroupId, Member, MemberChange, MemberKey, Role, UserId};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Members,
    convert::{self, SyncPosition},
    import::import,
    inviting::{AddedOrInvited, GroupInvitations},
    lists::MemberPageKey,
};
use crate::{
    error::{Error, valid},
    rpc::{
        audit_notes::AuditNotes,
        batch::{self, Limits},
        call::{AnswerMetadata, Call, RpcResult, own},
        ids,
        page_token::PageTokens,
        record_quota::PageQuota,
        request::WriteContext,
    },
};

/// The member service on the wire.
#[derive(Clone, Debug)]
pub struct MemberRpc {
    members: Members,
    invitations: Arc<dyn GroupInvitations>,
    pages: PageTokens,
    limits: Limits,
}

impl MemberRpc {
    /// The service over this node's members. `invitations`: for users whom others bring into their groups.
    #[must_use]
    pub fn new(
        members: Members,
        invitations: Arc<dyn GroupInvitations>,
        pages: PageTokens,
        limits: Limits,
    ) -> Self {
        Self { members, invitations, pages, limits }
    }

    /// The requested page's key, and its quota.
    fn asked(
        &self,
        call: Call,
        query: &[&[u8]],
        least: Role,
        size: i32,
        token: &str,
    ) -> Result<(MemberPageKey, PageQuota), Error> {
        let page = self.limits.page(call, size)?;
        let after = self.pages.of(call).verify(query, token)?.unwrap_or_default();
        Ok((MemberPageKey { least, after, size: page.size }, page))
    }

    /// The page's token after the id `next`. Empty if there is none.
    fn next_page_token(&self, call: Call, query: &[&[u8]], next: Option<i64>) -> String {
        next.map(|last| self.pages.of(call).issue(query, last)).unwrap_or_default()
    }
}

#[tonic::async_trait]
impl MemberService for MemberRpc {
    type ImportMembersStream = BoxStream<'static, Result<wire::ImportMembersResponse, Status>>;

    async fn add_members(
        &self,
        request: Request<wire::AddMembersRequest>,
    ) -> RpcResult<wire::AddMembersResponse> {
        let call = Call::of(&request);
        let (request, context) = WriteContext::open(request)?;
        let group = ids::group(request.group_id)?;
        let users = convert::users(&request.user_ids)?;
        self.limits.records.count(call, users.len())?;
        let AddedOrInvited { added, invited } = match self.members.needs_consent(call.principal) {
            Some(by) => self.members.add_or_invite(group, users, by, context, &*self.invitations).await?,
            None => {
                let added = self.members.apply_change(group, MemberChange::Add(users), context).await?;
                AddedOrInvited { added, invited: Vec::new() }
            }
        };
        Ok(Response::new(wire::AddMembersResponse {
            members: added.record.rows.iter().map(|row| convert::member_to_wire(&row.member)).collect(),
            roster: Some(convert::roster_to_wire(group, &added.record.roster)),
            consistency_token: added.token.to_string(),
            invited_user_ids: invited.into_iter().map(UserId::get).collect(),
        }))
    }

    async fn remove_members(
        &self,
        request: Request<wire::RemoveMembersRequest>,
    ) -> RpcResult<wire::RemoveMembersResponse> {
        let call = Call::of(&request);
        let (request, context) = WriteContext::open(request)?;
        let group = ids::group(request.group_id)?;
        let change = convert::removal(&request)?;
        self.limits.records.count(call, request.user_ids.len())?;
        let written = self.members.apply_change(group, change, context).await?;
        Ok(Response::new(wire::RemoveMembersResponse {
            user_ids: written.record.rows.iter().map(|row| row.member.key.user.get()).collect(),
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn unban_members(
        &self,
        request: Request<wire::UnbanMembersRequest>,
    ) -> RpcResult<wire::UnbanMembersResponse> {
        let call = Call::of(&request);
        let (request, context) = WriteContext::open(request)?;
        let group = ids::group(request.group_id)?;
        let users = convert::users(&request.user_ids)?;
        self.limits.records.count(call, users.len())?;
        let change = MemberChange::Unban(users);
        let written = self.members.apply_change(group, change, context).await?;
        Ok(Response::new(wire::UnbanMembersResponse {
            user_ids: written.record.bans.iter().map(|row| row.ban.key.user.get()).collect(),
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn list_bans(&self, request: Request<wire::ListBansRequest>) -> RpcResult<wire::ListBansResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let query = [&b"ListBans"[..], &group.get().to_be_bytes()[..]];
        let mut page = self.limits.page(call, request.page_size)?;
        let after =
            self.pages.of(call).verify(&query, &request.page_token)?.and_then(|id| UserId::new(id).ok());
        let listed = self.members.list_bans(group, call.principal, after, page.size).await?;
        page.answered(listed.items.len());
        Ok(Response::new(wire::ListBansResponse {
            next_page_token: self.next_page_token(call, &query, listed.next),
            bans: listed.items.iter().map(convert::ban_to_wire).collect(),
        }))
    }

    async fn join(&self, request: Request<wire::JoinRequest>) -> RpcResult<wire::JoinResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let written = self.members.join(key, &request.code, context).await?;
        Ok(Response::new(wire::JoinResponse {
            member: Some(convert::member_to_wire(&written.record)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn leave(&self, request: Request<wire::LeaveRequest>) -> RpcResult<wire::LeaveResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let written = self.members.leave(key, context).await?;
        let version = written.record.rows.first().map_or(0, |row| row.member.version.get());
        Ok(Response::new(wire::LeaveResponse { version, consistency_token: written.token.to_string() }))
    }

    async fn set_role(&self, request: Request<wire::SetRoleRequest>) -> RpcResult<wire::SetRoleResponse> {
        let notes = AuditNotes::of(&request);
        notes.note_id("group", request.get_ref().group_id);
        notes.note_user(request.get_ref().user_id);
        notes.note_request(&request.get_ref().request_id);
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let change = MemberChange::SetRole(key.user, convert::role(request.role)?);
        let written = self.members.change_member(key, change, context).await?;
        Ok(Response::new(wire::SetRoleResponse {
            member: Some(convert::member_to_wire(&written.record)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn mute_member(
        &self,
        request: Request<wire::MuteMemberRequest>,
    ) -> RpcResult<wire::MuteMemberResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let change = MemberChange::Mute(key.user, convert::mute(request.mute_time.as_ref())?);
        let written = self.members.change_member(key, change, context).await?;
        Ok(Response::new(wire::MuteMemberResponse {
            member: Some(convert::member_to_wire(&written.record)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn mute_group(
        &self,
        request: Request<wire::MuteGroupRequest>,
    ) -> RpcResult<wire::MuteGroupResponse> {
        let (request, context) = WriteContext::open(request)?;
        let group = ids::group(request.group_id)?;
        let change = MemberChange::MuteAll(convert::mute(request.mute_time.as_ref())?);
        let written = self.members.apply_change(group, change, context).await?;
        Ok(Response::new(wire::MuteGroupResponse {
            roster: Some(convert::roster_to_wire(group, &written.record.roster)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn set_member_remark(
        &self,
        request: Request<wire::SetMemberRemarkRequest>,
    ) -> RpcResult<wire::SetMemberRemarkResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.group_id, request.user_id)?;
        let remark = valid("remark", Member::remark(&request.remark))?;
        let change = MemberChange::Remark(key.user, remark);
        let written = self.members.change_member(key, change, context).await?;
        Ok(Response::new(wire::SetMemberRemarkResponse {
            member: Some(convert::member_to_wire(&written.record)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn get_member(
        &self,
        request: Request<wire::GetMemberRequest>,
    ) -> RpcResult<wire::GetMemberResponse> {
        let (call, request) = Call::open(request);
        let key = convert::key(request.group_id, request.user_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let entry = self.members.get_member(key, call.principal, &consistency).await?;
        let member = Some(convert::member_to_wire(&entry.value));
        Ok(AnswerMetadata::of(&entry).answer(wire::GetMemberResponse { member }))
    }

    async fn batch_is_member(
        &self,
        request: Request<wire::BatchIsMemberRequest>,
    ) -> RpcResult<wire::BatchIsMemberResponse> {
        let (call, request) = Call::open(request);
        batch::check_count("user_ids", request.user_ids.len(), self.limits.batch_ids_of(call))?;
        let group = ids::group(request.group_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let key = |id: &i64| Ok(MemberKey { group, user: ids::user("user_ids", *id)? });
        let keys: Vec<MemberKey> = request.user_ids.iter().map(key).collect::<Result<_, Error>>()?;
        self.limits.records.count(call, keys.len())?;
        let found = self.members.batch_is_member(group, &keys, call.principal, &consistency).await?;
        let results = keys.iter().zip(found).map(|(key, found)| convert::is_member(key.user, found));
        Ok(Response::new(wire::BatchIsMemberResponse { results: results.collect() }))
    }

    async fn list_members(
        &self,
        request: Request<wire::ListMembersRequest>,
    ) -> RpcResult<wire::ListMembersResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let least = convert::least_role(request.least_role)?;
        let query = [b"ListMembers", &[least as u8][..], &group.get().to_be_bytes()[..]];
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let (asked, mut page) = self.asked(call, &query, least, request.page_size, &request.page_token)?;
        let listed = self.members.list_members(group, asked, call.principal, &consistency).await?;
        page.answered(listed.items.len());
        Ok(Response::new(wire::ListMembersResponse {
            members: listed.items.iter().map(|member| convert::member_to_wire(member)).collect(),
            next_page_token: self.next_page_token(call, &query, listed.next),
        }))
    }

    async fn count_members(
        &self,
        request: Request<wire::CountMembersRequest>,
    ) -> RpcResult<wire::CountMembersResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let roster = self.members.count_members(group, call.principal, &consistency).await?;
        let roster = Some(convert::roster_to_wire(group, &roster));
        Ok(Response::new(wire::CountMembersResponse { roster }))
    }

    async fn list_memberships(
        &self,
        request: Request<wire::ListMembershipsRequest>,
    ) -> RpcResult<wire::ListMembershipsResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let query = [&b"ListMemberships"[..], &user.get().to_be_bytes()[..]];
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let (asked, mut page) =
            self.asked(call, &query, Role::Member, request.page_size, &request.page_token)?;
        let listed = self.members.list_memberships(user, asked, &consistency).await?;
        page.answered(listed.items.len());
        Ok(Response::new(wire::ListMembershipsResponse {
            group_ids: listed.items.into_iter().map(GroupId::get).collect(),
            next_page_token: self.next_page_token(call, &query, listed.next),
        }))
    }

    async fn count_memberships(
        &self,
        request: Request<wire::CountMembershipsRequest>,
    ) -> RpcResult<wire::CountMembershipsResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let count = self.members.count_memberships(user, &consistency).await?;
        Ok(Response::new(wire::CountMembershipsResponse { count }))
    }

    async fn list_common_groups(
        &self,
        request: Request<wire::ListCommonGroupsRequest>,
    ) -> RpcResult<wire::ListCommonGroupsResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        let other = convert::other_user(user, request.other_id)?;
        own(user, call.principal)?;
        let query = [&b"ListCommonGroups"[..], &user.get().to_be_bytes()[..], &other.get().to_be_bytes()[..]];
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let (asked, mut page) =
            self.asked(call, &query, Role::Member, request.page_size, &request.page_token)?;
        let listed = self.members.list_common_groups(user, other, asked, &consistency).await?;
        page.answered(listed.items.len());
        Ok(Response::new(wire::ListCommonGroupsResponse {
            group_ids: listed.items.into_iter().map(GroupId::get).collect(),
            next_page_token: self.next_page_token(call, &query, listed.next),
        }))
    }

    /// All pages in one sync return the first page's roster version. The next sync returns what changed
    /// meanwhile.
    async fn sync_members(
        &self,
        request: Request<wire::SyncMembersRequest>,
    ) -> RpcResult<wire::SyncMembersResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let known = convert::known_version(request.known_version)?;
        self.members.may_see(group, call.principal).await?;
        let roster = self.members.roster(group, &Consistency::Strong).await?;
        let query = [&b"SyncMembers"[..], &group.get().to_be_bytes()[..], &known.get().to_be_bytes()[..]];
        let mut page = self.limits.page(call, request.page_size)?;
        let position = self.pages.of(call).verify_numbers(&query, &request.page_token)?;
        let SyncPosition { after, until } = convert::sync_position(position, known, roster.version)?;
        let Some(changes) = self.members.sync_members(group, after, page.size).await? else {
            return Ok(Response::new(convert::full_list_needed(&roster)));
        };
        page.answered(changes.members.len() + changes.left.len());
        let next = changes.next.map(|last| [last.version.get(), last.user.get(), until]);
        Ok(Response::new(wire::SyncMembersResponse {
            members: changes.members.iter().map(|member| convert::member_to_wire(member)).collect(),
            left_user_ids: changes.left.into_iter().map(UserId::get).collect(),
            next_page_token: next
                .map(|next| self.pages.of(call).issue_numbers(&query, next))
                .unwrap_or_default(),
            version: until,
            full_list_needed: false,
        }))
    }

    async fn import_members(
        &self,
        request: Request<Streaming<wire::ImportMembersRequest>>,
    ) -> RpcResult<Self::ImportMembersStream> {
        let (members, limits, call) = (self.members.clone(), self.limits.clone(), Call::of(&request));
        let all = move |records| import(members.clone(), limits.clone(), call, records);
        let answer = |results| wire::ImportMembersResponse { results };
        Ok(Response::new(batch::import_together(request, &self.limits, all, answer)))
    }

    async fn export_members(
        &self,
        request: Request<wire::ExportMembersRequest>,
    ) -> RpcResult<wire::ExportMembersResponse> {
        let notes = AuditNotes::of(&request);
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let query = [&b"ExportMembers"[..], &group.get().to_be_bytes()[..]];
        let page = self.limits.page(call, request.page_size)?;
        let after =
            self.pages.of(call).verify(&query, &request.page_token)?.and_then(|id| UserId::new(id).ok());
        let (members, next) = self.members.export_page(group, after, page.size).await?;
        notes.add_records(members.len());
        let next_page_token = self.next_page_token(call, &query, next);
        Ok(Response::new(wire::ExportMembersResponse { members, next_page_token }))
    }
}
