//! Some peers do not read their answers.

use std::{net::SocketAddr, time::Duration};

use crate::edge::{
    raw::{EXPORT_USERS, GET_USER, framed},
    serve,
    service::{BUSY, FINE, FakeUsers, LARGE, get},
    until,
};
use bytes::Bytes;
use futures::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use tokio::{net::TcpStream, sync::oneshot, time::timeout};
use tonic::{Code, Status};
use tower::ServiceExt as _;

const MIB: usize = 1 << 20;
const BOUND: Duration = Duration::from_secs(20);
/// The number of concurrent calls on one connection, by default.
const CALLS: usize = 200;

/// A peer that reads an answer's head and not its body: it has given no window.
struct SilentPeer {
    requests: SendRequest<Bytes>,
    /// Resolves when the node has closed the connection.
    closed: oneshot::Receiver<()>,
}

impl SilentPeer {
    async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let builder = h2::client::Builder::new().initial_window_size(0).clone();
        let (requests, connection) = builder.handshake(socket).await.unwrap();
        let (close, closed) = oneshot::channel();
        tokio::spawn(async move {
            drop(connection.await);
            close.send(()).unwrap_or_default();
        });
        Self { requests, closed }
    }

    /// Begins a call whose request has one field: an id.
    async fn call(&mut self, path: &str, id: i64) -> ResponseFuture {
        let request = Request::post(format!("http://kith{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (response, mut body) = requests.send_request(request.body(()).unwrap(), false).unwrap();
        body.send_data(framed(&[0x08, u8::try_from(id).unwrap()]), true).unwrap();
        response
    }
}

/// Returns the code of an answer without a message; `None` for an answer whose message was not read.
fn refusal(head: &HeaderMap) -> Option<Code> {
    Status::from_header_map(head).map(|status| status.code())
}

#[tokio::test]
async fn silent_peer_holds_a_bounded_number_of_bytes() {
    let node = serve(|config| {
        config.limits.unread_bytes_per_connection = 8 * MIB;
        config.limits.unread_bytes = 16 * MIB;
    })
    .await;
    let mut silent = SilentPeer::connect(node.address).await;
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        calls.push(silent.call(GET_USER, LARGE).await);
    }
    let heads = timeout(BOUND, join_all(calls)).await.expect("every call is answered");
    // A dropped body ends its stream: these bodies are kept.
    let answers: Vec<_> = heads.into_iter().map(Result::unwrap).collect();
    let refused: Vec<_> = answers.iter().filter_map(|answer| refusal(answer.headers())).collect();
    assert_eq!(refused, vec![Code::ResourceExhausted; CALLS - 2], "8 MiB hold two answers of 3 MiB");
    let held = node.edge.unread_bytes();
    assert!((6 * MIB..7 * MIB).contains(&held), "{held} bytes");

    let mut other = node.users().await;
    for _ in 0..3 {
        assert!(other.get_user(get(LARGE)).await.is_ok(), "others are served");
    }
    node.assert_healthy().await;
    drop((answers, silent));
    until("nothing is held any more", || node.edge.unread_bytes() == 0).await;
}

/// Returns only an answer's message, which is held for a peer that does not read.
async fn message_of(id: u8) -> Bytes {
    let (users, _) = FakeUsers::new();
    let request = Request::post(GET_USER).header("content-type", "application/grpc");
    let request = request.body(Full::new(framed(&[0x08, id]))).unwrap();
    let response = users.routes(MIB).oneshot(request).await.unwrap();
    response.into_body().frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test]
async fn answer_takes_the_memory_that_is_counted() {
    for (id, at_least) in [(LARGE, 3 * MIB), (FINE, 5)] {
        let message = message_of(u8::try_from(id).unwrap()).await;
        let counted = message.len();
        let held = message.try_into_mut().expect("nothing else holds it").capacity();
        assert!(counted >= at_least && held <= counted + 256, "{held} bytes hold {counted}");
    }
}

#[tokio::test]
async fn silent_peers_together_hold_the_node_limit() {
    let node = serve(|config| {
        config.limits.unread_bytes_per_connection = 4 * MIB;
        config.limits.unread_bytes = 7 * MIB;
    })
    .await;
    let (mut peers, mut answers, mut refused) = (Vec::new(), Vec::new(), 0);
    for _ in 0..4 {
        let mut silent = SilentPeer::connect(node.address).await;
        let answer = silent.call(GET_USER, LARGE).await.await.unwrap();
        refused += usize::from(refusal(answer.headers()).is_some());
        answers.push(answer);
        peers.push(silent);
    }
    assert_eq!(refused, 2, "7 MiB hold two answers of 3 MiB");
    assert!(node.users().await.get_user(get(FINE)).await.is_ok(), "small answers pass");
}

#[tokio::test]
async fn peer_that_reads_nothing_is_disconnected() {
    for (path, id) in [(GET_USER, FINE), (GET_USER, LARGE), (EXPORT_USERS, BUSY)] {
        let node = serve(|config| config.limits.unread_max = Duration::from_millis(20)).await;
        let mut silent = SilentPeer::connect(node.address).await;
        let answer = silent.call(path, id).await.await.unwrap();
        timeout(BOUND, &mut silent.closed).await.expect("its connection is closed").unwrap();
        until("it holds nothing", || node.edge.unread_bytes() == 0 && node.edge.in_flight() == 0).await;
        drop(answer);
        node.assert_healthy().await;
    }
}
