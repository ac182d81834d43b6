//! Messages of the contract as lines of JSON, and lists of the contract that are read whole.

use http::uri::PathAndQuery;
use kith_proto::{ExactCodec, ListRequest};
use kith_server::descriptors;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::ser::Error as _;
use std::{sync::LazyLock, time::Duration};
use tokio::time::sleep;
use tonic::{Code, Status, client::Grpc};

use super::{client::Channel, kind::with_long_deadline};

/// The most records on a page.
pub(super) const PAGE: i32 = 1_000;
/// The most attempts of a call, and the pause between two.
pub(super) const TRIES: u32 = 10;
pub(super) const WAIT: Duration = Duration::from_millis(500);

static POOL: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| descriptors::pool().ok());

/// Formats a message with this full name as a line, without the newline.
pub(super) fn line(name: &str, message: &impl Message) -> serde_json::Result<String> {
    let descriptor = POOL.as_ref().and_then(|pool| pool.get_message_by_name(name));
    let descriptor = descriptor.ok_or_else(|| serde_json::Error::custom("the contract cannot be read"))?;
    let mut line = DynamicMessage::new(descriptor);
    line.transcode_from(message).map_err(serde_json::Error::custom)?;
    serde_json::to_string(&line)
}

/// Reads a whole list, page by page.
pub(super) async fn list<R: ListRequest>(channel: &Channel, mut request: R) -> Result<Vec<R::Item>, Status> {
    let mut all = Vec::new();
    loop {
        let answer = again(|| answer(channel.clone(), request.clone())).await?;
        let (items, more) = request.advance(answer);
        all.extend(items);
        if !more {
            return Ok(all);
        }
    }
}

async fn answer<R: ListRequest>(channel: Channel, request: R) -> Result<R::Response, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|_| Status::unavailable("the node does not answer"))?;
    let path = PathAndQuery::from_static(R::PATH);
    Ok(grpc.unary(with_long_deadline(request), path, ExactCodec::default()).await?.into_inner())
}

/// Makes a call again while the node is not available, a limited number of times.
pub(super) async fn again<T, F: Future<Output = Result<T, Status>>>(
    call: impl Fn() -> F,
) -> Result<T, Status> {
    let mut tries = 1;
    loop {
        match call().await {
            Err(status) if is_passing(status.code()) && tries < TRIES => {
                tries += 1;
                sleep(WAIT).await;
            }
            ended => return ended,
        }
    }
}

const fn is_passing(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)
}
