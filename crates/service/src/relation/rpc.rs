//! The relation service on the wire: each call is decoded, goes to its method of [`Follows`] or [`Blocks`],
//! and its result is encoded. The lists' common part is in `pages.rs`.

use std::sync::Arc;

use futures::stream::BoxStream;
use kith_proto::{
    IdentifiedRequest as _,
    relation::v1::{self as wire, relation_service_server::RelationService},
};
use kith_store::{Block, BlockList, BlockPatch, Edge, FollowList, UserId};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Blocks, Follows,
    batch_encoder::{self, AnswerContext},
    convert,
    import::{ImportPlaces, import},
    lists::UserList,
    pages::ListQuery,
    pair::{AT_ONCE, PairRecords},
    settings_import,
};
use crate::{
    error::{Error, valid},
    group::member::Members,
    rpc::{
        audit_notes::AuditNotes,
        batch::{self, Limits},
        call::{AnswerMetadata, Call, RpcResult, own},
        ids,
        page_token::PageTokens,
        request::{IdempotencyKey, WriteContext},
    },
};

/// The relation service on the wire.
#[derive(Clone, Debug)]
pub struct RelationRpc {
    pub(super) follows: Follows,
    pub(super) blocks: Blocks,
    members: Members,
    pub(super) pages: PageTokens,
    pub(super) limits: Limits,
}

impl RelationRpc {
    /// Creates it over this node's relations and group members.
    #[must_use]
    pub const fn new(
        follows: Follows,
        blocks: Blocks,
        members: Members,
        pages: PageTokens,
        limits: Limits,
    ) -> Self {
        Self { follows, blocks, members, pages, limits }
    }

    /// Changes a user's settings for another.
    async fn set(
        &self,
        edge: Edge,
        patch: BlockPatch,
        context: WriteContext,
    ) -> Result<SettingsChange, Error> {
        let changed = self.blocks.set_block(edge, patch, &self.follows, context).await?;
        Ok(SettingsChange {
            settings: Some(convert::user_settings(&changed.record.block, &self.blocks)),
            follow_ended: changed.record.cut.is_some(),
            consistency_token: changed.token.to_string(),
        })
    }
}

/// The page that a request asks for, from the list that this method returns for these users.
macro_rules! page {
    ($call:expr, $method:literal, $request:expr, $users:expr) => {
        ListQuery::new($call, $method, &$users, $request.page_size, $request.page_token, $request.consistency)
    };
}

/// The answer when settings change.
struct SettingsChange {
    settings: Option<wire::UserSettings>,
    follow_ended: bool,
    consistency_token: String,
}

#[tonic::async_trait]
impl RelationService for RelationRpc {
    type ImportFollowsStream = BoxStream<'static, Result<wire::ImportFollowsResponse, Status>>;
    type ImportSettingsStream = BoxStream<'static, Result<wire::ImportSettingsResponse, Status>>;

