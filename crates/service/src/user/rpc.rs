//! The user service on the wire: each call is decoded, goes to its method in [`Users`], and its result is
//! encoded.

use futures::stream::BoxStream;
use kith_cache::{Consistency, Entry};
use kith_proto::{
    IdentifiedRequest,
    r#type::v1::ImportResult,
    user::v1::{self as wire, user_service_server::UserService},
};
use kith_store::{AccessChange, Keyword, User, UserId};
use tonic::{Request, Response, Status, Streaming};
use zeroize::Zeroizing;

use super::{
    Users, access, batch_encoder,
    convert::{self, UserDraft, Viewer},
};
use crate::{
    error::{Error, valid},
    rpc::{
        answer_size::{ByteBudget, fit_into_answer},
        audit_notes::AuditNotes,
        batch::{self, Limits},
        call::{AnswerMetadata, Call, Principal, RpcResult, own},
        ids,
        page_token::PageTokens,
        params::{check_user_paths, take_secrets},
        request::WriteContext,
        search_quota::SearchQuota,
        secret::check_secret,
    },
};

/// The user service on the wire.
#[derive(Clone, Debug)]
pub struct UserRpc {
    users: Users,
    pages: PageTokens,
    limits: Limits,
    searches: SearchQuota,
}

impl UserRpc {
    /// The service over this node's users.
    #[must_use]
    pub const fn new(users: Users, pages: PageTokens, limits: Limits, searches: SearchQuota) -> Self {
        Self { users, pages, limits, searches }
    }

    /// The user as `viewer` may see it.
    fn shown(&self, user: &User, viewer: Viewer) -> wire::User {
        convert::to_wire(user, viewer, &self.users.rules)
    }

    fn result(
        &self,
        id: UserId,
        user: Result<Option<Entry<User>>, Error>,
        viewer: Viewer,
        budget: &mut ByteBudget,
    ) -> wire::UserResult {
        use wire::user_result::Result::{Error, NotFound, User as Found};
        let shown = |user: Entry<User>| budget.fit(|| self.shown(&user.value, viewer));
        let result = match user.and_then(|user| user.map(shown).transpose()) {
            Ok(Some(user)) => Found(user),
            Ok(None) => NotFound(true),
            Err(error) => Error(error.to_result()),
        };
        wire::UserResult { user_id: id.get(), result: Some(result) }
    }

    /// Takes the secrets out of the message, and then the request id: the rest identifies the request.
    async fn create(
        &self,
        mut request: wire::CreateUserRequest,
        call: Call,
    ) -> Result<wire::CreateUserResponse, Error> {
        let request_id = request.take_request_id();
        let user = request.user.as_mut().ok_or_else(|| batch::missing("user"))?;
        let secrets = take_secrets(&mut user.params, &self.users.rules.secret_params)?;
        let context = WriteContext::of_request(&request_id, call, &request)?;
        let draft = UserDraft::new(request.user.take().unwrap_or_default())?;
        let created = self.users.create_user(draft, secrets, context).await?;
        Ok(wire::CreateUserResponse {
            user: Some(self.shown(&created.record, Viewer::of(call))),
            consistency_token: created.token.to_string(),
        })
    }

    /// Changes a user's access, which is a security event.
    async fn change_access<R: IdentifiedRequest>(
        &self,
        request: Request<R>,
        user_id: i64,
        change: AccessChange,
    ) -> Result<(Option<wire::UserAccess>, String), Error> {
        let id = ids::user("user_id", user_id)?;
        AuditNotes::of(&request).note_user(user_id);
        let (_, context) = WriteContext::open(request)?;
        let changed = self.users.accesses().change(id, change, context).await?;
        Ok((Some(access::to_wire(&changed.record)), changed.token.to_string()))
    }

    async fn import_one(&self, record: wire::ImportUser, call: Call) -> ImportResult {
        let number = record.record;
        let call = Call { deadline: self.limits.import_deadline(), ..call };
        let request = wire::CreateUserRequest { user: record.user, request_id: record.request_id };
        let created = self.create(request, call).await;
        batch::import_result(number, created.map(|created| created.user.unwrap_or_default().user_id))
    }
}

#[tonic::async_trait]
impl UserService for UserRpc {
    type ImportUsersStream = BoxStream<'static, Result<wire::ImportUsersResponse, Status>>;
    type ExportUsersStream = BoxStream<'static, Result<wire::ExportUsersResponse, Status>>;

