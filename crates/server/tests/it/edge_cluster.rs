//! A node's store is on another machine: away at the start, then available, away, and back.

#![cfg(feature = "cluster")]

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::edge::{
    assert_refused, config,
    raw::{self, GET_USER, framed},
};
use kith_proto::user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient};
use kith_server::{
    Node,
    config::{Backend, Secret},
    health::State,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::sleep,
};
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;

/// The treatment of bytes on the way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Connections stay open and nothing passes.
    Freeze,
    /// Connections are closed, and new ones too.
    Cut,
}

/// A proxy in front of the store that can be cut or frozen.
struct StoreProxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
}

impl StoreProxy {
    /// Makes a proxy that is cut at first.
    async fn to(store: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), mode: watch::Sender::new(Mode::Cut) };
        let modes = proxy.mode.subscribe();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, store.clone(), modes.clone()));
            }
        });
        proxy
    }

    fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

/// Passes bytes until the proxy is cut.
async fn pass(near: TcpStream, store: String, mut modes: watch::Receiver<Mode>) {
    let (near_modes, far_modes) = (modes.clone(), modes.clone());
    let both = async {
        let far = TcpStream::connect(store).await.unwrap();
        let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
        tokio::select! {
            () = copy(near_read, far_write, near_modes) => {}
            () = copy(far_read, near_write, far_modes) => {}
        }
    };
    tokio::select! {
        biased;
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => {}
        () = both => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut modes: watch::Receiver<Mode>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if modes.wait_for(|mode| *mode == Mode::Pass).await.is_err()
            || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}

/// Starts a node with its own database, reached over this proxy.
async fn node_over(proxy: &StoreProxy, name: &str) -> Node {
    let mut config = config();
    config.store.backend = Backend::Cluster;
    let uri = format!("mongodb://{}/?directConnection=true", proxy.address);
    config.store.mongodb.uri = Some(Secret::new(uri));
    config.store.mongodb.database = format!("kith_edge_{name}_{}", std::process::id());
    config.drain_wait = Duration::ZERO;
    Node::start(config).await.unwrap()
}

/// Waits until the node is in the state. Returns how long that took.
async fn reaches(node: &Node, state: State, limit: Duration) -> Duration {
    let from = Instant::now();
    while node.state() != state {
        assert!(from.elapsed() < limit, "still {:?} after {limit:?}, not {state:?}", node.state());
        sleep(Duration::from_millis(10)).await;
    }
    from.elapsed()
}

/// Returns host and port in the connection string for the tests' store.
fn store() -> String {
    let (_, uri) = std::env::vars().find(|(name, _)| name == "KITH_TEST_MONGODB").unwrap();
    let hosts = uri.trim_start_matches("mongodb://").split(['/', '?', ',']).next().unwrap();
    hosts.rsplit('@').next().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn node_state_follows_its_store() {
    let proxy = StoreProxy::to(store()).await;
    let node = node_over(&proxy, "follows").await;
    assert_eq!(node.state(), State::Starting);
    let refused = raw::call(node.addresses().grpc, GET_USER, &[], framed(&[0x08, 0x01])).await.unwrap();
    assert_refused(refused.status(), Code::Unavailable, "STARTING");

    proxy.set(Mode::Pass);
    reaches(&node, State::Serving, Duration::from_secs(5)).await;
    let answered = raw::call(node.addresses().grpc, GET_USER, &[], framed(&[0x08, 0x01])).await.unwrap();
    assert_eq!(answered.status().code(), Code::NotFound);

    proxy.set(Mode::Cut);
    let elapsed = reaches(&node, State::StoreAway, Duration::from_secs(8)).await;
    assert!(elapsed > Duration::from_secs(2), "not by a single failure: {elapsed:?}");
    proxy.set(Mode::Pass);
    reaches(&node, State::Serving, Duration::from_secs(5)).await;
    assert!(node.stop(std::future::ready(())).await);
}

/// A write's timeout in `proto/kith_grpc_service_config.json`.
const PUBLISHED: Duration = Duration::from_secs(5);

/// Writes like a client with the published configuration. Returns how long the answer took.
async fn create(users: &UserServiceClient<Channel>, name: &str) -> (Result<i64, Status>, Duration) {
    let user = User { user_name: name.to_owned(), ..User::default() };
    let request_id = format!("request-of-{name}");
    let mut request = Request::new(CreateUserRequest { user: Some(user), request_id });
    request.set_timeout(PUBLISHED);
    let from = Instant::now();
    let answer = users.clone().create_user(request).await;
    (answer.map(|made| made.into_inner().user.unwrap().user_id), from.elapsed())
}

/// Cuts a node off from its store, and checks that no write keeps its caller from trying another node.
async fn is_cut_off(mode: Mode, name: &str) {
    let proxy = StoreProxy::to(store()).await;
    proxy.set(Mode::Pass);
    let node = node_over(&proxy, name).await;
    reaches(&node, State::Serving, Duration::from_secs(10)).await;
    let users = UserServiceClient::connect(format!("http://{}", node.addresses().grpc)).await.unwrap();
    create(&users, "first").await.0.unwrap();

    proxy.set(mode);
    let (refused, took) = create(&users, "second").await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable, "after {took:?}");
    assert!(took < PUBLISHED / 2, "{took:?}");
    reaches(&node, State::StoreAway, Duration::from_secs(8)).await;
    let (refused, took) = create(&users, "third").await;
    let details = refused.unwrap_err().get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["outcome"], "not_applied");
    assert!(took < Duration::from_millis(500), "the node knows that the store is away: {took:?}");

    proxy.set(Mode::Pass);
    reaches(&node, State::Serving, Duration::from_secs(10)).await;
    let (again, _) = create(&users, "second").await;
    assert_eq!(create(&users, "second").await.0.unwrap(), again.unwrap(), "one request has one effect");
    drop(users);
    assert!(node.stop(std::future::ready(())).await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn cut_off_node_answers_in_half_of_deadline() {
    is_cut_off(Mode::Cut, "cut").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn hung_store_is_answered_in_half_the_deadline() {
    is_cut_off(Mode::Freeze, "hung").await;
}
