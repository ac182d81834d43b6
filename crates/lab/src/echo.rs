//! A bare tonic server: what a call costs before Kith does anything.

use std::{convert::Infallible, marker::PhantomData, net::SocketAddr};

use anyhow::Result;
use kith_proto::{
    relation::v1::{BatchGetRelationsResponse, CheckPermissionResponse},
    user::v1::GetUserResponse,
};
use prost::Message;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Context, Poll, Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::Server,
};
use tonic_prost::ProstCodec;

/// Echoes a user.
pub const PATH: &str = "/kith.lab.v1.EchoService/Echo";
/// Echoes whether something is permitted.
pub(crate) const PERMISSION: &str = "/kith.lab.v1.EchoService/EchoPermission";
/// Echoes relations.
pub(crate) const RELATIONS: &str = "/kith.lab.v1.EchoService/EchoRelations";

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
                PATH => Ok(echo::<GetUserResponse>(request).await),
                PERMISSION => Ok(echo::<CheckPermissionResponse>(request).await),
                RELATIONS => Ok(echo::<BatchGetRelationsResponse>(request).await),
                _ => Ok(Status::unimplemented("").into_http()),
            }
        })
    }
}

async fn echo<M: Message + Default + 'static>(request: http::Request<Body>) -> http::Response<Body> {
    Grpc::new(ProstCodec::<M, M>::default()).unary(Answer(PhantomData), request).await
}

struct Answer<M>(PhantomData<M>);

impl<M: Message + Default + 'static> UnaryService<M> for Answer<M> {
    type Response = M;
    type Future = BoxFuture<Response<M>, Status>;

    fn call(&mut self, request: Request<M>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}
