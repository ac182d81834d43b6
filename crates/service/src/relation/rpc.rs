//! The relation service on the wire: each call goes to its decoding in `reads.rs`, `writes.rs` or `pages.rs`.

use futures::stream::BoxStream;
use kith_proto::relation::v1::{self as wire, relation_service_server::RelationService};
use tonic::{Request, Response, Status, Streaming};

use super::{Blocks, Follows, import::import};
use crate::{
    group::members::Members,
    rpc::{
        batch::{self, Limits},
        call::Call,
        page_token::PageTokens,
    },
};

/// The relation service on the wire.
#[derive(Clone, Debug)]
pub struct RelationRpc {
    pub(super) follows: Follows,
    pub(super) blocks: Blocks,
    pub(super) members: Members,
    pub(super) pages: PageTokens,
    pub(super) limits: Limits,
}

impl RelationRpc {
    /// Over the relations of this node, and who is in which group.
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
}

#[tonic::async_trait]
impl RelationService for RelationRpc {
    type ImportFollowsStream = BoxStream<'static, Result<wire::ImportFollowsResponse, Status>>;

    async fn follow(
        &self,
        request: Request<wire::FollowRequest>,
    ) -> Result<Response<wire::FollowResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.begin_follow(request.into_inner(), call).await?))
    }

    async fn unfollow(
        &self,
        request: Request<wire::UnfollowRequest>,
    ) -> Result<Response<wire::UnfollowResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.end_follow(request.into_inner(), call).await?))
    }

    async fn remove_fan(
        &self,
        request: Request<wire::RemoveFanRequest>,
    ) -> Result<Response<wire::RemoveFanResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.end_fan(request.into_inner(), call).await?))
    }

    async fn unfriend(
        &self,
        request: Request<wire::UnfriendRequest>,
    ) -> Result<Response<wire::UnfriendResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.end_friendship(request.into_inner(), call).await?))
    }

    async fn set_remark(
        &self,
        request: Request<wire::SetRemarkRequest>,
    ) -> Result<Response<wire::SetRemarkResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.write_remark(request.into_inner(), call).await?))
    }

    async fn block(
        &self,
        request: Request<wire::BlockRequest>,
    ) -> Result<Response<wire::BlockResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.begin_block(request.into_inner(), call).await?))
    }

    async fn unblock(
        &self,
        request: Request<wire::UnblockRequest>,
    ) -> Result<Response<wire::UnblockResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.end_block(request.into_inner(), call).await?))
    }

    async fn set_permissions(
        &self,
        request: Request<wire::SetPermissionsRequest>,
    ) -> Result<Response<wire::SetPermissionsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.write_permissions(request.into_inner(), call).await?))
    }

    async fn set_do_not_disturb(
        &self,
        request: Request<wire::SetDoNotDisturbRequest>,
    ) -> Result<Response<wire::SetDoNotDisturbResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.write_do_not_disturb(request.into_inner(), call).await?))
    }

    async fn get_relation(
        &self,
        request: Request<wire::GetRelationRequest>,
    ) -> Result<Response<wire::GetRelationResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.relation(request.into_inner(), call).await?))
    }

    async fn batch_get_relations(
        &self,
        request: Request<wire::BatchGetRelationsRequest>,
    ) -> Result<Response<wire::BatchGetRelationsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.relations(request.into_inner(), call).await?))
    }

    async fn check_permission(
        &self,
        request: Request<wire::CheckPermissionRequest>,
    ) -> Result<Response<wire::CheckPermissionResponse>, Status> {
        let call = Call::of(&request);
        Ok(self.permission(request.into_inner(), call).await?)
    }

    async fn list_following(
        &self,
        request: Request<wire::ListFollowingRequest>,
    ) -> Result<Response<wire::ListFollowingResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.following_page(request.into_inner(), call).await?))
    }

    async fn list_fans(
        &self,
        request: Request<wire::ListFansRequest>,
    ) -> Result<Response<wire::ListFansResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.fans_page(request.into_inner(), call).await?))
    }

    async fn list_friends(
        &self,
        request: Request<wire::ListFriendsRequest>,
    ) -> Result<Response<wire::ListFriendsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.friends_page(request.into_inner(), call).await?))
    }

    async fn list_blocks(
        &self,
        request: Request<wire::ListBlocksRequest>,
    ) -> Result<Response<wire::ListBlocksResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.blocks_page(request.into_inner(), call).await?))
    }

    async fn list_do_not_disturb(
        &self,
        request: Request<wire::ListDoNotDisturbRequest>,
    ) -> Result<Response<wire::ListDoNotDisturbResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.do_not_disturb_page(request.into_inner(), call).await?))
    }

    async fn count_relations(
        &self,
        request: Request<wire::CountRelationsRequest>,
    ) -> Result<Response<wire::CountRelationsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.counts(request.into_inner(), call).await?))
    }

    async fn list_common_following(
        &self,
        request: Request<wire::ListCommonFollowingRequest>,
    ) -> Result<Response<wire::ListCommonFollowingResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.common_following_page(request.into_inner(), call).await?))
    }

    async fn list_fans_i_follow(
        &self,
        request: Request<wire::ListFansIFollowRequest>,
    ) -> Result<Response<wire::ListFansIFollowResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.fans_i_follow_page(request.into_inner(), call).await?))
    }

    async fn list_friends_in_group(
        &self,
        request: Request<wire::ListFriendsInGroupRequest>,
    ) -> Result<Response<wire::ListFriendsInGroupResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.friends_in_group_page(request.into_inner(), call).await?))
    }

    async fn import_follows(
        &self,
        request: Request<Streaming<wire::ImportFollowsRequest>>,
    ) -> Result<Response<Self::ImportFollowsStream>, Status> {
        batch::only_services(Call::of(&request).principal)?;
        let (follows, limits) = (self.follows.clone(), self.limits);
        let all = move |records| import(follows.clone(), limits, records);
        let answer = |results| wire::ImportFollowsResponse { results };
        Ok(Response::new(batch::import_together(request.into_inner(), self.limits, all, answer)))
    }
}
