//! gRPC-Web, JSON and sockets over HTTP/1.1.

use std::{future::pending, io, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tonic::{Code, Status};
use tonic_types::pb;

use crate::{
    contract,
    grpc::{framed, trailers, unframed},
    run::{Reply, Run, Try},
    socket,
};

/// The flag of the frame that has the trailers of gRPC-Web.
const TRAILERS: u8 = 0x80;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Serves one connection until it ends.
pub(crate) async fn serve(stream: TcpStream, run: Arc<Run>) {
    let answers = service_fn(move |request| answer(request, Arc::clone(&run)));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answers);
    // An error means that the client has gone, or that a case closed the connection.
    drop(connection.with_upgrades().await);
}

/// A body of these bytes.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Allows pages of every origin to read the answer.
pub(crate) fn with_cors(mut response: Response<Body>, asked: Option<HeaderValue>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
    headers.insert("access-control-expose-headers", HeaderValue::from_static("*"));
    if let Some(asked) = asked {
        headers.insert("access-control-allow-headers", asked);
    }
    response
}

/// An error closes the connection: that is how an answer gets lost.
async fn answer(request: Request<Incoming>, run: Arc<Run>) -> io::Result<Response<Body>> {
    if request.method() == Method::OPTIONS {
        let asked = request.headers().get("access-control-request-headers").cloned();
        return Ok(with_cors(Response::new(whole("")), asked));
    }
    if request.uri().path() == "/ws" {
        return open_socket(request, run);
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind.starts_with("application/json");
    let body = if is_json { body } else { unframed(&body).map_err(io::Error::other)? };
    let method = head.uri.path().trim_start_matches('/').to_owned();
    let reply = run.answer(Try { method: &method, metadata: &head.headers, body: &body, is_json }).await;
    let Some(slot) = reply.index.and_then(|index| run.slot(index)) else {
        return Ok(with_cors(web(reply, is_json, None), None));
    };
    if slot.entry.never {
        pending::<()>().await;
    }
    if slot.entry.lost.is_some() || slot.entry.refused {
        return Err(io::Error::other("the case closes the connection"));
    }
    let (goaway, open) = (slot.entry.goaway, slot.entry.open);
    let mut response =
        if is_json { web_json(&reply, slot.method.as_ref()) } else { web(reply, false, Some(open)) };
    if goaway {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(with_cors(response, None))
}

/// The answer in the form of gRPC-Web.
fn web(reply: Reply, is_json: bool, stays_open: Option<bool>) -> Response<Body> {
    if is_json {
        return web_json(&reply, None);
    }
    let mut text = String::new();
    for (name, value) in &trailers(&reply.status) {
        text.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let mut frames: Vec<_> = reply.messages.iter().map(|message| framed(0, message)).collect();
    let is_open = stays_open == Some(true);
    if !is_open {
        frames.push(framed(TRAILERS, text.as_bytes()));
    }
    let (sender, receiver) = mpsc::channel(frames.len().max(1));
    for frame in frames {
        drop(sender.try_send(Ok(Frame::data(frame))));
    }
    if is_open {
        tokio::spawn(async move { sender.closed().await });
    }
    let mut response = Response::new(StreamBody::new(ReceiverStream::new(receiver)).boxed_unsync());
    *response.headers_mut() = reply.headers;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc-web+proto"));
    response
}

/// The answer in JSON, in the form of Connect.
fn web_json(reply: &Reply, method: Option<&prost_reflect::MethodDescriptor>) -> Response<Body> {
    let message = method
        .zip(reply.messages.first())
        .map(|(method, bytes)| contract::from_bytes(method.output(), bytes));
    let (code, text) = match message {
        Some(Ok(message)) if reply.status.code() == Code::Ok => (StatusCode::OK, contract::to_json(&message)),
        _ => (http_status(reply.status.code()), failure(&reply.status).to_string()),
    };
    let mut response = Response::new(whole(text));
    *response.status_mut() = code;
    response.headers_mut().extend(reply.headers.clone());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn failure(status: &Status) -> Value {
    let details = pb::Status::decode(status.details()).unwrap_or_default().details;
    let detail = |any: &prost_types::Any| {
        let name = any.type_url.rsplit('/').next().unwrap_or_default();
        json!({"type": name, "value": STANDARD_NO_PAD.encode(&any.value)})
    };
    let details: Vec<_> = details.iter().map(detail).collect();
    let code =
        format!("{:?}", status.code()).chars().enumerate().fold(String::new(), |mut code, (at, letter)| {
            if letter.is_uppercase() && at > 0 {
                code.push('_');
            }
            code.push(letter.to_ascii_lowercase());
            code
        });
    json!({"code": code, "message": status.message(), "details": details})
}

const fn http_status(code: Code) -> StatusCode {
    match code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Internal | Code::Unknown | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

fn open_socket(request: Request<Incoming>, run: Arc<Run>) -> io::Result<Response<Body>> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
    let (Some(key), Some(index)) = (key, run.take_socket()) else {
        return Err(io::Error::other("no socket is expected"));
    };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            socket::play(upgraded, &run, index).await;
        }
    });
    let mut response = Response::new(whole(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let upgrade = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    response.headers_mut().extend(HeaderMap::from_iter(upgrade));
    Ok(response)
}
