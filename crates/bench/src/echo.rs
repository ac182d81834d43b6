//! A bare tonic server: what a call costs before Kith does anything.

use std::{collections::HashMap, convert::Infallible, marker::PhantomData, net::SocketAddr, sync::Arc};

use anyhow::Result;
use kith_proto::{
    message::v1::{GetMaxSeqsResponse, PullMessagesResponse, ReceiveRequest, ReceiveResponse},
    notice::v1::CountNoticesResponse,
    receipt::v1::GetReceiptResponse,
    relation::v1::{BatchGetRelationsResponse, CheckPermissionResponse},
    user::v1::{GetUserRequest, GetUserResponse},
};
use parking_lot::{Mutex, RwLock};
use prost::Message;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Context, Poll, Service, http},
    metadata::AsciiMetadataValue,
    server::{Grpc, NamedService, ServerStreamingService, UnaryService},
    service::{Interceptor, interceptor::InterceptedService},
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
/// Echoes where conversations end.
pub(crate) const ENDS: &str = "/kith.lab.v1.EchoService/EchoEnds";

/// Echoes how many notices a reader has read.
pub(crate) const NOTICES: &str = "/kith.lab.v1.EchoService/EchoNotices";
/// Echoes a receipt.
pub(crate) const RECEIPT: &str = "/kith.lab.v1.EchoService/EchoReceipt";
/// Sends what [`DELIVER`] is given, to all streams that are open.
pub(crate) const RECEIVE: &str = "/kith.lab.v1.EchoService/Receive";
/// Sends a response to all [`RECEIVE`] streams.
pub(crate) const DELIVER: &str = "/kith.lab.v1.EchoService/Deliver";

/// Answers every call with the message it was sent, or a request for a user with that user; with a key, calls
/// that carry it alone. Runs until the process is ended.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(listen: SocketAddr, key: Option<&str>) -> Result<()> {
    let (mut server, echo) = (Server::builder(), Echo::default());
    match key {
        Some(key) => server.add_service(InterceptedService::new(echo, one_key(key))).serve(listen).await?,
        None => server.add_service(echo).serve(listen).await?,
    }
    Ok(())
}

/// The least that a server does for a key: it hashes what a call carries, and compares in constant time.
fn one_key(key: &str) -> impl Interceptor + Clone + use<> {
    let expected: [u8; 32] = Sha256::digest(key).into();
    move |request: Request<()>| {
        let given = request.metadata().get("authorization").map(AsciiMetadataValue::as_bytes);
        let digest = given.and_then(|value| value.strip_prefix(b"Bearer ")).map(Sha256::digest);
        if digest.is_some_and(|digest| bool::from(digest[..].ct_eq(&expected))) {
            Ok(request)
        } else {
            Err(Status::unauthenticated(""))
        }
    }
}

/// The service has the shape that tonic generates.
#[derive(Clone, Debug, Default)]
struct Echo {
    users: Users,
    streams: Streams,
}

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
        let (users, streams) = (Arc::clone(&self.users), Arc::clone(&self.streams));
        Box::pin(async move {
            match request.uri().path() {
                PUT_USER => Ok(Grpc::new(ProstCodec::default()).unary(PutUser(users), request).await),
                GET_USER => Ok(Grpc::new(ProstCodec::default()).unary(GetUser(users), request).await),
                PERMISSION => Ok(echo::<CheckPermissionResponse>(request).await),
                RELATIONS => Ok(echo::<BatchGetRelationsResponse>(request).await),
                MESSAGES => Ok(echo::<PullMessagesResponse>(request).await),
                ENDS => Ok(echo::<GetMaxSeqsResponse>(request).await),
                NOTICES => Ok(echo::<CountNoticesResponse>(request).await),
                RECEIPT => Ok(echo::<GetReceiptResponse>(request).await),
                RECEIVE => {
                    Ok(Grpc::new(ProstCodec::default()).server_streaming(Receive(streams), request).await)
                }
                DELIVER => Ok(Grpc::new(ProstCodec::default()).unary(Deliver(streams), request).await),
                _ => Ok(Status::unimplemented("").into_http()),
            }
        })
    }
}

async fn echo<M: Message + Default + 'static>(request: http::Request<Body>) -> http::Response<Body> {
    Grpc::new(ProstCodec::<M, M>::default()).unary(EchoAnswer(PhantomData), request).await
}

/// Streams that are open.
type Streams = Arc<Mutex<Vec<mpsc::Sender<Result<ReceiveResponse, Status>>>>>;

/// Responses that may wait for a reader.
const WAITING: usize = 4;

struct Receive(Streams);

impl ServerStreamingService<ReceiveRequest> for Receive {
    type Response = ReceiveResponse;
    type ResponseStream = ReceiverStream<Result<ReceiveResponse, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, _request: Request<ReceiveRequest>) -> Self::Future {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.0.lock().push(sender);
        Box::pin(async move { Ok(Response::new(ReceiverStream::new(receiver))) })
    }
}

struct Deliver(Streams);

impl UnaryService<ReceiveResponse> for Deliver {
    type Response = ReceiveResponse;
    type Future = BoxFuture<Response<ReceiveResponse>, Status>;

    fn call(&mut self, request: Request<ReceiveResponse>) -> Self::Future {
        let streams = self.0.lock().clone();
        Box::pin(async move {
            let response = request.into_inner();
            for stream in streams {
                // A stream that has ended is not served any more.
                drop(stream.send(Ok(response.clone())).await);
            }
            Ok(Response::new(response))
        })
    }
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
