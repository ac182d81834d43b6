//! What a connection hands its requests to: gRPC straight to the edge, all else to where it is translated.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version, header};
use http_body::{Frame, SizeHint};
use hyper::{body::Incoming, service::Service};
use tonic::codegen::StdError;

use super::web::Web;
use crate::edge::{Edge, EdgeBody, EdgeFuture};

/// Cheap to clone; every connection has one.
#[derive(Clone, Debug)]
pub(super) struct Front {
    edge: Edge,
    web: Arc<Web>,
}

impl Front {
    pub(super) fn new(edge: Edge, web: Web) -> Self {
        Self { edge, web: Arc::new(web) }
    }
}

/// hyper clones the service for every connection and calls it by reference.
impl Service<Request<Incoming>> for Front {
    type Response = Response<FrontBody>;
    type Error = Infallible;
    type Future = FrontFuture;

    fn call(&self, request: Request<Incoming>) -> FrontFuture {
        if request.version() == Version::HTTP_2 && is_grpc(request.headers()) {
            return FrontFuture::Grpc(self.edge.handle(request));
        }
        let web = Arc::clone(&self.web);
        FrontFuture::Web(Box::pin(async move { web.answer(request).await }))
    }
}

/// `application/grpc`, alone or with a codec or parameters; not that of gRPC-Web.
fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    match value.as_bytes().strip_prefix(b"application/grpc") {
        Some(rest) => matches!(rest.first(), None | Some(b'+' | b';')),
        None => false,
    }
}

/// The answer of either.
pub(super) enum FrontFuture {
    Grpc(EdgeFuture<Incoming>),
    Web(Pin<Box<dyn Future<Output = Response<axum::body::Body>> + Send>>),
}

impl Future for FrontFuture {
    type Output = Result<Response<FrontBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Grpc(call) => {
                Pin::new(call).poll(cx).map(|answer| answer.map(|answer| answer.map(FrontBody::Grpc)))
            }
            Self::Web(answer) => answer.as_mut().poll(cx).map(|answer| Ok(answer.map(FrontBody::Web))),
        }
    }
}

/// The body of either.
pub(super) enum FrontBody {
    Grpc(EdgeBody),
    Web(axum::body::Body),
}

impl http_body::Body for FrontBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        match self.get_mut() {
            Self::Grpc(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Web(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Grpc(body) => body.is_end_stream(),
            Self::Web(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Grpc(body) => body.size_hint(),
            Self::Web(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for FrontBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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
