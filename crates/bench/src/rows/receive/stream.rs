//! Streams to nodes and to bare servers.

use std::time::Duration;

use anyhow::{Result, ensure};
use kith_proto::message::v1::{
    ReceiveRequest, ReceiveResponse, message_service_client::MessageServiceClient,
};
use tokio::time::{Instant, sleep};
use tonic::{Request, Status, Streaming, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

use crate::echo;

/// Streams of one connection; a node allows 200 calls.
const STREAMS: usize = 150;
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Connections to one server, enough for so many streams.
pub(super) async fn connections(address: &str, streams: i64) -> Result<Vec<Channel>> {
    let (endpoint, until) =
        (Channel::from_shared(format!("http://{address}"))?, Instant::now() + LISTENS_WITHIN);
    let mut channels = Vec::new();
    while channels.len() < usize::try_from(streams)?.div_ceil(STREAMS) {
        match endpoint.connect().await {
            Ok(channel) => channels.push(channel),
            Err(error) => {
                ensure!(Instant::now() < until, "the server does not listen: {error}");
                sleep(PAUSE).await;
            }
        }
    }
    Ok(channels)
}

/// The connection of a user.
pub(super) fn of_user(channels: &[Channel], user: i64) -> Channel {
    channels[usize::try_from(user).unwrap_or_default() % channels.len()].clone()
}

/// Opens a stream of a node.
pub(super) async fn receive(
    channel: Channel,
    request: ReceiveRequest,
) -> Result<Streaming<ReceiveResponse>, Status> {
    Ok(MessageServiceClient::new(channel).receive(request).await?.into_inner())
}

/// Opens a stream of a bare server.
pub(super) async fn receive_bare(channel: Channel) -> Result<Streaming<ReceiveResponse>> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let codec = ProstCodec::<ReceiveRequest, ReceiveResponse>::default();
    let path = PathAndQuery::from_static(echo::RECEIVE);
    Ok(grpc.server_streaming(Request::new(ReceiveRequest::default()), path, codec).await?.into_inner())
}

/// Has a bare server send this to all of its streams.
pub(super) async fn deliver_bare(channel: Channel, response: ReceiveResponse) -> Result<()> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let codec = ProstCodec::<ReceiveResponse, ReceiveResponse>::default();
    grpc.unary(Request::new(response), PathAndQuery::from_static(echo::DELIVER), codec).await?;
    Ok(())
}
