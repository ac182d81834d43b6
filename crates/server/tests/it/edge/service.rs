//! A user service whose answer depends on the requested id.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http_body::Frame;
use http_body_util::StreamBody;
use kith_proto::user::v1::{
    user_service_server::{UserService, UserServiceServer},
    *,
};
use kith_server::edge::Routes;
use kith_service::rpc::call::AnswerMetadata;
use tokio::sync::Semaphore;
use tonic::{
    Request, Response, Status, Streaming, body::Body, codec::CompressionEncoding, server::NamedService,
};

/// The service answers at once, from memory.
pub const FINE: i64 = 1;
/// The service answers once [`CallLog::release`] is called.
pub const HELD: i64 = 2;
/// The service panics for this id.
pub const PANICS: i64 = 3;
/// The service itself fails with INTERNAL.
pub const FAILS: i64 = 4;
/// An export after this user always has something to send.
pub const BUSY: i64 = 6;

/// The answer has 3 MiB, in parts of 1 KiB.
pub const LARGE: i64 = 7;

/// The calls that the service saw, and the door for the calls that it holds.
#[derive(Clone)]
pub struct CallLog {
    pub calls: Arc<AtomicUsize>,
    pub ended: Arc<AtomicUsize>,
    door: Arc<Semaphore>,
}

impl CallLog {
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn release(&self, count: usize) {
        self.door.add_permits(count);
    }
}

pub struct FakeUsers(CallLog);

impl FakeUsers {
    pub fn new() -> (Self, CallLog) {
        let seen =
            CallLog { calls: Arc::default(), ended: Arc::default(), door: Arc::new(Semaphore::new(0)) };
        (Self(seen.clone()), seen)
    }

    pub fn routes(self, bytes: usize) -> Routes {
        let service = UserServiceServer::new(self)
            .max_decoding_message_size(bytes)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd);
        Routes::new(service)
    }
}

/// A presence service: every call is answered with a stream that sends nothing and does not end.
#[derive(Clone)]
pub struct FakePresence;

impl NamedService for FakePresence {
    const NAME: &'static str = "kith.presence.v1.PresenceService";
}

impl tower::Service<http::Request<Body>> for FakePresence {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        let nothing = stream::pending::<Result<Frame<Bytes>, Status>>();
        let response = http::Response::builder().header("content-type", "application/grpc");
        let response = response.body(Body::new(StreamBody::new(nothing))).unwrap();
        Box::pin(async move { Ok(response) })
    }
}

pub fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

fn served(version: i64) -> Response<GetUserResponse> {
    let mut response = Response::new(GetUserResponse::default());
    response.extensions_mut().insert(AnswerMetadata {
        tier: "memory",
        version,
        age: Duration::from_millis(1500),
    });
    response
}

fn large() -> GetUserResponse {
    let params = (0..3 << 10).map(|at| (format!("note-{at}"), "x".repeat(1 << 10))).collect();
    GetUserResponse::of(User { params, ..Default::default() })
}

/// Makes methods that are unimplemented here, in the form that `async_trait` gives them.
macro_rules! unanswered {
    ($($name:ident($request:ty) -> $response:ty;)*) => {
        $(fn $name<'this, 'call>(
            &'this self,
            _: Request<$request>,
        ) -> BoxFuture<'call, Result<Response<$response>, Status>>
        where
            'this: 'call,
        {
            Box::pin(async { Err(Status::unimplemented("not here")) })
        })*
    };
}

#[tonic::async_trait]
impl UserService for FakeUsers {
    async fn get_user(&self, request: Request<GetUserRequest>) -> Result<Response<GetUserResponse>, Status> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        match request.get_ref().user_id {
            FINE => Ok(served(7)),
            HELD => {
                self.0.door.acquire().await.unwrap().forget();
                self.0.ended.fetch_add(1, Ordering::SeqCst);
                Ok(served(8))
            }
            LARGE => Ok(Response::new(large())),
            PANICS => panic!("asked to"),
            FAILS => Err(Status::internal("failed by itself")),
            _ => Err(Status::not_found("no such user")),
        }
    }

    async fn find_user_by_name(
        &self,
        _: Request<FindUserByNameRequest>,
    ) -> Result<Response<FindUserByNameResponse>, Status> {
        Ok(Response::new(FindUserByNameResponse::default()))
    }

    async fn batch_get_users(
        &self,
        _: Request<BatchGetUsersRequest>,
    ) -> Result<Response<BatchGetUsersResponse>, Status> {
        Ok(Response::new(BatchGetUsersResponse::default()))
    }

    type ImportUsersStream = BoxStream<'static, Result<ImportUsersResponse, Status>>;

    /// Answers every message; passes on the error with which its stream fails.
    async fn import_users(
        &self,
        request: Request<Streaming<ImportUsersRequest>>,
    ) -> Result<Response<Self::ImportUsersStream>, Status> {
        let answers = request.into_inner().map(|message| message.map(|_| ImportUsersResponse::default()));
        Ok(Response::new(answers.boxed()))
    }

    type ExportUsersStream = BoxStream<'static, Result<ExportUsersResponse, Status>>;

    /// Sends one answer, then nothing for ever.
    async fn export_users(
        &self,
        request: Request<ExportUsersRequest>,
    ) -> Result<Response<Self::ExportUsersStream>, Status> {
        if request.get_ref().after_user_id == BUSY {
            let all = futures::stream::repeat_with(|| Ok(ExportUsersResponse::default()));
            return Ok(Response::new(all.boxed()));
        }
        let first = futures::stream::iter([Ok(ExportUsersResponse::default())]);
        Ok(Response::new(first.chain(futures::stream::pending()).boxed()))
    }

    async fn create_user(
        &self,
        _: Request<CreateUserRequest>,
    ) -> Result<Response<CreateUserResponse>, Status> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(CreateUserResponse::default()))
    }

    unanswered! {
        suspend_user(SuspendUserRequest) -> SuspendUserResponse;
        resume_user(ResumeUserRequest) -> ResumeUserResponse;
        sign_out_user(SignOutUserRequest) -> SignOutUserResponse;
        get_user_access(GetUserAccessRequest) -> GetUserAccessResponse;
        update_user(UpdateUserRequest) -> UpdateUserResponse;
        delete_user(DeleteUserRequest) -> DeleteUserResponse;
        search_users(SearchUsersRequest) -> SearchUsersResponse;
        verify_secret(VerifySecretRequest) -> VerifySecretResponse;
    }
}