    async fn follow(&self, request: Request<wire::FollowRequest>) -> RpcResult<wire::FollowResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let follow = self.follows.follow(edge, &self.blocks, context).await?;
        Ok(Response::new(wire::FollowResponse {
            follow: Some(convert::follow_to_wire(&follow.record)),
            consistency_token: follow.token.to_string(),
        }))
    }

    async fn unfollow(&self, request: Request<wire::UnfollowRequest>) -> RpcResult<wire::UnfollowResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let ended = self.follows.unfollow(edge, context).await?;
        Ok(Response::new(wire::UnfollowResponse {
            version: ended.record.get(),
            consistency_token: ended.token.to_string(),
        }))
    }

    async fn remove_fan(
        &self,
        request: Request<wire::RemoveFanRequest>,
    ) -> RpcResult<wire::RemoveFanResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.fan_id, "fan_id")?;
        let SettingsChange { settings, consistency_token, .. } =
            self.set(edge, BlockPatch::blocked(true), context).await?;
        Ok(Response::new(wire::RemoveFanResponse { settings, consistency_token }))
    }

    async fn unfriend(&self, request: Request<wire::UnfriendRequest>) -> RpcResult<wire::UnfriendResponse> {
        let call = Call::of(&request);
        let mut request = request.into_inner();
        let edge = convert::edge(request.user_id, request.friend_id, "friend_id")?;
        own(edge.from, call.principal)?;
        let id = request.take_request_id();
        let key = IdempotencyKey::of(&id, call, &request)?;
        let token = self.follows.unfriend(edge, key.as_ref(), call).await?;
        Ok(Response::new(wire::UnfriendResponse { consistency_token: token.to_string() }))
    }

    async fn set_remark(
        &self,
        request: Request<wire::SetRemarkRequest>,
    ) -> RpcResult<wire::SetRemarkResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let remark = valid("remark", Block::remark(&request.remark))?;
        let patch = BlockPatch { remark: Some(remark), ..BlockPatch::default() };
        let SettingsChange { settings, consistency_token, .. } = self.set(edge, patch, context).await?;
        Ok(Response::new(wire::SetRemarkResponse { settings, consistency_token }))
    }

    async fn block(&self, request: Request<wire::BlockRequest>) -> RpcResult<wire::BlockResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let SettingsChange { settings, follow_ended, consistency_token } =
            self.set(edge, BlockPatch::blocked(true), context).await?;
        Ok(Response::new(wire::BlockResponse { settings, follow_ended, consistency_token }))
    }

    async fn unblock(&self, request: Request<wire::UnblockRequest>) -> RpcResult<wire::UnblockResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let SettingsChange { settings, consistency_token, .. } =
            self.set(edge, BlockPatch::blocked(false), context).await?;
        Ok(Response::new(wire::UnblockResponse { settings, consistency_token }))
    }

    async fn set_permissions(
        &self,
        request: Request<wire::SetPermissionsRequest>,
    ) -> RpcResult<wire::SetPermissionsResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let permissions = request.permissions.map(convert::permissions).transpose()?;
        let patch = BlockPatch { permissions: Some(permissions), ..BlockPatch::default() };
        let SettingsChange { settings, consistency_token, .. } = self.set(edge, patch, context).await?;
        Ok(Response::new(wire::SetPermissionsResponse { settings, consistency_token }))
    }

    async fn set_do_not_disturb(
        &self,
        request: Request<wire::SetDoNotDisturbRequest>,
    ) -> RpcResult<wire::SetDoNotDisturbResponse> {
        let (request, context) = WriteContext::open(request)?;
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        let patch = BlockPatch { do_not_disturb: Some(request.do_not_disturb), ..BlockPatch::default() };
        let SettingsChange { settings, consistency_token, .. } = self.set(edge, patch, context).await?;
        Ok(Response::new(wire::SetDoNotDisturbResponse { settings, consistency_token }))
    }

    async fn get_relation(
        &self,
        request: Request<wire::GetRelationRequest>,
    ) -> RpcResult<wire::GetRelationResponse> {
        let (call, request) = Call::open(request);
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        own(edge.from, call.principal)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let edges = [edge];
        let found = PairRecords::read(&self.follows, &self.blocks, &edges, &consistency).await;
        let (_, between) = found.pairs().next().ok_or_else(Error::internal)?;
        let relation = Some(convert::relation(between?, &self.blocks, call.principal));
        Ok(Response::new(wire::GetRelationResponse { relation }))
    }

    async fn batch_get_relations(
        &self,
        request: Request<wire::BatchGetRelationsRequest>,
    ) -> RpcResult<wire::BatchGetRelationsResponse> {
        let (call, request) = Call::open(request);
        batch::check_count("target_ids", request.target_ids.len(), self.limits.batch_ids_of(call))?;
        let edge = |target: &i64| convert::edge(request.user_id, *target, "target_ids");
        let edges = request.target_ids.iter().map(edge).collect::<Result<Vec<Edge>, Error>>()?;
        own(ids::user("user_id", request.user_id)?, call.principal)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        self.limits.records.count(call, edges.len())?;
        let context = AnswerContext { default: self.blocks.permissions(None), principal: call.principal };
        let mut results = batch_encoder::none(edges.len());
        for edges in edges.chunks(AT_ONCE) {
            let found = PairRecords::read(&self.follows, &self.blocks, edges, &consistency).await;
            for (edge, between) in found.pairs() {
                batch_encoder::add(&mut results, edge, &between, context);
            }
        }
        Ok(Response::new(results))
    }

    /// One memory read: the target's settings for the user.
    async fn check_permission(
        &self,
        request: Request<wire::CheckPermissionRequest>,
    ) -> RpcResult<wire::CheckPermissionResponse> {
        let (call, request) = Call::open(request);
        let edge = convert::edge(request.user_id, request.target_id, "target_id")?;
        own(edge.from, call.principal)?;
        if request.permissions == 0 && call.principal.user().is_some() {
            // Only a block would deny it.
            let why = "must not be 0: users do not learn who has blocked them";
            return Err(Error::invalid("permissions", why).into());
        }
        let asked = convert::permissions(request.permissions)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let entry = self.blocks.get(edge.reversed(), &consistency).await?;
        let (denied, blocked) = self.blocks.denied(entry.as_ref().map(|entry| &*entry.value), asked);
        let allowed = denied == 0 && !blocked;
        let answer = wire::CheckPermissionResponse { allowed, denied };
        Ok(match &entry {
            Some(entry) => AnswerMetadata::of(entry).answer(answer),
            None => Response::new(answer),
        })
    }

    async fn list_following(
        &self,
        request: Request<wire::ListFollowingRequest>,
    ) -> RpcResult<wire::ListFollowingResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        self.may_list(&[user], call.principal).await?;
        let page = page!(call, "ListFollowing", request, [user]);
        let of = UserList { list: FollowList::Following, user };
        let (follows, next_page_token) = self.follow_page(of, &page).await?;
        Ok(Response::new(wire::ListFollowingResponse { follows, next_page_token }))
    }

    async fn list_fans(&self, request: Request<wire::ListFansRequest>) -> RpcResult<wire::ListFansResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        self.may_list(&[user], call.principal).await?;
        let page = page!(call, "ListFans", request, [user]);
        let of = UserList { list: FollowList::Fans, user };
        let (follows, next_page_token) = self.follow_page(of, &page).await?;
        Ok(Response::new(wire::ListFansResponse { follows, next_page_token }))
    }

    async fn list_friends(
        &self,
        request: Request<wire::ListFriendsRequest>,
    ) -> RpcResult<wire::ListFriendsResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        self.may_list(&[user], call.principal).await?;
        let page = page!(call, "ListFriends", request, [user]);
        let (user_ids, next_page_token, partial) = self.common_page(friends_of(user), &page).await?;
        Ok(Response::new(wire::ListFriendsResponse { user_ids, next_page_token, partial }))
    }

    async fn list_blocks(
        &self,
        request: Request<wire::ListBlocksRequest>,
    ) -> RpcResult<wire::ListBlocksResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let page = page!(call, "ListBlocks", request, [user]);
        let of = UserList { list: BlockList::Blocked, user };
        let (settings, next_page_token) = self.settings_page(of, &page).await?;
        Ok(Response::new(wire::ListBlocksResponse { settings, next_page_token }))
    }

    async fn list_do_not_disturb(
        &self,
        request: Request<wire::ListDoNotDisturbRequest>,
    ) -> RpcResult<wire::ListDoNotDisturbResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let page = page!(call, "ListDoNotDisturb", request, [user]);
        let of = UserList { list: BlockList::DoNotDisturb, user };
        let (settings, next_page_token) = self.settings_page(of, &page).await?;
        Ok(Response::new(wire::ListDoNotDisturbResponse { settings, next_page_token }))
    }

    async fn count_relations(
        &self,
        request: Request<wire::CountRelationsRequest>,
    ) -> RpcResult<wire::CountRelationsResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        self.may_list(&[user], call.principal).await?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let count = |list| self.follows.lists.count(UserList { list, user }, &consistency);
        let (following, fans) = tokio::join!(count(FollowList::Following), count(FollowList::Fans));
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Ok(Response::new(wire::CountRelationsResponse { following: number(following?), fans: number(fans?) }))
    }

    async fn list_common_following(
        &self,
        request: Request<wire::ListCommonFollowingRequest>,
    ) -> RpcResult<wire::ListCommonFollowingResponse> {
        let (call, request) = Call::open(request);
        let edge = convert::edge(request.user_id, request.other_id, "other_id")?;
        self.may_list(&[edge.from, edge.to], call.principal).await?;
        let page = page!(call, "ListCommonFollowing", request, [edge.from, edge.to]);
        let lists = [edge.from, edge.to].map(|user| UserList { list: FollowList::Following, user });
        let (user_ids, next_page_token, partial) = self.common_page(lists, &page).await?;
        Ok(Response::new(wire::ListCommonFollowingResponse { user_ids, next_page_token, partial }))
    }

    async fn list_fans_i_follow(
        &self,
        request: Request<wire::ListFansIFollowRequest>,
    ) -> RpcResult<wire::ListFansIFollowResponse> {
        let (call, request) = Call::open(request);
        let edge = convert::edge(request.user_id, request.other_id, "other_id")?;
        self.may_list(&[edge.from, edge.to], call.principal).await?;
        let page = page!(call, "ListFansIFollow", request, [edge.from, edge.to]);
        let lists = [
            UserList { list: FollowList::Following, user: edge.from },
            UserList { list: FollowList::Fans, user: edge.to },
        ];
        let (user_ids, next_page_token, partial) = self.common_page(lists, &page).await?;
        Ok(Response::new(wire::ListFansIFollowResponse { user_ids, next_page_token, partial }))
    }

    /// A page with friends, filtered by membership in the group.
    async fn list_friends_in_group(
        &self,
        request: Request<wire::ListFriendsInGroupRequest>,
    ) -> RpcResult<wire::ListFriendsInGroupResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let group = ids::group(request.group_id)?;
        let page = page!(call, "ListFriendsInGroup", request, [user]);
        let consistency = self.limits.consistency(page.call, page.consistency.as_ref())?;
        self.members.may_see(group, call.principal).await?;
        let (friends, next_page_token, partial) = self.common_page(friends_of(user), &page).await?;
        let users: Vec<UserId> = friends.iter().filter_map(|friend| UserId::new(*friend).ok()).collect();
        let members = self.members.users_among(group, &users, &consistency).await?;
        let user_ids: Vec<i64> = members.into_iter().map(UserId::get).collect();
        let partial = partial || user_ids.len() < friends.len();
        Ok(Response::new(wire::ListFriendsInGroupResponse { user_ids, next_page_token, partial }))
    }

    async fn import_follows(
        &self,
        request: Request<Streaming<wire::ImportFollowsRequest>>,
    ) -> RpcResult<Self::ImportFollowsStream> {
        let (follows, limits) = (self.follows.clone(), self.limits.clone());
        let places = Arc::new(ImportPlaces::default());
        let all = move |records| import(follows.clone(), limits.clone(), Arc::clone(&places), records);
        let answer = |results| wire::ImportFollowsResponse { results };
        Ok(Response::new(batch::import_together(request, &self.limits, all, answer)))
    }

    async fn import_settings(
        &self,
        request: Request<Streaming<wire::ImportSettingsRequest>>,
    ) -> RpcResult<Self::ImportSettingsStream> {
        let (blocks, follows, limits) = (self.blocks.clone(), self.follows.clone(), self.limits.clone());
        let one =
            move |record| settings_import::import(blocks.clone(), follows.clone(), limits.clone(), record);
        let answer = |results| wire::ImportSettingsResponse { results };
        Ok(Response::new(batch::import(request, &self.limits, one, answer)))
    }

    async fn export_settings(
        &self,
        request: Request<wire::ExportSettingsRequest>,
    ) -> RpcResult<wire::ExportSettingsResponse> {
        let notes = AuditNotes::of(&request);
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        let query = [&b"ExportSettings"[..], &user.get().to_be_bytes()[..]];
        let page = self.limits.page(call, request.page_size)?;
        let after =
            self.pages.of(call).verify(&query, &request.page_token)?.and_then(|id| UserId::new(id).ok());
        let (blocks, next) = self.blocks.export_page(user, after, page.size).await?;
        notes.add_records(blocks.len());
        Ok(Response::new(wire::ExportSettingsResponse {
            settings: blocks.iter().map(settings_import::to_wire).collect(),
            next_page_token: next.map(|last| self.pages.of(call).issue(&query, last)).unwrap_or_default(),
        }))
    }
}

/// The two lists whose intersection are the user's friends.
fn friends_of(user: UserId) -> [UserList<FollowList>; 2] {
    [FollowList::Following, FollowList::Fans].map(|list| UserList { list, user })
}
