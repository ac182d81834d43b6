//! Streams to nodes and to bare servers.

use std::time::Duration;

use anyhow::Result;
use kith_proto::message::v1::{
    ReceiveRequest, ReceiveResponse, message_service_client::MessageServiceClient,
};
use tokio::time::{Instant, sleep};
use tonic::{Request, Status, Streaming, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

use crate::{echo, served::ServerProcess};

/// Streams on one connection; a node allows 200 calls.
const STREAMS: usize = 150;
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens enough connections to one server for `streams` streams.
pub(super) async fn connections(server: &ServerProcess, streams: i64) -> Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for _ in 0..usize::try_from(streams)?.div_ceil(STREAMS) {
        channels.push(server.connect().await?);
    }
    Ok(channels)
}

/// Waits until `check` succeeds, and looks again after each `pause`. Returns its last error if it does not
/// within 60 s; ends at once with an error of `ensure_well`.
pub(super) async fn until(
    pause: Duration,
    ensure_well: impl Fn() -> Result<()>,
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        ensure_well()?;
        match check() {
            Err(_) if Instant::now() < until => sleep(pause).await,
            done => return done,
        }
    }
}

/// The connection that a user uses.
pub(super) fn of_user(channels: &[Channel], user: i64) -> Channel {
    channels[usize::try_from(user).unwrap_or_default() % channels.len()].clone()
}

/// Opens a stream to a node.
pub(super) async fn receive(
    channel: Channel,
    request: ReceiveRequest,
) -> Result<Streaming<ReceiveResponse>, Status> {
    Ok(MessageServiceClient::new(channel).receive(request).await?.into_inner())
}

/// Opens a stream to a bare server.
pub(super) async fn receive_bare(channel: Channel) -> Result<Streaming<ReceiveResponse>> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let codec = ProstCodec::<ReceiveRequest, ReceiveResponse>::default();
    let path = PathAndQuery::from_static(echo::RECEIVE);
    Ok(grpc.server_streaming(Request::new(ReceiveRequest::default()), path, codec).await?.into_inner())
}

/// Has a bare server send this to all its streams.
pub(super) async fn deliver_bare(channel: Channel, response: ReceiveResponse) -> Result<()> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let codec = ProstCodec::<ReceiveResponse, ReceiveResponse>::default();
    grpc.unary(Request::new(response), PathAndQuery::from_static(echo::DELIVER), codec).await?;
    Ok(())
}
