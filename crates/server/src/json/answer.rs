//! The edge's answer in the form of the Connect protocol.

use std::{future::poll_fn, pin::Pin};

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::Body as _;
use kith_service::error::{Error, Reason};
use prost::Message as _;
use prost_reflect::DynamicMessage;
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::{StatusExt as _, pb};

use super::{
    catalogue::{self, Rpc},
    inexpressible,
};
use crate::edge::{CONTRACT, EdgeBody, SESSION};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Flag and length before a message.
const PREFIX: usize = 5;

/// Reasons for a request or an answer that is too large.
const TOO_LARGE: [&str; 2] = [Reason::MessageTooLarge.name(), Reason::AnswerTooLarge.name()];

/// Name and HTTP code for every gRPC code, by its number.
const CODES: [(&str, StatusCode); 17] = [
    ("ok", StatusCode::OK),
    ("canceled", CLIENT_CLOSED),
    ("unknown", StatusCode::INTERNAL_SERVER_ERROR),
    ("invalid_argument", StatusCode::BAD_REQUEST),
    ("deadline_exceeded", StatusCode::GATEWAY_TIMEOUT),
    ("not_found", StatusCode::NOT_FOUND),
    ("already_exists", StatusCode::CONFLICT),
    ("permission_denied", StatusCode::FORBIDDEN),
    ("resource_exhausted", StatusCode::TOO_MANY_REQUESTS),
    ("failed_precondition", StatusCode::BAD_REQUEST),
    ("aborted", StatusCode::CONFLICT),
    ("out_of_range", StatusCode::BAD_REQUEST),
    ("unimplemented", StatusCode::NOT_IMPLEMENTED),
    ("internal", StatusCode::INTERNAL_SERVER_ERROR),
    ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
    ("data_loss", StatusCode::INTERNAL_SERVER_ERROR),
    ("unauthenticated", StatusCode::UNAUTHORIZED),
];

/// The names of the error codes, by number.
pub(crate) fn code_names() -> Vec<&'static str> {
    CODES.iter().skip(1).map(|(name, _)| *name).collect()
}

/// HTTP code 499, which has no standard name.
const CLIENT_CLOSED: StatusCode = match StatusCode::from_u16(499) {
    Ok(code) => code,
    Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
};

/// The answer to a call that the edge has answered.
pub(super) async fn of(rpc: &Rpc, response: Response<EdgeBody>) -> Response<Body> {
    let (head, body) = response.into_parts();
    // An error without a message has its status among the headers.
    if let Some(status) = Status::from_header_map(&head.headers) {
        return answered(&status, &HeaderMap::new(), &head.headers);
    }
    match collect(body).await {
        Ok((message, trailers)) => match Status::from_header_map(&trailers) {
            Some(status) if status.code() == Code::Ok => success(rpc, &message, &head.headers, &trailers),
            Some(status) => answered(&status, &head.headers, &trailers),
            None => failure(&internal()),
        },
        Err(status) => failure(&status),
    }
}

