//! Every stream in the contract ends when its caller's key is removed: while it sends, while it has nothing
//! to send, and before its handler has answered. The services belong to this test and answer every method, so
//! a new method is covered, too.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, future::BoxFuture, poll, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kith_server::{
    auth::{CallerKey, Callers, Digest, Rights},
    config::Config,
    edge::{Edge, EdgeBody, Routes},
};
use tokio::time::timeout;
use tonic::{Code, Status, body::Body, server::NamedService};

use crate::{contract, edge::raw::framed};

const BOUND: Duration = Duration::from_secs(20);

/// The way a service handles a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FakeBehavior {
    /// Sends messages as fast as they are read.
    Sends,
    /// Answers, and has nothing to send.
    Waits,
    /// Never answers a call.
    Hangs,
}

/// The contract's services that have streams.
const SERVICES: [&str; 7] = [
    "kith.admin.v1.AdminService",
    "kith.group.v1.GroupService",
    "kith.member.v1.MemberService",
    "kith.message.v1.MessageService",
    "kith.presence.v1.PresenceService",
    "kith.relation.v1.RelationService",
    "kith.user.v1.UserService",
];

#[derive(Clone)]
struct Fake<const SERVICE: usize>(FakeBehavior);

impl<const SERVICE: usize> NamedService for Fake<SERVICE> {
    const NAME: &'static str = SERVICES[SERVICE];
}

impl<const SERVICE: usize> tower::Service<http::Request<Body>> for Fake<SERVICE> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        let does = self.0;
        Box::pin(async move {
            let body = match does {
                FakeBehavior::Hangs => std::future::pending().await,
                FakeBehavior::Waits => {
                    Body::new(StreamBody::new(stream::pending::<Result<Frame<Bytes>, Status>>()))
                }
                FakeBehavior::Sends => Body::new(StreamBody::new(
                    stream::repeat(framed(&[])).map(|m| Ok::<_, Status>(Frame::data(m))),
                )),
            };
            Ok(http::Response::builder().header("content-type", "application/grpc").body(body).unwrap())
        })
    }
}

fn routes(does: FakeBehavior) -> Routes {
    Routes::new(Fake::<0>(does))
        .add_service(Fake::<1>(does))
        .add_service(Fake::<2>(does))
        .add_service(Fake::<3>(does))
        .add_service(Fake::<4>(does))
        .add_service(Fake::<5>(does))
        .add_service(Fake::<6>(does))
}

/// Returns the paths of all methods that stream answers or requests.
fn paths() -> Vec<String> {
    contract::methods().iter().filter(|method| !contract::is_unary(method)).map(contract::path_of).collect()
}

/// Makes a separate caller for each method. Its key is the path.
fn callers(paths: &[String]) -> Arc<Callers> {
    let key = |path: &String| CallerKey {
        name: path.clone(),
        rights: Rights::ALL,
        digest: Digest::of(path.as_bytes()),
        made: None,
        expires: None,
    };
    Arc::new(Callers::new(paths.iter().map(key).collect()))
}

/// Returns the code with which this method's stream ends, once its key is removed.
async fn end(edge: &Edge, callers: &Callers, path: &str, does: FakeBehavior) -> Option<Code> {
    let key = callers.find(path.as_bytes()).unwrap().ended.clone();
    let request = http::Request::post(format!("http://kith{path}"))
        .header("content-type", "application/grpc")
        .header("authorization", format!("Bearer {path}"));
    let mut call = tower::Service::call(&mut edge.clone(), request.body(Body::empty()).unwrap());
    if does == FakeBehavior::Hangs {
        assert!(poll!(&mut call).is_pending(), "{path}");
        key.cancel();
        return Status::from_header_map(call.await.unwrap().headers()).map(|status| status.code());
    }
    let mut body = call.await.unwrap().into_body();
    match does {
        FakeBehavior::Sends => assert!(code(&mut body).await.is_none(), "{path}: the first message"),
        FakeBehavior::Waits | FakeBehavior::Hangs => assert!(poll!(body.frame()).is_pending(), "{path}"),
    }
    key.cancel();
    code(&mut body).await
}

/// Returns the code in the trailers, if they come next.
async fn code(body: &mut EdgeBody) -> Option<Code> {
    let frame = body.frame().await?.unwrap();
    Status::from_header_map(frame.trailers_ref()?).map(|status| status.code())
}

#[tokio::test]
async fn every_stream_ends_with_the_key_of_its_caller() {
    let paths = paths();
    assert!(paths.len() > 10, "{paths:?}");
    for does in [FakeBehavior::Sends, FakeBehavior::Waits, FakeBehavior::Hangs] {
        let callers = callers(&paths);
        let edge = Edge::new(Routes::default(), &Config::default().limits).with_callers(Arc::clone(&callers));
        edge.open(routes(does));
        for path in &paths {
            let ended = timeout(BOUND, end(&edge, &callers, path, does)).await;
            assert_eq!(ended, Ok(Some(Code::Unauthenticated)), "{path} {does:?}");
        }
        assert_eq!(edge.in_flight(), 0, "a stream that has ended keeps no slot");
    }
}
