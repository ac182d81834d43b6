//! Decides whether a request is a call as JSON, and the answer if it is not.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Version, header};
use kith_service::error::{Error, Reason};
use tonic::Status;

use super::catalogue::{self, Rpc};
use crate::edge;

/// The accepted content types, for the error.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/json, application/grpc-web, application/grpc-web-text");
const PROTOCOL_VERSION: &str = "connect-protocol-version";

/// Why a request is not a call. The HTTP code does not always match the status.
pub(super) struct RejectedRequest {
    pub(super) http: StatusCode,
    pub(super) status: Status,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
}

impl RejectedRequest {
    fn new(http: StatusCode, reason: Reason, text: impl Into<Cow<'static, str>>) -> Self {
        Self { http, status: Error::new(reason, text).into(), header: None }
    }

    fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }
}

/// The called method. The body is not read yet.
pub(super) fn admit<B>(request: &Request<B>) -> Result<&'static Rpc, RejectedRequest> {
    let rpc = catalogue::rpc(request.uri().path()).ok_or_else(unknown_path)?;
    if request.method() != Method::POST {
        return Err(wrong_method());
    }
    let headers = request.headers();
    if !is_json(headers.get(header::CONTENT_TYPE)) {
        return Err(wrong_type(request));
    }
    if rpc.streams {
        return Err(streams(rpc));
    }
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(compressed());
    }
    if headers.get(PROTOCOL_VERSION).is_some_and(|version| version != "1") {
        let status = edge::invalid_metadata(PROTOCOL_VERSION, "must be 1");
        return Err(RejectedRequest { http: StatusCode::BAD_REQUEST, status, header: None });
    }
    Ok(rpc)
}

/// `application/json`, optionally with the charset UTF-8.
fn is_json(value: Option<&HeaderValue>) -> bool {
    let Some(Ok(text)) = value.map(HeaderValue::to_str) else { return false };
    let mut parts = text.split(';').map(str::trim);
    parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
        && parts.all(|part| {
            let part = part.to_ascii_lowercase();
            !part.starts_with("charset=") || matches!(part.as_str(), "charset=utf-8" | "charset=\"utf-8\"")
        })
}

fn unknown_path() -> RejectedRequest {
    let text = "no such method; a call is POST /kith.user.v1.UserService/GetUser, for example, with \
                content-type application/json and the message as its body";
    RejectedRequest::new(StatusCode::NOT_FOUND, Reason::MethodUnknown, text)
}

fn wrong_method() -> RejectedRequest {
    RejectedRequest::new(StatusCode::METHOD_NOT_ALLOWED, Reason::NotPosted, "calls are made by POST")
        .with(header::ALLOW, HeaderValue::from_static("POST"))
}

fn wrong_type<B>(request: &Request<B>) -> RejectedRequest {
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let text = match kind {
        Some(b"application/grpc" | b"application/grpc+proto") if request.version() < Version::HTTP_2 => {
            "gRPC needs HTTP/2; over HTTP/1.1 send application/json or application/grpc-web"
        }
        // curl's default is the content type of a form, which pages from other origins may send without a
        // preflight.
        _ => "content-type must be application/json, in UTF-8 (curl: -H 'content-type: application/json')",
    };
    RejectedRequest::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::MediaTypeUnknown, text)
        .with(HeaderName::from_static("accept-post"), ACCEPTED)
}

fn streams(rpc: &Rpc) -> RejectedRequest {
    let text = format!("{} streams and has no JSON form; call it by gRPC or gRPC-Web", rpc.name);
    RejectedRequest::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::MediaTypeUnknown, text)
}

fn compressed() -> RejectedRequest {
    let text = "content-encoding must be identity: compressed JSON is not taken";
    RejectedRequest::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::MediaTypeUnknown, text)
        .with(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_utf8_is_json() {
        let says = |text: &'static str| is_json(Some(&HeaderValue::from_static(text)));
        assert!(says("application/json") && says("Application/JSON; charset=UTF-8"));
        assert!(says("application/json;charset=\"utf-8\"") && says("application/json; boundary=x"));
        assert!(
            !says("application/json; charset=latin1") && !says("text/plain") && !says("application/jsonx")
        );
        assert!(!is_json(None));
    }
}
