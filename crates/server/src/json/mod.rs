//! Calls as JSON over HTTP: the unary form of the Connect protocol.
//!
//! `POST /kith.user.v1.UserService/GetUser` with `content-type: application/json`. A call is transcoded once,
//! through the descriptors of the contract, and handed to the edge as gRPC: deadline, bounds, acting user,
//! metrics and traces are those of every call, and so are its errors.

mod admit;
mod answer;
mod catalogue;
mod fault;
mod inexpressible;
mod mask;
mod read;
mod request;
mod tracked;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};

use self::admit::{Refusal, admit};
pub(crate) use self::answer::failure_text;
pub use self::read::message;
use crate::{config::LimitsConfig, edge::Edge};

/// What a body may have, by the kind of its method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    message: usize,
    batch: usize,
}

impl BodyLimits {
    /// The same bounds as those of gRPC messages, on the text.
    pub(crate) const fn of(limits: &LimitsConfig) -> Self {
        Self { message: limits.message_bytes, batch: limits.batch_message_bytes }
    }
}

/// Answers one request that is neither gRPC nor gRPC-Web: a call as JSON, or the reason why it is none.
pub(crate) async fn answer<B>(edge: &Edge, limits: BodyLimits, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    match admit(&request) {
        Ok(rpc) => match request::translate(rpc, limits, request) {
            Ok(request) => {
                let response = edge.handle(request).await.unwrap_or_else(|never| match never {});
                answer::of(rpc, response).await
            }
            Err(status) => answer::failure(&status),
        },
        Err(refusal) => refuse(request, refusal),
    }
}

/// A message, of this full name in the contract, as JSON; `None` if it has no such form.
pub(crate) fn value(name: &str, message: &impl prost::Message) -> Option<serde_json::Value> {
    let descriptor = catalogue::message(name)?;
    let message =
        prost_reflect::DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).ok()?;
    serde_json::to_value(&message).ok()
}

/// Reads one record of a file, the message of this full name, from a line of JSON, as a call is read.
///
/// # Errors
/// Why it cannot be read, in words that follow the number of the line. Never a value.
pub fn record<M: prost::Message + Default>(name: &str, line: &[u8]) -> Result<M, String> {
    read::record(name, line)
}

fn refuse<B>(request: Request<B>, refusal: Refusal) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    request::let_go(request);
    let mut response = answer::failure(&refusal.status);
    *response.status_mut() = refusal.http;
    response.headers_mut().extend(refusal.header);
    response
}
