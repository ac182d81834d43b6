//! The group service on the wire: each call is decoded, made by one method, and encoded.

use std::sync::Arc;

use futures::stream::BoxStream;
use kith_cache::{Consistency, Entry};
use kith_proto::{
    IdentifiedRequest as _,
    group::v1::{self as wire, group_service_server::GroupService},
    r#type::v1::ImportResult,
};
use kith_store::{Group, GroupId, GroupWords};
use tonic::{Request, Response, Status, Streaming};
use zeroize::Zeroizing;

use super::{
    Groups, PendingGroups,
    audience::Audience,
    convert::{self, GroupDraft},
};
use crate::{
    error::{Error, valid},
    group::member::Members,
    rpc::{
        answer_size::{ByteBudget, fit_into_answer},
        audit_notes::AuditNotes,
        batch::{self, Limits},
        call::{AnswerMetadata, Call, Principal, RpcResult},
        ids,
        page_token::PageTokens,
        params::{check_user_params, check_user_paths, sees_param, take_secrets},
        request::WriteContext,
        search_quota::SearchQuota,
        secret::{PlainSecrets, check_secret},
    },
};

/// The group service on the wire.
#[derive(Clone, Debug)]
pub struct GroupRpc {
    groups: Groups,
    members: Members,
    audience: Audience,
    pages: PageTokens,
    limits: Limits,
    searches: SearchQuota,
}

impl GroupRpc {
    /// The service over groups and members. `pending`: non-members' invites and applications.
    #[must_use]
    pub fn new(
        groups: Groups,
        members: Members,
        pending: Arc<dyn PendingGroups>,
        pages: PageTokens,
        limits: Limits,
        searches: SearchQuota,
    ) -> Self {
        let audience = Audience { members: members.clone(), pending };
        Self { groups, members, audience, pages, limits, searches }
    }

