//! Turns an HTTP/1.1 request into a socket.

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use kith_service::error::{Error, Reason};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::json;

const VERSION: &str = "13";
/// How many bytes a peer's key has.
const KEY: usize = 16;

/// The reason why a request opens no socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeError {
    /// The method is not GET.
    Method,
    /// The request asks for no socket, or does not use HTTP/1.1.
    NotAsked,
    /// It asks for another protocol version.
    Version,
    /// The request has no valid key.
    Key,
    /// The limit on open sockets is reached.
    Full,
    /// The limit on sockets that wait for their hello is reached.
    Crowded,
}

/// Checks what a request asks for, and returns its peer's key.
pub(super) fn key<B>(request: &Request<B>) -> Result<HeaderValue, HandshakeError> {
    let headers = request.headers();
    if request.method() != Method::GET {
        return Err(HandshakeError::Method);
    }
    if request.version() != Version::HTTP_11
        || !names(headers, &header::CONNECTION, "upgrade")
        || !names(headers, &header::UPGRADE, "websocket")
    {
        return Err(HandshakeError::NotAsked);
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
        return Err(HandshakeError::Version);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or(HandshakeError::Key)?;
    match STANDARD.decode(key) {
        Ok(bytes) if bytes.len() == KEY => Ok(key.clone()),
        Ok(_) | Err(_) => Err(HandshakeError::Key),
    }
}

/// Whether a list of names has this name.
fn names(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(wanted))
}

/// The answer after which the connection is a socket.
pub(super) fn switched(key: &HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

impl HandshakeError {
    const fn answer(self) -> (StatusCode, Reason, &'static str) {
        match self {
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, Reason::MethodUnknown, "a socket is opened by GET")
            }
            Self::NotAsked => (
                StatusCode::UPGRADE_REQUIRED,
                Reason::MethodUnknown,
                "this is the address of WebSockets: ask for one over HTTP/1.1 (connection: upgrade, upgrade: websocket)",
            ),
            Self::Version => {
                (StatusCode::UPGRADE_REQUIRED, Reason::InvalidMetadata, "sec-websocket-version must be 13")
            }
            Self::Key => (
                StatusCode::BAD_REQUEST,
                Reason::InvalidMetadata,
                "sec-websocket-key must be 16 bytes in base64",
            ),
            Self::Full => (
                StatusCode::SERVICE_UNAVAILABLE,
                Reason::Overloaded,
                "as many sockets are open as ws.sockets allows",
            ),
            Self::Crowded => (
                StatusCode::SERVICE_UNAVAILABLE,
                Reason::Overloaded,
                "as many sockets wait for their hello as may",
            ),
        }
    }

    /// The answer that says why.
    pub(super) fn response(self) -> Response<Body> {
        let (http, reason, text) = self.answer();
        let mut response = Response::new(Body::from(json::failure_text(&Error::new(reason, text).into())));
        *response.status_mut() = http;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            Self::Method => headers.insert(header::ALLOW, HeaderValue::from_static("GET")),
            Self::NotAsked => headers.insert(header::UPGRADE, HeaderValue::from_static("websocket")),
            Self::Version => headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION)),
            Self::Key | Self::Full | Self::Crowded => None,
        };
        response
    }
}
