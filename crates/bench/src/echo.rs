//! A bare tonic server: what a call costs before Kith does anything.

use std::{collections::HashMap, convert::Infallible, marker::PhantomData, net::SocketAddr, sync::Arc};

use anyhow::Result;
use kith_proto::{
    message::v1::PullMessagesResponse,
    notice::v1::CountNoticesResponse,
    receipt::v1::GetReceiptResponse,
    relation::v1::{BatchGetRelationsResponse, CheckPermissionResponse},
    user::v1::{GetUserRequest, GetUserResponse},
};
use parking_lot::RwLock;
use prost::Message;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Context, Poll, Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::Server,
};
use tonic_prost::ProstCodec;

/// Echoes a user, and keeps it.
pub(crate) const PUT_USER: &str = "/kith.lab.v1.EchoService/Echo";
/// Answers with the user whose id was echoed.
pub(crate) const GET_USER: &str = "/kith.lab.v1.EchoService/GetUser";
/// Echoes whether something is permitted.
pub(crate) const PERMISSION: &str = "/kith.lab.v1.EchoService/EchoPermission";
/// Echoes relations.
pub(crate) const RELATIONS: &str = "/kith.lab.v1.EchoService/EchoRelations";

/// Echoes a page with messages.
pub(crate) const MESSAGES: &str = "/kith.lab.v1.EchoService/EchoMessages";

/// Echoes how many notices a reader has read.
pub(crate) const NOTICES: &str = "/kith.lab.v1.EchoService/EchoNotices";
/// Echoes a receipt.
pub(crate) const RECEIPT: &str = "/kith.lab.v1.EchoService/EchoReceipt";

/// Answers every call with the message it was sent, or a request for a user with that user. Runs until the
/// process is ended.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(listen: SocketAddr) -> Result<()> {
    Ok(Server::builder().add_service(Echo::default()).serve(listen).await?)
}

/// The service has the shape that tonic generates.
#[derive(Clone, Debug, Default)]
struct Echo(Users);

type Users = Arc<RwLock<HashMap<i64, GetUserResponse, ahash::RandomState>>>;

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
        let users = Arc::clone(&self.0);
        Box::pin(async move {
            match request.uri().path() {
                PUT_USER => Ok(Grpc::new(ProstCodec::default()).unary(PutUser(users), request).await),
                GET_USER => Ok(Grpc::new(ProstCodec::default()).unary(GetUser(users), request).await),
                PERMISSION => Ok(echo::<CheckPermissionResponse>(request).await),
                RELATIONS => Ok(echo::<BatchGetRelationsResponse>(request).await),
                MESSAGES => Ok(echo::<PullMessagesResponse>(request).await),
                NOTICES => Ok(echo::<CountNoticesResponse>(request).await),
                RECEIPT => Ok(echo::<GetReceiptResponse>(request).await),
                _ => Ok(Status::unimplemented("").into_http()),
            }
        })
    }
}

async fn echo<M: Message + Default + 'static>(request: http::Request<Body>) -> http::Response<Body> {
    Grpc::new(ProstCodec::<M, M>::default()).unary(EchoAnswer(PhantomData), request).await
}

struct GetUser(Users);

impl UnaryService<GetUserRequest> for GetUser {
    type Response = GetUserResponse;
    type Future = BoxFuture<Response<GetUserResponse>, Status>;

    fn call(&mut self, request: Request<GetUserRequest>) -> Self::Future {
        let user = self.0.read().get(&request.get_ref().user_id).cloned();
        Box::pin(async move { user.map(Response::new).ok_or_else(|| Status::not_found("")) })
    }
}

struct PutUser(Users);

impl UnaryService<GetUserResponse> for PutUser {
    type Response = GetUserResponse;
    type Future = BoxFuture<Response<GetUserResponse>, Status>;

    fn call(&mut self, request: Request<GetUserResponse>) -> Self::Future {
        let user = request.into_inner();
        let id = user.user.as_ref().map_or(0, |user| user.user_id);
        self.0.write().insert(id, user.clone());
        Box::pin(async move { Ok(Response::new(user)) })
    }
}

struct EchoAnswer<M>(PhantomData<M>);

impl<M: Message + Default + 'static> UnaryService<M> for EchoAnswer<M> {
    type Response = M;
    type Future = BoxFuture<Response<M>, Status>;

    fn call(&mut self, request: Request<M>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}