    /// Reads one group for a principal; NOT_FOUND if it is hidden from it.
    async fn group_for(
        &self,
        id: GroupId,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Entry<Group>, Error> {
        let entry = self.groups.get_group(id, consistency).await?;
        let hidden = self.audience.hidden_from(&[&*entry.value], principal).await?;
        if hidden.is_empty() { Ok(entry) } else { Err(Error::not_found("group")) }
    }

    /// Reads many groups for a principal: an answer for each id, in their order; `None` if the group does not
    /// exist or is hidden.
    async fn groups_for(
        &self,
        ids: &[GroupId],
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Vec<Result<Option<Entry<Group>>, Error>>, Error> {
        let found = self.groups.get_many(ids, consistency).await;
        let known = found.iter().filter_map(|group| group.as_ref().ok()?.as_ref()).map(|entry| &*entry.value);
        let known: Vec<&Group> = known.collect();
        let hidden = self.audience.hidden_from(&known, principal).await?;
        let shown = |group: Option<Entry<Group>>| group.filter(|entry| !hidden.contains(&entry.value.id));
        Ok(found.into_iter().map(|group| group.map(shown)).collect())
    }

    /// The group as answers show it to the caller.
    fn shown(&self, group: &Group, call: Call) -> wire::Group {
        let Groups { secret_params, user_params, .. } = &self.groups;
        convert::to_wire(group, |name| sees_param(name, call.is_user(), secret_params, user_params))
    }

    fn result(
        &self,
        id: GroupId,
        group: Result<Option<Entry<Group>>, Error>,
        call: Call,
        budget: &mut ByteBudget,
    ) -> wire::GroupResult {
        use wire::group_result::Result::{Error, Group as Found, NotFound};
        let shown = |group: Entry<Group>| budget.fit(|| self.shown(&group.value, call));
        let result = match group.and_then(|group| group.map(shown).transpose()) {
            Ok(Some(group)) => Found(group),
            Ok(None) => NotFound(true),
            Err(error) => Error(error.to_result()),
        };
        wire::GroupResult { group_id: id.get(), result: Some(result) }
    }

    fn decode_create(&self, mut request: wire::CreateGroupRequest, call: Call) -> Result<Creation, Error> {
        let request_id = request.take_request_id();
        let group = request.group.as_mut().ok_or_else(|| batch::missing("group"))?;
        if call.is_user() && group.group_id != 0 {
            return Err(Error::invalid(
                "group_id",
                "must be 0: the node chooses the ids of the groups of users",
            ));
        }
        check_user_params(call, &group.params, &self.groups.user_params)?;
        let secrets = take_secrets(&mut group.params, &self.groups.secret_params)?;
        let draft = GroupDraft::new(group, call.principal)?;
        let context = WriteContext::of_request(&request_id, call, &request)?;
        Ok(Creation { draft, secrets, context })
    }

    async fn import_group(&self, record: wire::ImportGroup, call: Call) -> ImportResult {
        let number = record.record;
        let call = Call { deadline: self.limits.import_deadline(), ..call };
        let request = wire::CreateGroupRequest { group: record.group, request_id: record.request_id };
        let created = match self.decode_create(request, call) {
            Ok(Creation { draft, secrets, context }) => {
                self.members.create_group(draft, secrets, context).await
            }
            Err(error) => Err(error),
        };
        batch::import_result(number, created.map(|written| written.record.id.get()))
    }
}

/// A group to be created, from a request.
struct Creation {
    draft: GroupDraft,
    secrets: PlainSecrets,
    context: WriteContext,
}

#[tonic::async_trait]
impl GroupService for GroupRpc {
    type ImportGroupsStream = BoxStream<'static, Result<wire::ImportGroupsResponse, Status>>;
    type ExportGroupsStream = BoxStream<'static, Result<wire::ExportGroupsResponse, Status>>;

    async fn create_group(
        &self,
        request: Request<wire::CreateGroupRequest>,
    ) -> RpcResult<wire::CreateGroupResponse> {
        let call = Call::of(&request);
        let Creation { draft, secrets, context } = self.decode_create(request.into_inner(), call)?;
        self.members.check_creator(draft.creator).await?;
        let written = self.members.create_group(draft, secrets, context).await?;
        Ok(Response::new(wire::CreateGroupResponse {
            group: Some(self.shown(&written.record, call)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn get_group(&self, request: Request<wire::GetGroupRequest>) -> RpcResult<wire::GetGroupResponse> {
        let call = Call::of(&request);
        let request = request.get_ref();
        let id = ids::group(request.group_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        self.limits.records.count(call, 1)?;
        let entry = self.group_for(id, call.principal, &consistency).await?;
        let group = Some(self.shown(&entry.value, call));
        Ok(AnswerMetadata::of(&entry).answer(wire::GetGroupResponse { group }))
    }

    async fn batch_get_groups(
        &self,
        request: Request<wire::BatchGetGroupsRequest>,
    ) -> RpcResult<wire::BatchGetGroupsResponse> {
        let (call, request) = Call::open(request);
        batch::check_count("group_ids", request.group_ids.len(), self.limits.batch_ids_of(call))?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let ids = convert::group_ids(&request.group_ids)?;
        self.limits.records.count(call, ids.len())?;
        let groups = self.groups_for(&ids, call.principal, &consistency).await?;
        let mut budget = ByteBudget::new(call.answer_bytes);
        let results = ids.iter().zip(groups).map(|(id, group)| self.result(*id, group, call, &mut budget));
        Ok(Response::new(wire::BatchGetGroupsResponse { results: results.collect() }))
    }

    async fn update_group(
        &self,
        request: Request<wire::UpdateGroupRequest>,
    ) -> RpcResult<wire::UpdateGroupResponse> {
        let call = Call::of(&request);
        let mut request = request.into_inner();
        let request_id = request.take_request_id();
        let names = &self.groups.secret_params;
        let group = request.group.as_mut().ok_or_else(|| batch::missing("group"))?;
        let id = ids::group(group.group_id)?;
        let paths = request.update_mask.clone().unwrap_or_default().paths;
        check_user_paths(call, &paths, &self.groups.user_params)?;
        let (patch, secrets) = convert::patch(group.clone(), &paths, names)?;
        group.params.retain(|name, _| !names.contains(name));
        let context = WriteContext::of_request(&request_id, call, &request)?;
        let written = self.groups.update_group(id, patch, secrets, context).await?;
        Ok(Response::new(wire::UpdateGroupResponse {
            group: Some(self.shown(&written.record, call)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn dismiss_group(
        &self,
        request: Request<wire::DismissGroupRequest>,
    ) -> RpcResult<wire::DismissGroupResponse> {
        let (request, context) = WriteContext::open(request)?;
        let id = ids::group(request.group_id)?;
        let written = self.members.dismiss_group(id, context).await?;
        Ok(Response::new(wire::DismissGroupResponse {
            version: written.record.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn transfer_group(
        &self,
        request: Request<wire::TransferGroupRequest>,
    ) -> RpcResult<wire::TransferGroupResponse> {
        let notes = AuditNotes::of(&request);
        notes.note_id("group", request.get_ref().group_id);
        notes.note_user(request.get_ref().owner_id);
        notes.note_request(&request.get_ref().request_id);
        let (request, context) = WriteContext::open(request)?;
        let id = ids::group(request.group_id)?;
        let owner = ids::user("owner_id", request.owner_id)?;
        let written = self.members.transfer_group(id, owner, context).await?;
        Ok(Response::new(wire::TransferGroupResponse {
            version: written.record.roster.version.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    /// A page contains candidates, which are compared with the keyword. So it may be short without being the
    /// last page, which its token shows.
    async fn search_groups(
        &self,
        request: Request<wire::SearchGroupsRequest>,
    ) -> RpcResult<wire::SearchGroupsResponse> {
        let (call, request) = Call::open(request);
        self.searches.count(call.principal)?;
        valid("keyword", GroupWords::check_keyword(&request.keyword))?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let keyword = convert::keyword(&request.keyword, request.r#match)?;
        let mut page = self.limits.page(call, request.page_size)?;
        let query: [&[u8]; 3] = [b"SearchGroups", keyword.key().as_bytes(), keyword.rest().as_bytes()];
        let after =
            self.pages.of(call).verify(&query, &request.page_token)?.and_then(|id| GroupId::new(id).ok());
        let found = self.groups.search_groups(&keyword, after, page.size, &consistency).await?;
        let shown = found.groups.iter().map(|group| self.shown(group, call));
        let groups = fit_into_answer(call.answer_bytes, shown);
        page.answered(groups.len());
        let cut = groups.last().filter(|_| groups.len() < found.groups.len()).map(|group| group.group_id);
        let next = cut.or(found.next.map(GroupId::get));
        let next_page_token = next.map(|id| self.pages.of(call).issue(&query, id)).unwrap_or_default();
        Ok(Response::new(wire::SearchGroupsResponse { groups, next_page_token }))
    }

    async fn get_invite_code(
        &self,
        request: Request<wire::GetInviteCodeRequest>,
    ) -> RpcResult<wire::GetInviteCodeResponse> {
        let call = Call::of(&request);
        AuditNotes::of(&request).note_id("group", request.get_ref().group_id);
        let id = ids::group(request.get_ref().group_id)?;
        let invite_code = self.groups.get_invite_code(id, call.principal).await?;
        Ok(Response::new(wire::GetInviteCodeResponse { invite_code }))
    }

    async fn rotate_invite_code(
        &self,
        request: Request<wire::RotateInviteCodeRequest>,
    ) -> RpcResult<wire::RotateInviteCodeResponse> {
        let notes = AuditNotes::of(&request);
        notes.note_id("group", request.get_ref().group_id);
        notes.note_request(&request.get_ref().request_id);
        let (request, context) = WriteContext::open(request)?;
        let id = ids::group(request.group_id)?;
        let (invite_code, written) = self.groups.rotate_invite_code(id, context).await?;
        Ok(Response::new(wire::RotateInviteCodeResponse {
            invite_code,
            version: written.record.version.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn verify_secret(
        &self,
        request: Request<wire::VerifySecretRequest>,
    ) -> RpcResult<wire::VerifySecretResponse> {
        let call = Call::of(&request);
        let wire::VerifySecretRequest { group_id, name, secret } = request.into_inner();
        let (id, secret) = (ids::group(group_id)?, Zeroizing::new(secret));
        valid("secret", check_secret(&secret))?;
        let verified = self.groups.verify_secret(id, &name, secret, call.principal).await?;
        Ok(Response::new(wire::VerifySecretResponse { verified }))
    }

    async fn import_groups(
        &self,
        request: Request<Streaming<wire::ImportGroupsRequest>>,
    ) -> RpcResult<Self::ImportGroupsStream> {
        let (this, call) = (self.clone(), Call::of(&request));
        let one = move |record| {
            let this = this.clone();
            async move { this.import_group(record, call).await }
        };
        let answer = |results| wire::ImportGroupsResponse { results };
        Ok(Response::new(batch::import(request, &self.limits, one, answer)))
    }

    async fn export_groups(
        &self,
        request: Request<wire::ExportGroupsRequest>,
    ) -> RpcResult<Self::ExportGroupsStream> {
        let (call, notes) = (Call::of(&request), AuditNotes::of(&request));
        let after = match request.get_ref().after_group_id {
            0 => None,
            id => Some(ids::group(id)?),
        };
        let groups = self.groups.clone();
        let page = move |after| {
            let groups = groups.clone();
            async move { groups.scan(after, batch::EXPORT_PAGE).await }
        };
        let this = self.clone();
        let to_wire = move |group: &Group| this.shown(group, call);
        let answer = |groups| wire::ExportGroupsResponse { groups };
        Ok(Response::new(batch::export(notes, after, page, |group: &Group| group.id, to_wire, answer)))
    }
}