/// An error without a call.
pub(crate) fn failure(status: &Status) -> Response<Body> {
    let mut response = json(failure_text(status));
    *response.status_mut() = http_status(status);
    if status.code() == Code::Unauthenticated {
        // HTTP requires the authentication scheme.
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = retry_after(status) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// When the same request may be sent again, in seconds: HTTP has no fractions, so it is rounded up. `None`:
/// never.
fn retry_after(status: &Status) -> Option<u64> {
    let wait = status.get_details_retry_info()?.retry_delay?;
    Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

/// An error's JSON form.
pub(crate) fn failure_text(status: &Status) -> Vec<u8> {
    let details = details(status);
    let failure = Failure { code: code(status).0, message: status.message(), details };
    // Names, texts and base64: serialization cannot fail.
    serde_json::to_vec(&failure).unwrap_or_else(|_| br#"{"code":"internal"}"#.to_vec())
}

fn answered(status: &Status, headers: &HeaderMap, trailers: &HeaderMap) -> Response<Body> {
    let mut response = failure(status);
    add_metadata(response.headers_mut(), headers, trailers);
    response
}

fn success(rpc: &Rpc, framed: &[u8], headers: &HeaderMap, trailers: &HeaderMap) -> Response<Body> {
    let decoded =
        framed.get(PREFIX..).and_then(|bytes| DynamicMessage::decode(rpc.output.clone(), bytes).ok());
    let Some(message) = decoded else { return failure(&internal()) };
    let Ok(text) = serde_json::to_vec(&message) else { return failure(&without_json(&message)) };
    let mut response = json(text);
    add_metadata(response.headers_mut(), headers, trailers);
    response
}

/// Ends with a line feed, for terminals.
fn json(mut text: Vec<u8>) -> Response<Body> {
    text.push(b'\n');
    // Unread data is counted by its length, and held by its capacity.
    text.shrink_to_fit();
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn internal() -> Status {
    Error::new(Reason::Internal, "something went wrong within Kith").into()
}

/// This is Kith's fault too, but callers can avoid it: the record is named, and gRPC can express the answer.
fn without_json(message: &DynamicMessage) -> Status {
    let place = inexpressible::describe(message).unwrap_or_else(|| "a field".to_owned());
    Error::new(Reason::Internal, format!("the answer has no JSON form: {place}")).into()
}

/// Collects a unary answer's one message, with its prefix, and the trailers.
async fn collect(mut body: EdgeBody) -> Result<(Bytes, HeaderMap), Status> {
    let (mut message, mut trailers) = (BytesMut::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(mut data) => message.extend_from_slice(&data.copy_to_bytes(data.remaining())),
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    Ok((message.freeze(), trailers))
}

/// Adds the answer's metadata: headers unchanged, and trailers with the prefix `trailer-`.
fn add_metadata(into: &mut HeaderMap, headers: &HeaderMap, trailers: &HeaderMap) {
    for (name, value) in headers.iter().filter(|(name, _)| is_metadata(name)) {
        into.append(name, value.clone());
    }
    for (name, value) in trailers.iter().filter(|(name, _)| is_metadata(name)) {
        // An error of gRPC has its headers among its trailers.
        if *name == CONTRACT || *name == SESSION {
            into.append(name, value.clone());
        } else if let Ok(name) = HeaderName::try_from(format!("trailer-{name}")) {
            into.append(name, value.clone());
        }
    }
}

fn is_metadata(name: &HeaderName) -> bool {
    *name != header::CONTENT_TYPE && *name != header::DATE && !name.as_str().starts_with("grpc-")
}

fn code(status: &Status) -> (&'static str, StatusCode) {
    let index = usize::try_from(i32::from(status.code())).unwrap_or_default();
    CODES.get(index).copied().unwrap_or(CODES[2])
}

/// The HTTP code as Connect defines it, except that 429 invites a retry, which does not help if the message
/// is too large.
fn http_status(status: &Status) -> StatusCode {
    let too_large = status.code() == Code::ResourceExhausted
        && status.get_details_error_info().is_some_and(|info| TOO_LARGE.contains(&&*info.reason));
    if too_large { StatusCode::PAYLOAD_TOO_LARGE } else { code(status).1 }
}

/// An error in Connect's form.
#[derive(Serialize)]
struct Failure<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<ErrorDetail>,
}

#[derive(Serialize)]
struct ErrorDetail {
    r#type: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<DynamicMessage>,
}

fn details(status: &Status) -> Vec<ErrorDetail> {
    let Ok(decoded) = pb::Status::decode(status.details()) else { return Vec::new() };
    decoded
        .details
        .into_iter()
        .map(|any| {
            let name = any.type_url.rsplit('/').next().unwrap_or_default().to_owned();
            let debug = catalogue::message(&name)
                .and_then(|descriptor| DynamicMessage::decode(descriptor, any.value.as_slice()).ok());
            ErrorDetail { r#type: name, value: STANDARD_NO_PAD.encode(&any.value), debug }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use kith_proto::member::v1::{ListMembersResponse, Member};
    use prost_types::Timestamp;

    use super::*;

    #[tokio::test]
    async fn answer_without_json_form_names_its_record() {
        let mute_time = Some(Timestamp { seconds: 253_402_300_800, nanos: 0 });
        let member = Member { group_id: 9, user_id: 2, mute_time, ..Member::default() };
        let answer = ListMembersResponse { members: vec![member], ..ListMembersResponse::default() };
        let framed = [vec![0; PREFIX], answer.encode_to_vec()].concat();
        let rpc = catalogue::rpc("/kith.member.v1.MemberService/ListMembers").unwrap();
        let response = success(rpc, &framed, &HeaderMap::new(), &HeaderMap::new());
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("members[0].mute_time (group_id 9, user_id 2)"), "{body}");
    }

    #[test]
    fn answer_that_may_be_repeated_says_when() {
        let after = |reason| failure(&Error::new(reason, "no").into()).headers().get("retry-after").cloned();
        assert_eq!(after(Reason::Overloaded).unwrap(), "1", "0.2 s, rounded up");
        assert_eq!(after(Reason::StoreFull).unwrap(), "60");
        assert_eq!(after(Reason::StoreUnavailable).unwrap(), "1");
        assert_eq!(after(Reason::NotFound), None);
    }

    #[test]
    fn the_codes_are_named_by_their_number() {
        assert_eq!(CODES[Code::Unauthenticated as usize].0, "unauthenticated");
        assert_eq!(CODES[Code::Cancelled as usize].1.as_u16(), 499);
        assert_eq!(CODES[Code::Unimplemented as usize].1, StatusCode::NOT_IMPLEMENTED);
    }

    #[test]
    fn trailers_become_headers_of_the_answer() {
        let mut trailers = HeaderMap::new();
        trailers.insert("kith-tier", HeaderValue::from_static("memory"));
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let mut headers = HeaderMap::new();
        add_metadata(&mut headers, &HeaderMap::new(), &trailers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers["trailer-kith-tier"], "memory");
    }
}
