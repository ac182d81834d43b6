//! A node is killed after it has stored a message and before the message is in an inbox, also while it is cut
//! from Redis.

use std::time::Duration;

use kith_proto::message::v1::{
    max_seq_result, message_service_client::MessageServiceClient, send_message_request::To, *,
};
use kith_server::config::Config;
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{
    cluster::{
        fresh::{in_session, session_of},
        receive::Stream,
        redis_proxy::{RedisProxy, following, serve},
        site::{Peer, Site, variable, with_relations},
        windows::{DirectChat, acting, hits},
    },
    polls::until,
    spawned::Started,
};

/// The time within which another node has delivered a dead node's messages.
const DELIVERED_WITHIN: Duration = Duration::from_secs(11);
const PATIENCE: Duration = Duration::from_secs(30);

/// Two nodes. Ann sends through the node that reaches Redis over the test's proxy.
struct Nodes {
    other: Peer,
    sender: Started,
    messages: MessageServiceClient<Channel>,
    chat: DirectChat,
    proxy: RedisProxy,
    _folder: TempDir,
}

impl Nodes {
    async fn start() -> Self {
        let (site, proxy) = (Site::in_redis_of_tests(), RedisProxy::default());
        let with_offline = |config: &mut Config| {
            with_relations(config);
            config.messages.offline = true;
        };
        let other = site.node_with(with_offline).await;
        let redis = proxy.open(&variable("KITH_TEST_REDIS")).await;
        let folder = tempfile::tempdir().unwrap();
        let sender = serve(folder.path(), &site, &redis);
        let channel = following(&sender).await;
        other.until_following().await;
        let chat = DirectChat::begin(&other).await;
        Self { other, sender, messages: MessageServiceClient::new(channel), chat, proxy, _folder: folder }
    }

    async fn send(&mut self, id: &str) {
        self.messages.send_message(message(self.chat, id)).await.unwrap();
    }

    /// Sends a message, and kills its node after the append and before the message is in an inbox.
    async fn send_and_kill(self) -> (Peer, DirectChat) {
        let Self { other, sender, mut messages, chat, proxy, _folder } = self;
        // The first command that names Bea's inbox enters a message into it: she receives elsewhere.
        proxy.arm(format!(":m:{}\r\n", chat.bea));
        let sending = tokio::spawn(async move { messages.send_message(message(chat, "last")).await });
        tokio::time::timeout(PATIENCE, proxy.until_cut()).await.expect("the fan-out begins");
        drop(sender);
        assert!(sending.await.unwrap().is_err(), "the sender gets no answer");
        (other, chat)
    }
}

fn message(chat: DirectChat, id: &str) -> tonic::Request<SendMessageRequest> {
    let request = SendMessageRequest {
        to: Some(To::UserId(chat.bea)),
        client_message_id: id.to_owned(),
        body: "hello".to_owned().into(),
        ..SendMessageRequest::default()
    };
    acting(chat.ann, request)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn killed_sender_message_is_delivered() {
    let mut nodes = Nodes::start().await;
    let mut stream = Stream::live(&nodes.other, nodes.chat).await;
    nodes.send("first").await;
    assert_eq!(stream.seqs(1).await, [1], "the proxy is open");
    let (other, chat) = nodes.send_and_kill().await;
    let delivered = tokio::time::timeout(DELIVERED_WITHIN, stream.seqs(1)).await;
    assert_eq!(delivered.expect("it is delivered in time"), [2]);

    let again = other.messages().send_message(message(chat, "last")).await.unwrap().into_inner();
    assert_eq!((again.seq, again.replayed), (2, true), "it was stored before the node died");
    chat.send(&other, "later").await;
    assert_eq!(stream.seqs(1).await, [3], "neither is delivered again");
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn message_without_redis_is_delivered_after_kill() {
    let mut nodes = Nodes::start().await;
    let mut stream = Stream::live(&nodes.other, nodes.chat).await;
    nodes.send("first").await;
    assert_eq!(stream.seqs(1).await, [1], "the proxy is open");
    nodes.proxy.cut();
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
    let bea = nodes.chat.bea;
    nodes.send("first").await;
    assert_eq!(named(PATIENCE).await, [(1, vec![bea])], "by the node through which it was sent");
    let (other, chat) = nodes.send_and_kill().await;
    assert_eq!(named(DELIVERED_WITHIN + Duration::from_secs(1)).await, [(2, vec![bea])]);
    chat.send(&other, "later").await;
    assert_eq!(named(PATIENCE).await, [(3, vec![bea])], "neither is named again");
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn own_message_is_read_without_redis() {
    let mut nodes = Nodes::start().await;
    nodes.send("first").await;
    let (chat, other) = (nodes.chat, &nodes.other);
    until(PATIENCE, async || {
        let before = hits(other).await;
        chat.last(other, 1).await;
        hits(other).await > before
    })
    .await;
    nodes.proxy.cut();
    let sent = nodes.messages.send_message(in_session("", message(chat, "second"))).await.unwrap();
    let session = session_of(&sent);
    let pull = PullMessagesRequest { conversation_id: chat.id(), ..PullMessagesRequest::default() };
    let history = HistoryRequest { conversation_id: chat.id(), limit: 1, ..HistoryRequest::default() };
    let by_seqs =
        PullBySeqsRequest { conversation_id: chat.id(), seqs: vec![2], ..PullBySeqsRequest::default() };
    let ends = GetMaxSeqsRequest { conversation_ids: vec![chat.id()], ..GetMaxSeqsRequest::default() };
    let list = ListConversationsRequest { user_id: chat.ann, ..ListConversationsRequest::default() };
    let mut messages = other.messages();
    let pulled = messages.pull_messages(in_session(&session, acting(chat.ann, pull))).await.unwrap();
    assert_eq!(pulled.into_inner().max_seq, 2);
    let last = messages.history(in_session(&session, acting(chat.ann, history))).await.unwrap();
    assert_eq!(last.into_inner().messages[0].seq, 2);
    let named = messages.pull_by_seqs(in_session(&session, acting(chat.ann, by_seqs))).await.unwrap();
    assert_eq!(named.into_inner().messages.len(), 1);
    let ends = messages.get_max_seqs(in_session(&session, acting(chat.ann, ends))).await.unwrap();
    assert_eq!(ends.into_inner().results[0].result, Some(max_seq_result::Result::MaxSeq(2)));
    let listed = messages.list_conversations(in_session(&session, acting(chat.ann, list))).await.unwrap();
    assert_eq!(listed.into_inner().conversations[0].last_message.as_ref().unwrap().seq, 2);
    nodes.other.stop().await;
}
