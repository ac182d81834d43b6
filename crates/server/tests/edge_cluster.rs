//! A node whose store is another machine's: away at the start, come, gone, and back.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edge;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use edge::{
    assert_refused, config,
    raw::{self, GET_USER, framed},
};
use kith_server::{
    Node,
    config::{Backend, Secret},
    health::State,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tonic::Code;

/// A way to the store that can be cut.
struct Way {
    address: SocketAddr,
    open: Arc<AtomicBool>,
}

impl Way {
    async fn to(store: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = Self { address: listener.local_addr().unwrap(), open: Arc::default() };
        let open = Arc::clone(&way.open);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if open.load(Ordering::SeqCst) {
                    tokio::spawn(pass(near, store.clone(), Arc::clone(&open)));
                }
            }
        });
        way
    }

    fn set(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
    }
}

/// Passes bytes until the way is cut.
async fn pass(mut near: TcpStream, store: String, open: Arc<AtomicBool>) {
    let mut far = TcpStream::connect(store).await.unwrap();
    let cut = async {
        while open.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ended = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        () = cut => {}
    }
}

/// Waits until the node is in the state, and says how long that took.
async fn reaches(node: &Node, state: State, limit: Duration) -> Duration {
    let from = Instant::now();
    while node.state() != state {
        assert!(from.elapsed() < limit, "still {:?} after {limit:?}, not {state:?}", node.state());
        sleep(Duration::from_millis(10)).await;
    }
    from.elapsed()
}

/// Host and port of the store of the tests, out of its connection string.
fn store() -> String {
    let (_, uri) = std::env::vars().find(|(name, _)| name == "KITH_TEST_MONGODB").unwrap();
    let hosts = uri.trim_start_matches("mongodb://").split(['/', '?', ',']).next().unwrap();
    hosts.rsplit('@').next().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_node_follows_its_store_as_it_comes_goes_and_comes_back() {
    let way = Way::to(store()).await;
    let mut config = config();
    config.store.backend = Backend::Cluster;
    let uri = format!("mongodb://{}/?directConnection=true", way.address);
    config.store.mongodb.uri = Some(Secret::new(uri));
    config.store.mongodb.database = format!("kith_edge_{}", std::process::id());
    let node = Node::start(config).await.unwrap();
    assert_eq!(node.state(), State::Starting);
    let refused = raw::call(node.addresses().grpc, GET_USER, &[], framed(&[0x08, 0x01])).await.unwrap();
    assert_refused(refused.status(), Code::Unavailable, "STARTING");

    way.set(true);
    reaches(&node, State::Serving, Duration::from_secs(5)).await;
    let answered = raw::call(node.addresses().grpc, GET_USER, &[], framed(&[0x08, 0x01])).await.unwrap();
    assert_eq!(answered.status().code(), Code::NotFound);

    way.set(false);
    let told = reaches(&node, State::StoreAway, Duration::from_secs(8)).await;
    assert!(told > Duration::from_secs(2), "not by a single failure: {told:?}");
    way.set(true);
    reaches(&node, State::Serving, Duration::from_secs(5)).await;
    assert!(node.stop(std::future::ready(())).await);
}
