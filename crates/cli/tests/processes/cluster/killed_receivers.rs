//! A node is killed while clients receive from it: another node names them for messages that they may have
//! missed.

use std::time::Duration;

use futures::SinkExt as _;
use kith_proto::message::v1::{delivery::What, message_service_client::MessageServiceClient, *};
use kith_server::config::Config;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tonic::{Streaming, transport::Channel};

use crate::{
    cluster::{
        receive::Stream,
        redis_proxy::{following, serve},
        site::{Peer, Site, variable, with_relations},
        windows::{DirectChat, acting},
    },
    tour_sockets::{Socket, connect, until},
};

/// A node is considered dead after 15 s; another node's next round follows within 3 s.
const NAMED_WITHIN: Duration = Duration::from_secs(30);

async fn socket(address: &str, user: i64) -> Socket {
    let mut socket = connect(address).await;
    let hello = json!({"hello": {"user": user}}).to_string();
    socket.send(Message::text(hello)).await.unwrap();
    until(&mut socket, &json!({"live": true}), "live").await;
    socket
}

/// Opens a gRPC stream that has begun.
async fn stream(channel: &Channel, user: i64) -> Streaming<kith_proto::message::v1::ReceiveResponse> {
    let request = ReceiveRequest { now: true, ..ReceiveRequest::default() };
    let mut messages = MessageServiceClient::new(channel.clone());
    let mut stream = messages.receive(acting(user, request)).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert!(matches!(first.deliveries[0].what, Some(What::Live(_))), "{first:?}");
    stream
}

async fn mark_read(node: &Peer, chat: DirectChat, up_to: i64) {
    let request = MarkReadRequest { conversation_id: chat.id(), up_to, ..MarkReadRequest::default() };
    node.messages().mark_read(acting(chat.bea, request)).await.unwrap();
}

/// Returns the next users who are named, each with the message number.
async fn named(pushes: &mut Streaming<WatchOfflineResponse>, count: usize) -> Vec<(Vec<i64>, i64)> {
    let mut named = Vec::new();
    while named.len() < count {
        let response = tokio::time::timeout(NAMED_WITHIN, pushes.message()).await;
        let messages = response.expect("they are named in time").unwrap().unwrap().messages;
        named.extend(messages.into_iter().map(|message| (message.user_ids, message.seq)));
    }
    named.sort_unstable();
    named
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn receivers_of_a_killed_node_are_named() {
    let (site, folder) = (Site::in_redis_of_tests(), tempfile::tempdir().unwrap());
    let other = site.node_with(|config: &mut Config| {
        with_relations(config);
        config.messages.offline = true;
    });
    let other = other.await;
    let killed = serve(folder.path(), &site, &variable("KITH_TEST_REDIS"));
    let channel = following(&killed).await;
    other.until_following().await;
    let mut chats = Vec::new();
    for number in 1..=3 {
        let create = async |name| other.create(&format!("{name}{number}")).await.user_id;
        chats.push(DirectChat { ann: create("ann").await, bea: create("bea").await });
    }
    let [by_socket, by_stream, comes_back] = chats[..] else { panic!() };
    let request = WatchOfflineRequest::default();
    let mut pushes = other.messages().watch_offline(request).await.unwrap().into_inner();
    assert_eq!(pushes.message().await.unwrap().unwrap().messages, []);

    let mut sockets =
        [socket(&killed.grpc(), by_socket.bea).await, socket(&killed.grpc(), comes_back.bea).await];
    let mut streamed = stream(&channel, by_stream.bea).await;
    for chat in [by_socket, by_stream, comes_back] {
        assert_eq!((chat.send(&other, "read").await, chat.send(&other, "unread").await), (1, 2));
    }
    for socket in &mut sockets {
        until(socket, &json!({"message": {"seq": "2"}}), "the messages arrive").await;
    }
    assert!(streamed.message().await.unwrap().is_some());
    mark_read(&other, by_socket, 1).await;
    drop(killed);
    let mut back = Stream::live(&other, comes_back).await;

    let expected = [(vec![by_socket.bea], 2), (vec![by_stream.bea], 1), (vec![by_stream.bea], 2)];
    assert_eq!(named(&mut pushes, 3).await, expected, "not the one that came back");
    for chat in [by_socket, comes_back] {
        assert_eq!(chat.send(&other, "later").await, 3);
    }
    assert_eq!(named(&mut pushes, 1).await, [(vec![by_socket.bea], 3)], "each once");
    assert_eq!(back.seqs(1).await, [3]);
    other.stop().await;
}
