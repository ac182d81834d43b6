//! Serves one stream, bare or behind a node's edge: what the edge costs a stream with the same messages.

use std::{convert::Infallible, future::pending, net::SocketAddr, sync::Arc};

use anyhow::Result;
use futures::{StreamExt as _, stream, stream::BoxStream};
use kith_proto::user::v1::{ExportUsersRequest, ExportUsersResponse, User};
use kith_server::{
    config::Config,
    edge::{Edge, Routes},
    health::Reporter,
    transport::Port,
};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Context, Poll, Service, http},
    server::{Grpc, NamedService, ServerStreamingService},
    transport::Server,
};
use tonic_prost::ProstCodec;

/// The path of the only method. The edge takes only methods in the contract.
const EXPORT_USERS: &str = "/kith.user.v1.UserService/ExportUsers";
/// Bytes in a message, about as many as in a record.
const NOTE_BYTES: usize = 200;

/// Sends as many messages as `after_user_id` says, as fast as they are taken. Runs until the process is
/// ended.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(listen: SocketAddr, behind_edge: bool) -> Result<()> {
    let frames = Frames(Arc::new(message()));
    if !behind_edge {
        return Ok(Server::builder().add_service(frames).serve(listen).await?);
    }
    let config = Config { listen, ..Config::default() };
    let edge = Edge::new(Routes::default(), &config.limits);
    edge.open(Routes::new(frames));
    let _connections = Port::bind(&config).await?.serve(edge, &config.limits, Reporter::new());
    pending().await
}

fn message() -> ExportUsersResponse {
    let params = [("note".to_owned(), "x".repeat(NOTE_BYTES))].into();
    ExportUsersResponse { users: vec![User { user_id: 1, params, ..User::default() }] }
}

/// The service has the shape that tonic generates.
#[derive(Clone, Debug)]
struct Frames(Arc<ExportUsersResponse>);

impl NamedService for Frames {
    const NAME: &'static str = "kith.user.v1.UserService";
}

impl Service<http::Request<Body>> for Frames {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let export = Export(Arc::clone(&self.0));
        Box::pin(async move {
            if request.uri().path() == EXPORT_USERS {
                Ok(Grpc::new(ProstCodec::default()).server_streaming(export, request).await)
            } else {
                Ok(Status::unimplemented("").into_http())
            }
        })
    }
}

struct Export(Arc<ExportUsersResponse>);

impl ServerStreamingService<ExportUsersRequest> for Export {
    type Response = ExportUsersResponse;
    type ResponseStream = BoxStream<'static, Result<ExportUsersResponse, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<ExportUsersRequest>) -> Self::Future {
        let (message, count) = (Arc::clone(&self.0), request.get_ref().after_user_id);
        let messages = stream::iter(0..count).map(move |_| Ok(ExportUsersResponse::clone(&message)));
        Box::pin(async move { Ok(Response::new(messages.boxed())) })
    }
}