    async fn create_user(
        &self,
        request: Request<wire::CreateUserRequest>,
    ) -> RpcResult<wire::CreateUserResponse> {
        let call = Call::of(&request);
        Ok(Response::new(self.create(request.into_inner(), call).await?))
    }

    async fn get_user(&self, request: Request<wire::GetUserRequest>) -> RpcResult<wire::GetUserResponse> {
        let call = Call::of(&request);
        let request = request.get_ref();
        let id = ids::user("user_id", request.user_id)?;
        self.limits.records.count(call, 1)?;
        let entry = self.users.get(id, &self.limits.consistency(call, request.consistency.as_ref())?).await?;
        let user = batch_encoder::answer(&entry.value, Viewer::of(call), &self.users.rules);
        Ok(AnswerMetadata::of(&entry).answer(user))
    }

    async fn batch_get_users(
        &self,
        request: Request<wire::BatchGetUsersRequest>,
    ) -> RpcResult<wire::BatchGetUsersResponse> {
        let (call, request) = Call::open(request);
        batch::check_count("user_ids", request.user_ids.len(), self.limits.batch_ids_of(call))?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let ids = ids::users("user_ids", &request.user_ids)?;
        self.limits.records.count(call, ids.len())?;
        let users = self.users.get_many(&ids, &consistency).await;
        let mut budget = ByteBudget::new(call.answer_bytes);
        let result = |(id, user): (&UserId, _)| self.result(*id, user, Viewer::of(call), &mut budget);
        let results = ids.iter().zip(users).map(result).collect();
        Ok(Response::new(wire::BatchGetUsersResponse { results }))
    }

    async fn update_user(
        &self,
        request: Request<wire::UpdateUserRequest>,
    ) -> RpcResult<wire::UpdateUserResponse> {
        let call = Call::of(&request);
        let mut request = request.into_inner();
        let request_id = request.take_request_id();
        let user = request.user.as_mut().ok_or_else(|| batch::missing("user"))?;
        let id = ids::user("user_id", user.user_id)?;
        own(id, call.principal)?;
        let secret_params = &self.users.rules.secret_params;
        let paths = request.update_mask.clone().unwrap_or_default().paths;
        check_user_paths(call, &paths, &self.users.rules.user_params)?;
        let (patch, secrets) = convert::patch(user.clone(), &paths, secret_params)?;
        user.params.retain(|name, _| !secret_params.contains(name));
        let context = WriteContext::of_request(&request_id, call, &request)?;
        let updated = self.users.update_user(id, patch, secrets, context).await?;
        Ok(Response::new(wire::UpdateUserResponse {
            user: Some(self.shown(&updated.record, Viewer::of(call))),
            consistency_token: updated.token.to_string(),
        }))
    }

    async fn delete_user(
        &self,
        request: Request<wire::DeleteUserRequest>,
    ) -> RpcResult<wire::DeleteUserResponse> {
        let (request, context) = WriteContext::open(request)?;
        let id = ids::user("user_id", request.user_id)?;
        own(id, context.principal)?;
        let deleted = self.users.delete_user(id, context).await?;
        Ok(Response::new(wire::DeleteUserResponse {
            version: deleted.record.get(),
            consistency_token: deleted.token.to_string(),
        }))
    }

    async fn find_user_by_name(
        &self,
        request: Request<wire::FindUserByNameRequest>,
    ) -> RpcResult<wire::FindUserByNameResponse> {
        let call = Call::of(&request);
        self.searches.count(call.principal)?;
        self.limits.records.count(call, 1)?;
        let request = request.get_ref();
        self.limits.consistency(call, request.consistency.as_ref())?;
        let user = self.users.find_user_by_name(&convert::user_name(&request.user_name)?).await?;
        let metadata = AnswerMetadata::from_store(user.version.get());
        let user = Some(self.shown(&user, Viewer::of(call)));
        Ok(metadata.answer(wire::FindUserByNameResponse { user }))
    }

