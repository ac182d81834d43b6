//! The calls on the wire.

use kith_proto::message::v1 as wire;
use tonic::{Request, Response};

use super::{super::Messages, convert};
use crate::rpc::call::{Call, RpcResult};

impl Messages {
    pub(in crate::message) async fn recall_message(
        &self,
        request: Request<wire::RecallMessageRequest>,
    ) -> RpcResult<wire::RecallMessageResponse> {
        let (call, request) = Call::open(request);
        let target = convert::target(request.user_id, &request.conversation_id, request.seq, call.principal)?;
        let changed = self.recall(target, call.deadline).await?;
        Ok(Response::new(convert::recall_to_wire(changed, target.conversation, call.principal)))
    }

    pub(in crate::message) async fn edit_message(
        &self,
        request: Request<wire::EditMessageRequest>,
    ) -> RpcResult<wire::EditMessageResponse> {
        let (call, request) = Call::open(request);
        let target = convert::target(request.user_id, &request.conversation_id, request.seq, call.principal)?;
        let edit = convert::edit(request, self.config.body_bytes_max)?;
        let changed = self.edit(target, edit, call.deadline).await?;
        Ok(Response::new(convert::edit_to_wire(changed, target.conversation, call.principal)))
    }
}
