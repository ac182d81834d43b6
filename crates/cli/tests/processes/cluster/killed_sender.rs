//! A node that is killed after it has stored a message and before the message is in an inbox, also while it is cut from Redis.

use std::time::Duration;

use kith_proto::message::v1::{
    SendMessageRequest, WatchOfflineRequest, message_service_client::MessageServiceClient,
    send_message_request::To,
};
use kith_server::config::Config;
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{
    cluster::{
        receive::Stream,
        site::{Peer, Site, variable, with_relations},
        way::{Way, following, serve},
        windows::{Talk, acting},
    },
    spawned::Started,
};

/// By when another node has delivered what a dead one left.
const DELIVERED_WITHIN: Duration = Duration::from_secs(11);
const PATIENCE: Duration = Duration::from_secs(30);

/// Two nodes; the way of the one through which Ann sends to Redis is in the hands of the test.
struct Nodes {
    other: Peer,
    sender: Started,
    messages: MessageServiceClient<Channel>,
    talk: Talk,
    way: Way,
    _folder: TempDir,
}

impl Nodes {
    async fn start() -> Self {
        let (site, way) = (Site::in_redis_of_tests(), Way::default());
        let with_offline = |config: &mut Config| {
            with_relations(config);
            config.messages.offline = true;
        };
        let other = site.node_with(with_offline).await;
        let redis = way.open(&variable("KITH_TEST_REDIS")).await;
        let folder = tempfile::tempdir().unwrap();
        let sender = serve(folder.path(), &site, &redis);
        let channel = following(&sender).await;
        other.until_following().await;
        let talk = Talk::begin(&other).await;
        Self { other, sender, messages: MessageServiceClient::new(channel), talk, way, _folder: folder }
    }

    async fn send(&mut self, id: &str) {
        self.messages.send_message(message(self.talk, id)).await.unwrap();
    }

    /// Sends a message, and kills its node after the append and before the message is in an inbox.
    async fn send_and_kill(self) -> (Peer, Talk) {
        let Self { other, sender, mut messages, talk, way, _folder } = self;
        // The command that enters a message into the inbox of Bea is the first one that names it: she receives elsewhere.
        way.arm(format!(":m:{}\r\n", talk.bea));
        let sending = tokio::spawn(async move { messages.send_message(message(talk, "last")).await });
        tokio::time::timeout(PATIENCE, way.until_cut()).await.expect("the fan-out begins");
        drop(sender);
        assert!(sending.await.unwrap().is_err(), "the sender gets no answer");
        (other, talk)
    }
}

fn message(talk: Talk, id: &str) -> tonic::Request<SendMessageRequest> {
    let request = SendMessageRequest {
        to: Some(To::UserId(talk.bea)),
        client_message_id: id.to_owned(),
        body: "hello".to_owned().into(),
        ..SendMessageRequest::default()
    };
    acting(talk.ann, request)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn killed_sender_message_is_delivered() {
    let mut nodes = Nodes::start().await;
    let mut stream = Stream::live(&nodes.other, nodes.talk).await;
    nodes.send("first").await;
    assert_eq!(stream.seqs(1).await, [1], "the way is open");
    let (other, talk) = nodes.send_and_kill().await;
    let delivered = tokio::time::timeout(DELIVERED_WITHIN, stream.seqs(1)).await;
    assert_eq!(delivered.expect("it is delivered in time"), [2]);

    let again = other.messages().send_message(message(talk, "last")).await.unwrap().into_inner();
    assert_eq!((again.seq, again.replayed), (2, true), "it was stored before the node died");
    talk.say(&other, "later").await;
    assert_eq!(stream.seqs(1).await, [3], "neither is delivered again");
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn message_without_redis_is_delivered_after_kill() {
    let mut nodes = Nodes::start().await;
    let mut stream = Stream::live(&nodes.other, nodes.talk).await;
    nodes.send("first").await;
    assert_eq!(stream.seqs(1).await, [1], "the way is open");
    nodes.way.cut();
    nodes.send("second").await;
    let Nodes { other, sender, .. } = nodes;
    drop(sender);
    let delivered = tokio::time::timeout(DELIVERED_WITHIN, stream.seqs(1)).await;
    assert_eq!(delivered.expect("it is delivered in time"), [2]);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn push_of_a_killed_node_is_named_by_another() {
    let mut nodes = Nodes::start().await;
    let request = WatchOfflineRequest::default();
    let mut pushes = nodes.other.messages().watch_offline(request).await.unwrap().into_inner();
    assert_eq!(pushes.message().await.unwrap().unwrap().messages, []);
    let mut named = async |within| {
        let response = tokio::time::timeout(within, pushes.message()).await.expect("it is named in time");
        let messages = response.unwrap().unwrap().messages;
        messages.into_iter().map(|message| (message.seq, message.user_ids)).collect::<Vec<_>>()
    };
    let bea = nodes.talk.bea;
    nodes.send("first").await;
    assert_eq!(named(PATIENCE).await, [(1, vec![bea])], "by the node through which it was sent");
    let (other, talk) = nodes.send_and_kill().await;
    assert_eq!(named(DELIVERED_WITHIN + Duration::from_secs(1)).await, [(2, vec![bea])]);
    talk.say(&other, "later").await;
    assert_eq!(named(PATIENCE).await, [(3, vec![bea])], "neither is named again");
    other.stop().await;
}
