//! Where a receiver's name leads is checked for each connection.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kith_forward::{AddressRule, Answer, Resolver};
use parking_lot::Mutex;

use crate::{
    receiver::{Reaction, TestReceiver},
    source::MemorySource,
    stage::{MemoryState, Running, receiver_at, settings, to_name, until},
};

const LIMIT: Duration = Duration::from_secs(5);

/// Returns what a test says. Clones share it.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<SocketAddr>>>);

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        assert_eq!((host, port), ("search.example", 80));
        Ok(self.0.lock().clone())
    }
}

fn none(answer: &Answer) -> &'static str {
    match answer {
        Answer::None(why) => why,
        Answer::Status { .. } => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn one_private_address_is_enough_to_refuse() {
    let receiver = TestReceiver::start(|_| Reaction::Status(200)).await;
    let public: SocketAddr = "93.184.215.14:80".parse().unwrap();
    let mapped = format!("[::ffff:127.0.0.1]:{}", receiver.address.port()).parse().unwrap();
    for addresses in [vec![receiver.address], vec![public, receiver.address], vec![mapped], vec![]] {
        let names = Names::default();
        (*names.0.lock()).clone_from(&addresses);
        let answer = to_name(names, AddressRule::Public).post("1", Bytes::new(), LIMIT).await;
        let why = if addresses.is_empty() { "known address" } else { "not public" };
        assert!(none(&answer).contains(why), "{answer:?}");
    }
    assert!(receiver.ids().is_empty());
}

#[tokio::test]
async fn addresses_in_the_url_are_checked_too() {
    let receiver = TestReceiver::start(|_| Reaction::Status(200)).await;
    let port = receiver.address.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let answer = receiver_at(&format!("http://{host}:{port}/"), AddressRule::Public);
        let answer = answer.post("1", Bytes::new(), LIMIT).await;
        assert!(none(&answer).contains("not public"), "{host}: {answer:?}");
    }
    assert!(receiver.ids().is_empty());
}

/// The first one dies with the kept connection, and the name leads to the second one then.
#[tokio::test]
async fn receiver_may_move_between_tries() {
    let (source, state, names) = (MemorySource::with(["7"]), MemoryState::new(), Names::default());
    let first = TestReceiver::start(|_| Reaction::Status(200)).await;
    names.0.lock().push(first.address);
    let running = Running::start(&source, to_name(names.clone(), AddressRule::Any), &state, settings());
    until("the first has it", || state.saved().cursor == "1").await;
    drop(first);
    source.change("8");
    let second = TestReceiver::start(|_| Reaction::Status(200)).await;
    *names.0.lock() = vec![second.address];
    until("the second has it", || state.saved().cursor == "2").await;
    running.stop().await;
    assert_eq!((second.ids(), state.parked()), (vec!["1.a.1.0".to_owned()], vec![]));
}
