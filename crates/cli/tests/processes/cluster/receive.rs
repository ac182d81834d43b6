//! Streams with new messages over several nodes: through Redis, without it, and in a new epoch.

use std::time::Duration;

use kith_proto::{
    admin::v1::StartEpochRequest,
    message::v1::{Message, Position, ReceiveRequest, ReceiveResponse, Reset, delivery::What},
};
use tonic::{Code, Status, Streaming};

use crate::cluster::{
    redis::{Redis, ask},
    site::{Peer, Site, stop, until_all_follow, variable},
    windows::{DirectChat, acting, pair},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A stream that Bea receives.
pub(super) struct Stream {
    stream: Streaming<ReceiveResponse>,
    waiting: Vec<What>,
    cursor: String,
}

impl Stream {
    async fn open(node: &Peer, chat: DirectChat, request: ReceiveRequest) -> Self {
        let stream = node.messages().receive(acting(chat.bea, request)).await.unwrap().into_inner();
        Self { stream, waiting: Vec::new(), cursor: String::new() }
    }

    pub(super) async fn live(node: &Peer, chat: DirectChat) -> Self {
        let mut stream = Self::open(node, chat, ReceiveRequest { now: true, ..Default::default() }).await;
        assert!(matches!(stream.next().await.unwrap(), Some(What::Live(_))));
        stream
    }

    /// Opens a stream from Bea's position.
    async fn above(node: &Peer, chat: DirectChat, seq: i64) -> Self {
        let positions = vec![Position { conversation_id: chat.id(), seq }];
        Self::open(node, chat, ReceiveRequest { positions, ..Default::default() }).await
    }

    async fn next(&mut self) -> Result<Option<What>, Status> {
        while self.waiting.is_empty() {
            let next =
                tokio::time::timeout(PATIENCE, self.stream.message()).await.expect("it comes in time")?;
            let Some(response) = next else { return Ok(None) };
            if !response.cursor.is_empty() {
                self.cursor = response.cursor;
            }
            self.waiting.extend(response.deliveries.into_iter().rev().filter_map(|delivery| delivery.what));
        }
        Ok(self.waiting.pop())
    }

    /// Returns the next messages' numbers; other events are ignored.
    pub(super) async fn seqs(&mut self, count: usize) -> Vec<i64> {
        let mut seqs = Vec::new();
        while seqs.len() < count {
            match self.next().await.unwrap().expect("the stream goes on") {
                What::Message(Message { seq, .. }) => seqs.push(seq),
                What::Reset(Reset {}) => panic!("reset after {seqs:?}"),
                _ => {}
            }
        }
        seqs
    }

    /// Waits for the reset, with which the stream ends. Returns the last number that came before it.
    async fn until_reset(&mut self) -> i64 {
        let mut last = 0;
        loop {
            match self.next().await.unwrap().expect("the stream goes on") {
                What::Message(Message { seq, .. }) => last = seq,
                What::Reset(Reset {}) => break,
                _ => {}
            }
        }
        assert_eq!(self.next().await.unwrap(), None);
        last
    }
}

async fn send(chat: DirectChat, node: &Peer, count: i64) {
    for _ in 0..count {
        chat.send(node, "x").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn stream_moves_to_another_node_with_its_cursor() {
    let (a, b) = pair(Site::in_redis_of_tests()).await;
    let chat = DirectChat::begin(&a).await;
    let mut stream = Stream::live(&b, chat).await;
    for number in 1..=20 {
        send(chat, if number % 2 == 0 { &a } else { &b }, 1).await;
        assert_eq!(stream.seqs(1).await, [number]);
    }
    let (ended, ()) = tokio::join!(stream.next(), b.stop());
    assert_eq!(ended.unwrap_err().code(), Code::Unavailable);
    send(chat, &a, 3).await;
    let request = ReceiveRequest { cursor: stream.cursor, ..Default::default() };
    let mut again = Stream::open(&a, chat, request).await;
    assert_eq!(again.seqs(3).await, [21, 22, 23]);
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn new_epoch_resets_streams_at_positions() {
    let (a, b) = pair(Site::in_redis_of_tests()).await;
    let chat = DirectChat::begin(&a).await;
    let mut stream = Stream::live(&b, chat).await;
    send(chat, &a, 2).await;
    assert_eq!(stream.seqs(2).await, [1, 2]);
    let cursor = stream.cursor.clone();
    a.admin().start_epoch(StartEpochRequest {}).await.unwrap();
    until_all_follow([&a, &b]).await;
    send(chat, &a, 2).await;
    let had = stream.until_reset().await.max(2);
    let request = ReceiveRequest { cursor, ..Default::default() };
    Stream::open(&b, chat, request).await.until_reset().await;
    let mut stream = Stream::above(&b, chat, had).await;
    let rest: Vec<i64> = (had + 1..=4).collect();
    assert_eq!(stream.seqs(rest.len()).await, rest);
    send(chat, &a, 1).await;
    assert_eq!(stream.seqs(1).await, [5]);
    stop([a, b]).await;
}

/// Returns the key with this part for Bea's inbox.
async fn key(url: &str, site: &Site, part: &str, chat: DirectChat) -> String {
    let line = format!("KEYS *{}*:{part}:{}", site.prefix, chat.bea);
    ask(url, &line).await.rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn evicted_inbox_resets_those_that_lack_entries() {
    let (url, site) = (variable("KITH_TEST_REDIS"), Site::in_redis_of_tests());
    let (a, b) = pair(site.clone()).await;
    let chat = DirectChat::begin(&a).await;
    let mut stream = Stream::live(&b, chat).await;
    let cursor = stream.cursor.clone();
    send(chat, &a, 1).await;
    assert_eq!(stream.seqs(1).await, [1]);
    let entries = key(&url, &site, "s", chat).await;
    ask(&url, &format!("DEL {entries}")).await;
    send(chat, &a, 1).await;
    assert_eq!(stream.seqs(1).await, [2], "it had all entries");
    let request = ReceiveRequest { cursor, ..Default::default() };
    Stream::open(&b, chat, request).await.until_reset().await;

    let inbox = key(&url, &site, "m", chat).await;
    ask(&url, &format!("DEL {inbox}")).await;
    send(chat, &a, 1).await;
    assert_eq!(stream.until_reset().await, 0, "nothing is sent without the inbox");
    let mut stream = Stream::above(&b, chat, 2).await;
    assert_eq!(stream.seqs(1).await, [3]);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lost_subscription_loses_no_message() {
    let redis = Redis::start(&[]).await;
    let (a, b) = pair(Site::new(Some(redis.url()))).await;
    let chat = DirectChat::begin(&a).await;
    let mut stream = Stream::live(&b, chat).await;
    for number in 1..=5 {
        ask(&redis.url(), "CLIENT KILL TYPE pubsub").await;
        send(chat, &a, 1).await;
        assert_eq!(stream.seqs(1).await, [number]);
    }
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn receivers_share_the_connections_of_their_node() {
    let redis = Redis::start(&[]).await;
    let (a, b) = pair(Site::new(Some(redis.url()))).await;
    let chat = DirectChat::begin(&a).await;
    let connections = async || {
        let clients = ask(&redis.url(), "CLIENT LIST TYPE normal").await.matches("addr=").count();
        clients + ask(&redis.url(), "CLIENT LIST TYPE pubsub").await.matches("addr=").count()
    };
    let mut first = Stream::live(&b, chat).await;
    let before = connections().await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let user = DirectChat { bea: b.create(&format!("user{}", streams.len())).await.user_id, ..chat };
        streams.push(Stream::live(&b, user).await);
    }
    assert!(connections().await <= before, "a stream has no connection of its own");
    send(chat, &a, 1).await;
    assert_eq!(first.seqs(1).await, [1]);
    stop([a, b]).await;
}
