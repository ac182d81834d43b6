//! A bare tonic server: what a call costs before Kith does anything.

use std::{convert::Infallible, net::SocketAddr};

use anyhow::Result;
use kith_proto::user::v1::GetUserResponse;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Context, Poll, Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::Server,
};
use tonic_prost::ProstCodec;

/// The only method that it has.
pub const PATH: &str = "/kith.lab.v1.EchoService/Echo";

/// Answers every call with the message it was sent. Runs until the process is ended.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(listen: SocketAddr) -> Result<()> {
    Ok(Server::builder().add_service(Echo).serve(listen).await?)
}

/// Shaped as tonic generates it.
#[derive(Clone, Copy, Debug)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "kith.lab.v1.EchoService";
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            match request.uri().path() {
                PATH => Ok(Grpc::new(ProstCodec::default()).unary(Answer, request).await),
                _ => Ok(Status::unimplemented("").into_http()),
            }
        })
    }
}

struct Answer;

impl UnaryService<GetUserResponse> for Answer {
    type Response = GetUserResponse;
    type Future = BoxFuture<Response<GetUserResponse>, Status>;

    fn call(&mut self, request: Request<GetUserResponse>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}
