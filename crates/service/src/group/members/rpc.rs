//! The member service on the wire: each call goes to its decoding in `writes.rs`, `reads.rs` or `pages.rs`.

use kith_proto::member::v1::{self as wire, member_service_server::MemberService};
use tonic::{Request, Response, Status};

use super::Members;
use crate::rpc::{batch::Limits, call::Call, page_token::PageTokens};

/// The member service on the wire.
#[derive(Clone, Debug)]
pub struct MemberRpc {
    pub(super) members: Members,
    pub(super) pages: PageTokens,
    pub(super) limits: Limits,
}

impl MemberRpc {
    /// Over the members of this node.
    #[must_use]
    pub const fn new(members: Members, pages: PageTokens, limits: Limits) -> Self {
        Self { members, pages, limits }
    }
}

#[tonic::async_trait]
impl MemberService for MemberRpc {
    async fn add_members(
        &self,
        request: Request<wire::AddMembersRequest>,
    ) -> Result<Response<wire::AddMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.add(request.into_inner(), call).await?))
    }

    async fn remove_members(
        &self,
        request: Request<wire::RemoveMembersRequest>,
    ) -> Result<Response<wire::RemoveMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.remove(request.into_inner(), call).await?))
    }

    async fn unban_members(
        &self,
        request: Request<wire::UnbanMembersRequest>,
    ) -> Result<Response<wire::UnbanMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.unban(request.into_inner(), call).await?))
    }

    async fn list_bans(
        &self,
        request: Request<wire::ListBansRequest>,
    ) -> Result<Response<wire::ListBansResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.bans_page(request.into_inner(), call).await?))
    }

    async fn join(
        &self,
        request: Request<wire::JoinRequest>,
    ) -> Result<Response<wire::JoinResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.come_in(request.into_inner(), call).await?))
    }

    async fn leave(
        &self,
        request: Request<wire::LeaveRequest>,
    ) -> Result<Response<wire::LeaveResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.go(request.into_inner(), call).await?))
    }

    async fn set_role(
        &self,
        request: Request<wire::SetRoleRequest>,
    ) -> Result<Response<wire::SetRoleResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.give_role(request.into_inner(), call).await?))
    }

    async fn mute_member(
        &self,
        request: Request<wire::MuteMemberRequest>,
    ) -> Result<Response<wire::MuteMemberResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.mute(request.into_inner(), call).await?))
    }

    async fn mute_group(
        &self,
        request: Request<wire::MuteGroupRequest>,
    ) -> Result<Response<wire::MuteGroupResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.mute_all(request.into_inner(), call).await?))
    }

    async fn set_member_remark(
        &self,
        request: Request<wire::SetMemberRemarkRequest>,
    ) -> Result<Response<wire::SetMemberRemarkResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.write_remark(request.into_inner(), call).await?))
    }

    async fn get_member(
        &self,
        request: Request<wire::GetMemberRequest>,
    ) -> Result<Response<wire::GetMemberResponse>, Status> {
        let call = Call::of(&request);
        Ok(self.one(request.into_inner(), call).await?)
    }

    async fn batch_is_member(
        &self,
        request: Request<wire::BatchIsMemberRequest>,
    ) -> Result<Response<wire::BatchIsMemberResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.are_members(request.into_inner(), call).await?))
    }

    async fn list_members(
        &self,
        request: Request<wire::ListMembersRequest>,
    ) -> Result<Response<wire::ListMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.members_page(request.into_inner(), call).await?))
    }

    async fn count_members(
        &self,
        request: Request<wire::CountMembersRequest>,
    ) -> Result<Response<wire::CountMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.count(request.into_inner(), call).await?))
    }

    async fn list_memberships(
        &self,
        request: Request<wire::ListMembershipsRequest>,
    ) -> Result<Response<wire::ListMembershipsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.groups_page(request.into_inner(), call).await?))
    }

    async fn count_memberships(
        &self,
        request: Request<wire::CountMembershipsRequest>,
    ) -> Result<Response<wire::CountMembershipsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.count_groups(request.into_inner(), call).await?))
    }

    async fn list_common_groups(
        &self,
        request: Request<wire::ListCommonGroupsRequest>,
    ) -> Result<Response<wire::ListCommonGroupsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.common_page(request.into_inner(), call).await?))
    }

    async fn sync_members(
        &self,
        request: Request<wire::SyncMembersRequest>,
    ) -> Result<Response<wire::SyncMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.sync(request.into_inner(), call).await?))
    }
}
