//! Writes of relations: decode, one call, encode.

use kith_proto::relation::v1 as wire;
use kith_store::{Block, BlockChange, BlockPatch, Edge};

use super::{RelationRpc, convert};
use crate::{
    error::{Error, Reason},
    rpc::{
        call::{Call, own},
        request::{IdempotencyKey, WriteContext},
    },
};

impl RelationRpc {
    pub(super) async fn begin_follow(
        &self,
        mut request: wire::FollowRequest,
        call: Call,
    ) -> Result<wire::FollowResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Follow", &id, call, 0, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let written = self.follows.follow(edge, &self.blocks, terms).await?;
        Ok(wire::FollowResponse {
            follow: Some(convert::follow_to_wire(&written.record)),
            consistency_token: written.token.to_string(),
        })
    }

    pub(super) async fn end_follow(
        &self,
        mut request: wire::UnfollowRequest,
        call: Call,
    ) -> Result<wire::UnfollowResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Unfollow", &id, call, 0, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let written = self.follows.unfollow(edge, terms).await?;
        Ok(wire::UnfollowResponse {
            version: written.record.get(),
            consistency_token: written.token.to_string(),
        })
    }

    pub(super) async fn end_fan(
        &self,
        mut request: wire::RemoveFanRequest,
        call: Call,
    ) -> Result<wire::RemoveFanResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("RemoveFan", &id, call, 0, &request)?;
        let edge = convert::edge(request.user_id, (request.fan_id, "fan_id"))?;
        let Changed { settings, consistency_token, .. } = self.set(edge, blocked(true), terms).await?;
        Ok(wire::RemoveFanResponse { settings, consistency_token })
    }

    /// Both follows end, one after the other, each by a request id of its own: a repeated call finishes what an earlier one
    /// began. The token of the later one vouches for both.
    pub(super) async fn end_friendship(
        &self,
        mut request: wire::UnfriendRequest,
        call: Call,
    ) -> Result<wire::UnfriendResponse, Error> {
        let edge = convert::edge(request.user_id, (request.friend_id, "friend_id"))?;
        own(edge.from, call.principal)?;
        let id = std::mem::take(&mut request.request_id);
        let seed = IdempotencyKey::of("Unfriend", &id, call.principal, &request)?;
        let there = WriteContext::of(call, 0, seed.as_ref().map(|seed| seed.part("there")))?;
        let back = WriteContext::of(call, 0, seed.as_ref().map(|seed| seed.part("back")))?;
        let ended = [self.follows.end(edge, there).await, self.follows.end(edge.reversed(), back).await];
        let mut token = None;
        for ended in ended {
            match ended {
                Ok(written) => token = Some(written.token),
                Err(error) if error.reason() == Reason::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let token = token.ok_or_else(|| Error::not_found("friend"))?;
        self.follows.close_requests(edge, call.deadline).await;
        Ok(wire::UnfriendResponse { consistency_token: token.to_string() })
    }

    pub(super) async fn write_remark(
        &self,
        mut request: wire::SetRemarkRequest,
        call: Call,
    ) -> Result<wire::SetRemarkResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("SetRemark", &id, call, request.expected_version, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let remark = Block::remark(&request.remark).map_err(|why| Error::invalid("remark", &why))?;
        let patch = BlockPatch { remark: Some(remark), ..BlockPatch::default() };
        let Changed { settings, consistency_token, .. } = self.set(edge, patch, terms).await?;
        Ok(wire::SetRemarkResponse { settings, consistency_token })
    }

    pub(super) async fn begin_block(
        &self,
        mut request: wire::BlockRequest,
        call: Call,
    ) -> Result<wire::BlockResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Block", &id, call, request.expected_version, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let Changed { settings, follow_ended, consistency_token } =
            self.set(edge, blocked(true), terms).await?;
        Ok(wire::BlockResponse { settings, follow_ended, consistency_token })
    }

    pub(super) async fn end_block(
        &self,
        mut request: wire::UnblockRequest,
        call: Call,
    ) -> Result<wire::UnblockResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Unblock", &id, call, request.expected_version, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let Changed { settings, consistency_token, .. } = self.set(edge, blocked(false), terms).await?;
        Ok(wire::UnblockResponse { settings, consistency_token })
    }

    pub(super) async fn write_permissions(
        &self,
        mut request: wire::SetPermissionsRequest,
        call: Call,
    ) -> Result<wire::SetPermissionsResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms =
            WriteContext::of_request("SetPermissions", &id, call, request.expected_version, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let permissions = request.permissions.map(convert::permissions).transpose()?;
        let patch = BlockPatch { permissions: Some(permissions), ..BlockPatch::default() };
        let Changed { settings, consistency_token, .. } = self.set(edge, patch, terms).await?;
        Ok(wire::SetPermissionsResponse { settings, consistency_token })
    }

    pub(super) async fn write_do_not_disturb(
        &self,
        mut request: wire::SetDoNotDisturbRequest,
        call: Call,
    ) -> Result<wire::SetDoNotDisturbResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms =
            WriteContext::of_request("SetDoNotDisturb", &id, call, request.expected_version, &request)?;
        let edge = convert::edge(request.user_id, (request.target_id, "target_id"))?;
        let patch = BlockPatch { do_not_disturb: Some(request.do_not_disturb), ..BlockPatch::default() };
        let Changed { settings, consistency_token, .. } = self.set(edge, patch, terms).await?;
        Ok(wire::SetDoNotDisturbResponse { settings, consistency_token })
    }

    async fn set(&self, edge: Edge, patch: BlockPatch, terms: WriteContext) -> Result<Changed, Error> {
        let written = self.blocks.set(edge, patch, &self.follows, terms).await?;
        let BlockChange { block, cut } = &*written.record;
        Ok(Changed {
            settings: Some(convert::user_settings(block, &self.blocks)),
            follow_ended: cut.is_some(),
            consistency_token: written.token.to_string(),
        })
    }
}

/// What is answered to a change of settings.
struct Changed {
    settings: Option<wire::UserSettings>,
    follow_ended: bool,
    consistency_token: String,
}

fn blocked(blocked: bool) -> BlockPatch {
    BlockPatch { blocked: Some(blocked), ..BlockPatch::default() }
}
