//! The receivers' calls on the wire: each decodes, calls the policy once, and encodes.

use std::sync::Arc;

use kith_proto::message::v1 as wire;
use tonic::{Request, Response};

use super::{ConnectionSigns, ReceiverLiveness, Receiving, ResponseSlot, convert, receiver::ReceiveStream};
use crate::rpc::call::{Call, RpcResult};

/// The receivers' calls on the wire.
#[derive(Clone, Debug)]
pub struct ReceiveRpc(Receiving);

impl ReceiveRpc {
    /// The calls over a node's streams.
    #[must_use]
    pub const fn new(receiving: Receiving) -> Self {
        Self(receiving)
    }

    pub(crate) async fn receive(&self, request: Request<wire::ReceiveRequest>) -> RpcResult<ReceiveStream> {
        let (liveness, slot) =
            (liveness_of(&request), request.extensions().get::<Arc<ResponseSlot>>().cloned());
        let (call, request) = Call::open(request);
        let start = convert::stream_request(request, call.principal)?;
        let stream = self.0.receive(start, call.principal, liveness).await?;
        Ok(Response::new(match slot {
            Some(slot) => slot.fill_from(stream),
            None => stream,
        }))
    }

    pub(crate) async fn send_signal(
        &self,
        request: Request<wire::SendSignalRequest>,
    ) -> RpcResult<wire::SendSignalResponse> {
        let (call, request) = Call::open(request);
        self.0.send_signal(convert::activity(&request, call.principal)?).await?;
        Ok(Response::new(wire::SendSignalResponse {}))
    }
}

/// Whether the client answers: as the socket says it, or the connection.
fn liveness_of<T>(request: &Request<T>) -> Arc<ReceiverLiveness> {
    let extensions = request.extensions();
    let of_socket = extensions.get::<Arc<ReceiverLiveness>>().cloned();
    of_socket.unwrap_or_else(|| {
        let signs = extensions.get::<Arc<ConnectionSigns>>().cloned();
        Arc::new(signs.map_or_else(ReceiverLiveness::without_signs, ReceiverLiveness::of_connection))
    })
}
