//! Calls as JSON over HTTP: the unary form of the Connect protocol.
//!
//! `POST /kith.user.v1.UserService/GetUser` with `content-type: application/json`. A call is transcoded once,
//! through the contract's descriptors, and handed to the edge as gRPC. Deadline, bounds, acting user,
//! metrics, traces and errors work as for every call.

mod answer;
mod catalogue;
mod decode;
mod error;
mod inexpressible;
mod mask;
mod path_deserializer;
mod request;
mod request_head;
mod unread_body;

use axum::body::Body;
use http::{Request, Response};
use kith_service::error::Error;
use tonic::{Code, Status};

pub(crate) use self::answer::{code_names, failure, failure_text};
pub use self::decode::message;
use self::{
    catalogue::Rpc,
    request_head::{RejectedRequest, admit},
    unread_body::{DRAIN_BYTES, DRAIN_UNAUTH_BYTES, UnreadBody},
};
use crate::{
    config::LimitsConfig,
    edge::{Edge, EdgeBody, RequestBody},
};

/// The size limits for a body, by the kind of method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    message: usize,
    batch: usize,
}

impl BodyLimits {
    /// The bounds for gRPC messages, applied to the text.
    pub(crate) const fn of(limits: &LimitsConfig) -> Self {
        Self { message: limits.message_bytes, batch: limits.batch_message_bytes }
    }
}

/// Answers one request that is neither gRPC nor gRPC-Web: a call as JSON, or the reason for which it is not a
/// call.
pub(crate) async fn answer<B: RequestBody>(
    edge: &Edge,
    limits: BodyLimits,
    request: Request<B>,
) -> Response<Body> {
    match admit(&request) {
        Ok(rpc) => call(edge, limits, rpc, request).await,
        Err(refusal) => refuse_request(request, refusal),
    }
}

async fn call<B: RequestBody>(
    edge: &Edge,
    limits: BodyLimits,
    rpc: &'static Rpc,
    request: Request<B>,
) -> Response<Body> {
    let unread = UnreadBody::default();
    match request::translate(rpc, limits, request, &unread) {
        Ok(request) => {
            let response = edge.handle(request).await.unwrap_or_else(|never| match never {});
            unread.drain(if is_unauthenticated(&response) { DRAIN_UNAUTH_BYTES } else { DRAIN_BYTES });
            answer::of(rpc, response).await
        }
        Err(status) => {
            unread.drain(DRAIN_BYTES);
            answer::failure(&status)
        }
    }
}

/// Whether the edge refused the caller, not the call.
fn is_unauthenticated(response: &Response<EdgeBody>) -> bool {
    let code = response.headers().get(Status::GRPC_STATUS);
    code.is_some_and(|code| Code::from_bytes(code.as_bytes()) == Code::Unauthenticated)
}

/// A message as JSON, by its full name in the contract. `None` if it has no such form.
pub(crate) fn value(name: &str, message: &impl prost::Message) -> Option<serde_json::Value> {
    let descriptor = catalogue::message(name)?;
    let message =
        prost_reflect::DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).ok()?;
    serde_json::to_value(&message).ok()
}

/// Reads a call's body: the message with this full name.
///
/// # Errors
/// Returns the errors of [`message`].
pub(crate) fn body<M: prost::Message + Default>(name: &str, text: &str) -> Result<M, Box<Status>> {
    let fault = || Box::new(Status::from(Error::internal()));
    let input = catalogue::message(name).ok_or_else(fault)?;
    decode::message(&input, text.as_bytes())?.transcode_to().map_err(|_| fault())
}

/// Reads one record from a line of JSON in a file, as a call is read. `name` is the message's full name.
///
/// # Errors
/// Says why it cannot be decoded, as a text that follows the line number. Never contains a value.
pub fn record<M: prost::Message + Default>(name: &str, line: &[u8]) -> Result<M, String> {
    decode::record(name, line)
}

/// Answers a request from a page or program that may not call, without looking at its body.
pub(crate) fn refuse<B: RequestBody>(request: Request<B>, status: &Status) -> Response<Body> {
    request::drain_refused(request, DRAIN_UNAUTH_BYTES);
    answer::failure(status)
}

fn refuse_request<B: RequestBody>(request: Request<B>, refusal: RejectedRequest) -> Response<Body> {
    request::drain_refused(request, DRAIN_BYTES);
    let mut response = answer::failure(&refusal.status);
    *response.status_mut() = refusal.http;
    response.headers_mut().extend(refusal.header);
    response
}