    async fn search_users(
        &self,
        request: Request<wire::SearchUsersRequest>,
    ) -> RpcResult<wire::SearchUsersResponse> {
        let (call, request) = Call::open(request);
        self.searches.count_of_users(call)?;
        let keyword = valid("keyword", Keyword::new(&request.keyword))?;
        self.limits.consistency(call, request.consistency.as_ref())?;
        let mut page = self.limits.page(call, request.page_size)?;
        if let Principal::User(user) = call.principal {
            // A deleted user must not find others by their addresses.
            self.users.get(user, &Consistency::Cached).await?;
        }
        let query: [&[u8]; 2] = [b"SearchUsers", keyword.name().as_bytes()];
        let after =
            self.pages.of(call).verify(&query, &request.page_token)?.and_then(|id| UserId::new(id).ok());
        let found = self.users.search_users(&keyword, after, page.size + 1).await?;
        let shown = found.iter().take(page.size).map(|user| self.shown(user, Viewer::of(call)));
        let users = fit_into_answer(call.answer_bytes, shown);
        page.answered(users.len());
        let last = users.last().filter(|_| users.len() < found.len());
        let next_page_token =
            last.map(|user| self.pages.of(call).issue(&query, user.user_id)).unwrap_or_default();
        Ok(Response::new(wire::SearchUsersResponse { users, next_page_token }))
    }

    async fn verify_secret(
        &self,
        request: Request<wire::VerifySecretRequest>,
    ) -> RpcResult<wire::VerifySecretResponse> {
        let (call, request) = Call::open(request);
        let id = ids::user("user_id", request.user_id)?;
        own(id, call.principal)?;
        valid("secret", check_secret(&request.secret))?;
        let verified = self.users.verify_secret(id, &request.name, Zeroizing::new(request.secret)).await?;
        Ok(Response::new(wire::VerifySecretResponse { verified }))
    }

    async fn suspend_user(
        &self,
        request: Request<wire::SuspendUserRequest>,
    ) -> RpcResult<wire::SuspendUserResponse> {
        let (user, change) = (request.get_ref().user_id, access::suspension(request.get_ref())?);
        let (access, consistency_token) = self.change_access(request, user, change).await?;
        Ok(Response::new(wire::SuspendUserResponse { access, consistency_token }))
    }

    async fn resume_user(
        &self,
        request: Request<wire::ResumeUserRequest>,
    ) -> RpcResult<wire::ResumeUserResponse> {
        let user = request.get_ref().user_id;
        let (access, consistency_token) = self.change_access(request, user, AccessChange::Resume).await?;
        Ok(Response::new(wire::ResumeUserResponse { access, consistency_token }))
    }

    async fn sign_out_user(
        &self,
        request: Request<wire::SignOutUserRequest>,
    ) -> RpcResult<wire::SignOutUserResponse> {
        let (user, change) = (request.get_ref().user_id, access::sign_out_time(request.get_ref())?);
        let (access, consistency_token) = self.change_access(request, user, change).await?;
        Ok(Response::new(wire::SignOutUserResponse { access, consistency_token }))
    }

    async fn get_user_access(
        &self,
        request: Request<wire::GetUserAccessRequest>,
    ) -> RpcResult<wire::GetUserAccessResponse> {
        let (call, request) = Call::open(request);
        let id = ids::user("user_id", request.user_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        self.users.get(id, &consistency).await?;
        let access = self.users.accesses().read(id, &consistency).await?;
        Ok(Response::new(wire::GetUserAccessResponse { access: Some(access::to_wire(&access)) }))
    }

    async fn import_users(
        &self,
        request: Request<Streaming<wire::ImportUsersRequest>>,
    ) -> RpcResult<Self::ImportUsersStream> {
        let (this, call) = (self.clone(), Call::of(&request));
        let one = move |record| {
            let this = this.clone();
            async move { this.import_one(record, call).await }
        };
        let answer = |results| wire::ImportUsersResponse { results };
        Ok(Response::new(batch::import(request, &self.limits, one, answer)))
    }

    async fn export_users(
        &self,
        request: Request<wire::ExportUsersRequest>,
    ) -> RpcResult<Self::ExportUsersStream> {
        let (viewer, notes) = (Viewer::of(Call::of(&request)), AuditNotes::of(&request));
        let after = match request.get_ref().after_user_id {
            0 => None,
            id => Some(ids::user("user_id", id)?),
        };
        let users = self.users.clone();
        let page = move |after| {
            let users = users.clone();
            async move { users.export_users(after, batch::EXPORT_PAGE).await }
        };
        let this = self.clone();
        let to_wire = move |user: &User| this.shown(user, viewer);
        let answer = |users| wire::ExportUsersResponse { users };
        Ok(Response::new(batch::export(notes, after, page, |user: &User| user.id, to_wire, answer)))
    }
}
