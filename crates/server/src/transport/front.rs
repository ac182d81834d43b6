//! Routes a connection's requests: gRPC directly to the edge, others to their translation.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::ready;
use http::{HeaderMap, HeaderValue, Request, Response, Version, header};
use hyper::{body::Incoming, service::Service};
use kith_service::{message::ConnectionSigns, metric};

use super::{
    answer_body::{AnswerBody, ProtocolBody},
    http1_io::{Http1State, OpenAnswer},
    origin::{self, Origins},
    web::Web,
};
use crate::{
    edge::{self, ConnectionUnread, Edge, EdgeFuture},
    json,
    places::RemotePeer,
};

/// The state that a port's connections share.
#[derive(Debug)]
pub(super) struct Front {
    edge: Edge,
    web: Arc<Web>,
    origins: Arc<Origins>,
}

/// One connection's state. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ConnectionFront {
    edge: Edge,
    web: Arc<Web>,
    origins: Arc<Origins>,
    unread: Arc<ConnectionUnread>,
    /// `None`: it speaks HTTP/2.
    http1: Option<Arc<Http1State>>,
}

impl Front {
    pub(super) fn new(edge: Edge, web: Web, origins: Origins) -> Self {
        Self { edge, web: Arc::new(web), origins: Arc::new(origins) }
    }

    /// Creates the state for a new connection. `signs` says when an HTTP/2 peer is heard.
    pub(super) fn of_connection(
        &self,
        peer: Arc<RemotePeer>,
        signs: Option<Arc<ConnectionSigns>>,
    ) -> ConnectionFront {
        let (edge, unread) = self.edge.of_connection(peer, signs);
        let (web, origins) = (Arc::clone(&self.web), Arc::clone(&self.origins));
        ConnectionFront { edge, web, origins, unread, http1: None }
    }
}

impl ConnectionFront {
    /// Answers that the peer has not read.
    pub(super) fn unread(&self) -> Arc<ConnectionUnread> {
        Arc::clone(&self.unread)
    }

    /// Prepares the front for an HTTP/1.1 connection.
    pub(super) fn with_http1(self, state: Arc<Http1State>) -> Self {
        Self { http1: Some(state), ..self }
    }

    fn begin(&self, request: Request<Incoming>) -> PendingAnswer {
        let is_grpc = request.version() == Version::HTTP_2 && is_grpc(request.headers());
        // The origin is checked before protocols are separated: a page may send any protocol.
        if !self.origins.allow(request.headers()) {
            return refuse(request, is_grpc);
        }
        if is_grpc {
            return PendingAnswer::Grpc(self.edge.handle(request));
        }
        let (web, edge) = (Arc::clone(&self.web), self.edge.clone());
        PendingAnswer::Web(Box::pin(async move { web.answer(&edge, request).await }))
    }
}

/// hyper clones the service for every connection, and calls it by reference.
impl Service<Request<Incoming>> for ConnectionFront {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = FrontFuture;

    fn call(&self, request: Request<Incoming>) -> FrontFuture {
        let open = self.http1.as_ref().map(Http1State::begin);
        FrontFuture { answer: self.begin(request), unread: self.unread(), open }
    }
}

/// Answers a page that may not call: with a status for gRPC, otherwise with an HTTP code. The answer is
/// marked as dependent on the origin, so that no cache returns it to others.
fn refuse(request: Request<Incoming>, is_grpc: bool) -> PendingAnswer {
    let mut response =
        if is_grpc { origin::refused().into_http() } else { json::refuse(request, &origin::refused()) };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    PendingAnswer::Web(Box::pin(ready(response)))
}

/// `application/grpc`, alone or with a codec or parameters, but not gRPC-Web.
fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    match value.as_bytes().strip_prefix(b"application/grpc") {
        Some(rest) => matches!(rest.first(), None | Some(b'+' | b';')),
        None => false,
    }
}

/// The answer in either form.
pub(super) struct FrontFuture {
    answer: PendingAnswer,
    unread: Arc<ConnectionUnread>,
    /// Present only for an answer over HTTP/1.1.
    open: Option<OpenAnswer>,
}

#[expect(clippy::large_enum_variant, reason = "a box would cost every gRPC call an allocation")]
enum PendingAnswer {
    Grpc(EdgeFuture<Incoming>),
    Web(Pin<Box<dyn Future<Output = Response<axum::body::Body>> + Send>>),
}

impl Future for FrontFuture {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let response = match &mut this.answer {
            PendingAnswer::Grpc(call) => Pin::new(call).poll(cx).map(|response| match response {
                Ok(response) => response.map(ProtocolBody::Grpc),
                Err(never) => match never {},
            }),
            PendingAnswer::Web(web) => web.as_mut().poll(cx).map(|response| response.map(ProtocolBody::Web)),
        };
        response.map(|response| {
            let (mut head, body) = counted(response, &this.unread, cx).into_parts();
            let mut open = this.open.take();
            if let Some(open) = &mut open {
                open.head(head.status, &mut head.headers);
            }
            Ok(Response::from_parts(head, body.with_open(open)))
        })
    }
}

/// The answer with a body that counts unread bytes, or an error if there is no room for it.
fn counted(
    response: Response<ProtocolBody>,
    unread: &Arc<ConnectionUnread>,
    cx: &mut Context<'_>,
) -> Response<AnswerBody> {
    let (head, inner) = response.into_parts();
    let refused = match AnswerBody::new(inner, Arc::clone(unread), cx) {
        Ok(body) => return Response::from_parts(head, body),
        Err(refused) => refused,
    };
    metrics::counter!(metric::ANSWERS_UNREAD_REFUSED.name).increment(1);
    let response: Response<axum::body::Body> = match refused {
        ProtocolBody::Grpc(mut body) => {
            drop(body.cut_unread());
            edge::too_much_unread().into_http()
        }
        ProtocolBody::Web(_) => json::failure(&edge::too_much_unread()),
    };
    response.map(|body| AnswerBody::plain(ProtocolBody::Web(body), Arc::clone(unread)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_known_by_its_content_type() {
        let says = |text: &'static str| {
            is_grpc(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(text))]))
        };
        assert!(says("application/grpc") && says("application/grpc+proto") && says("application/grpc; x=y"));
        assert!(!says("application/grpc-web") && !says("application/grpc-web-text+proto"));
        assert!(!says("application/json") && !is_grpc(&HeaderMap::new()));
    }
}
