//! A node that is killed after it has stored a message and before the message is in an inbox, also while it is cut from Redis.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kith_proto::{
    admin::v1::{GetNodeRequest, admin_service_client::AdminServiceClient},
    message::v1::{
        SendMessageRequest, WatchOfflineRequest, message_service_client::MessageServiceClient,
        send_message_request::To,
    },
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tonic::transport::{Channel, Endpoint};

use crate::{
    cluster::{
        receive::Stream,
        site::{Peer, Site, until, variable},
        windows::{Talk, acting},
    },
    spawned::{FREE, Started, kith},
};

/// By when another node has delivered what a dead one left.
const DELIVERED_WITHIN: Duration = Duration::from_secs(11);
const PATIENCE: Duration = Duration::from_secs(30);
/// As many bytes as may precede the end of a text that is looked for.
const OVERLAP: usize = 64;

/// The way of one node to Redis. Once it is armed, nothing passes from the first command on that has a text.
#[derive(Clone, Default)]
struct Way(Arc<State>);

#[derive(Default)]
struct State {
    text: std::sync::Mutex<Option<String>>,
    is_cut: AtomicBool,
    cut: Notify,
}

impl Way {
    /// Leads to this server. Returns the address at which it begins.
    async fn open(&self, redis: &str) -> String {
        let server = redis.strip_prefix("redis://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        let way = self.clone();
        tokio::spawn(async move {
            while let Ok((node, _)) = listener.accept().await {
                let (way, server) = (way.clone(), TcpStream::connect(&server).await.unwrap());
                tokio::spawn(async move {
                    let ((from_node, to_node), (from_server, to_server)) =
                        (node.into_split(), server.into_split());
                    tokio::join!(way.pass(from_node, to_server), way.pass(from_server, to_node));
                });
            }
        });
        address
    }

    /// From now on the first command with this text is held back, and all that comes after it.
    fn arm(&self, text: String) {
        *self.0.text.lock().unwrap() = Some(text);
    }

    /// From now on nothing passes.
    fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Release);
    }

    async fn until_cut(&self) {
        while !self.0.is_cut.load(Ordering::Acquire) {
            self.0.cut.notified().await;
        }
    }

    async fn pass(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let (mut part, mut seen) = (vec![0; 16 << 10], Vec::new());
        while let Ok(read @ 1..) = from.read(&mut part).await {
            seen.extend_from_slice(&part[..read]);
            self.look_at(&seen);
            if self.0.is_cut.load(Ordering::Acquire) {
                // Neither side sees an end: the connection hangs.
                return std::future::pending().await;
            }
            seen.drain(..seen.len().saturating_sub(OVERLAP));
            if to.write_all(&part[..read]).await.is_err() {
                return;
            }
        }
    }

    fn look_at(&self, seen: &[u8]) {
        let text = self.0.text.lock().unwrap();
        let Some(text) = text.as_ref() else { return };
        if seen.windows(text.len()).any(|part| part == text.as_bytes()) {
            self.0.is_cut.store(true, Ordering::Release);
            self.0.cut.notify_one();
        }
    }
}

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
        let other = site
            .node_with(|config| {
                config.store.cql.contact_points = vec![variable("KITH_TEST_CQL")];
                config.store.cql.keyspace.clone_from(&site.database);
                config.messages.offline = true;
            })
            .await;
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

/// A node of this site, as a process of its own, with Redis at this address.
fn serve(dir: &Path, site: &Site, redis: &str) -> Started {
    let mut command = kith(dir, &FREE);
    command.env("KITH_STORE__BACKEND", "cluster").env("KITH_STORE__MONGODB__DATABASE", &site.database);
    command.env("KITH_STORE__MONGODB__URI", variable("KITH_TEST_MONGODB"));
    command.env("KITH_STORE__CQL__CONTACT_POINTS", variable("KITH_TEST_CQL"));
    command.args(["--set", "messages.offline=true"]).env("KITH_STORE__CQL__KEYSPACE", &site.database);
    command.env("KITH_REDIS__URL", redis).env("KITH_REDIS__PREFIX", &site.prefix);
    Started::of(command)
}

async fn following(node: &Started) -> Channel {
    let channel = Endpoint::from_shared(format!("http://{}", node.grpc())).unwrap().connect().await.unwrap();
    let admin = AdminServiceClient::new(channel.clone());
    until(PATIENCE, async || {
        let answer = admin.clone().get_node(GetNodeRequest {}).await;
        answer.is_ok_and(|answer| answer.into_inner().redis == "follows")
    })
    .await;
    channel
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
async fn message_of_a_killed_node_is_delivered_by_another() {
    let mut nodes = Nodes::start().await;
    let mut stream = Stream::live(&nodes.other, nodes.talk).await;
    nodes.send("first").await;
    assert_eq!(stream.seqs(1).await, [1], "the way is open");
    let (other, talk) = nodes.send_and_kill().await;
    let delivered = tokio::time::timeout(DELIVERED_WITHIN, stream.seqs(1)).await;
    assert_eq!(delivered.expect("it is delivered in time"), [2]);

    let again = MessageServiceClient::new(other.channel()).send_message(message(talk, "last")).await.unwrap();
    let again = again.into_inner();
    assert_eq!((again.seq, again.replayed), (2, true), "it was stored before the node died");
    talk.say(&other, "later").await;
    assert_eq!(stream.seqs(1).await, [3], "neither is delivered again");
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn message_of_a_node_that_was_cut_from_redis_is_delivered_when_it_is_killed() {
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
    let mut service = MessageServiceClient::new(nodes.other.channel());
    let mut pushes = service.watch_offline(WatchOfflineRequest::default()).await.unwrap().into_inner();
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
