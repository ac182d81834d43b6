//! A conversation's last messages, read through Redis: as they were sent on another node, and while Redis is
//! away.

use std::time::Duration;

use kith_proto::message::v1::{
    HistoryRequest, ListConversationsRequest, Message, PullBySeqsRequest, PullMessagesRequest,
    SendMessageRequest, send_message_request::To,
};
use kith_server::config::Config;
use tonic::Request;

use crate::{
    cluster::{
        hand::set_body,
        redis::Redis,
        site::{Peer, Site, stop, until_all_follow, with_relations},
    },
    polls::until,
};

/// The two users in a direct conversation.
#[derive(Clone, Copy)]
pub(super) struct DirectChat {
    pub(super) ann: i64,
    pub(super) bea: i64,
}

impl DirectChat {
    pub(super) async fn begin(node: &Peer) -> Self {
        let (ann, bea) = (node.create("ann").await.user_id, node.create("bea").await.user_id);
        Self { ann, bea }
    }

    pub(super) fn id(self) -> String {
        format!("d{}-{}", self.ann.min(self.bea), self.ann.max(self.bea))
    }

    /// Sends a text from Ann to Bea. Returns the number.
    pub(super) async fn send(self, node: &Peer, body: &str) -> i64 {
        let request = SendMessageRequest {
            to: Some(To::UserId(self.bea)),
            content_type: "text/plain".to_owned(),
            body: body.to_owned().into(),
            ..SendMessageRequest::default()
        };
        node.messages().send_message(acting(self.ann, request)).await.unwrap().into_inner().seq
    }

    /// Returns the messages that Bea reads from this number on.
    pub(super) async fn read(self, node: &Peer, from_seq: i64) -> Vec<String> {
        self.read_at_least(node, from_seq, 0).await
    }

    /// Returns the messages that Bea reads from this number on, who knows of another number.
    async fn read_at_least(self, node: &Peer, from_seq: i64, at_least_seq: i64) -> Vec<String> {
        let request = PullMessagesRequest {
            conversation_id: self.id(),
            from_seq,
            limit: 1_000,
            at_least_seq,
            ..PullMessagesRequest::default()
        };
        let answer = node.messages().pull_messages(acting(self.bea, request)).await.unwrap().into_inner();
        texts(answer.messages)
    }

    /// Returns the last messages that Bea reads, the latest first.
    pub(super) async fn last(self, node: &Peer, limit: i32) -> Vec<String> {
        let request = HistoryRequest { conversation_id: self.id(), limit, ..HistoryRequest::default() };
        let answer = node.messages().history(acting(self.bea, request)).await.unwrap().into_inner();
        texts(answer.messages)
    }

    /// Returns the last message number and the unread count, as Bea's list shows them.
    async fn listed(self, node: &Peer) -> (i64, i64) {
        let request = ListConversationsRequest { user_id: self.bea, ..ListConversationsRequest::default() };
        let answer =
            node.messages().list_conversations(acting(self.bea, request)).await.unwrap().into_inner();
        let listed = &answer.conversations[0];
        (listed.last_message.as_ref().unwrap().seq, listed.unread)
    }
}

/// Starts two nodes that follow, with a block store.
pub(super) async fn pair(site: Site) -> (Peer, Peer) {
    let patient = |config: &mut Config| {
        with_relations(config);
        // A node that gets no answer from Redis in time has lost it for that moment, and others may read
        // without its message. This test is not about that, and a busy machine may need longer than 100 ms.
        config.redis.command_timeout = Duration::from_secs(1);
    };
    site.nodes(patient).await.into()
}

pub(super) fn acting<T>(user: i64, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("kith-acting-user", user.to_string().parse().unwrap());
    request
}

fn texts(messages: Vec<Message>) -> Vec<String> {
    messages.into_iter().map(|message| String::from_utf8(message.body.to_vec()).unwrap()).collect()
}

/// Counts the reads that this process's windows have answered.
pub(super) async fn hits(node: &Peer) -> u64 {
    counted(node, "kith_window_reads_total{result=\"hit\"}").await
}

/// Counts the window appends that Redis did not take in time: after such an append, another node may read
/// without the message for a while.
async fn appends_that_failed(nodes: [&Peer; 2]) -> [u64; 2] {
    let [a, b] = nodes.map(|node| counted(node, "kith_window_appends_total{result=\"failed\"}"));
    [a.await, b.await]
}

async fn counted(node: &Peer, series: &str) -> u64 {
    let metrics = node.operations("/metrics").await;
    let line = metrics.lines().find(|line| line.starts_with(series));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn acknowledged_message_is_read_on_other_nodes() {
    let (a, b) = pair(Site::in_redis_of_tests()).await;
    let chat = DirectChat::begin(&a).await;
    chat.send(&a, "1").await;
    // The window exists without the messages that follow.
    until(Duration::from_secs(5), async || {
        let before = hits(&b).await;
        chat.last(&b, 1).await;
        hits(&b).await > before
    })
    .await;
    for number in 2..=250_i64 {
        let (writer, reader) = if number % 3 == 0 { (&b, &a) } else { (&a, &b) };
        assert_eq!(chat.send(writer, &number.to_string()).await, number);
        let read = match number % 4 {
            0 => chat.listed(reader).await.0,
            1 => chat.last(reader, 1).await[0].parse().unwrap(),
            2 => chat.read(reader, number).await[0].parse().unwrap(),
            _ => chat.listed(reader).await.1,
        };
        // A list counts the unread messages among the last 100.
        let expected = if number % 4 == 3 { number.min(100) } else { number };
        assert_eq!(read, expected, "failed appends: {:?}", appends_that_failed([&a, &b]).await);
    }
    let all: Vec<String> = (1..=250).map(|number: i64| number.to_string()).collect();
    assert_eq!(chat.read(&b, 0).await, all, "documents and the window meet");
    let latest: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(chat.last(&a, 250).await, latest);
    let request = PullBySeqsRequest {
        conversation_id: chat.id(),
        seqs: vec![250, 151, 150, 1, 251, 100, 101],
        ..PullBySeqsRequest::default()
    };
    let found = b.messages().pull_by_seqs(acting(chat.bea, request)).await.unwrap().into_inner();
    assert_eq!(texts(found.messages), ["1", "100", "101", "150", "151", "250"]);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn messages_continue_while_redis_is_gone() {
    let mut redis = Redis::start(&[]).await;
    let (a, b) = pair(Site::new(Some(redis.url()))).await;
    let chat = DirectChat::begin(&a).await;
    let mut sent = 0;
    let mut exchange = async |reads_last: bool| {
        for _ in 0..20 {
            sent += 1;
            assert_eq!(chat.send(&a, &sent.to_string()).await, sent);
            if reads_last {
                assert_eq!(chat.last(&b, 1).await, [sent.to_string()]);
            } else {
                assert_eq!(chat.read_at_least(&b, sent, sent).await, [sent.to_string()]);
            }
        }
        let all: Vec<String> = (1..=sent).map(|number| number.to_string()).collect();
        for node in [&a, &b] {
            assert_eq!(chat.read_at_least(node, 0, sent).await, all);
        }
    };
    exchange(true).await;
    redis.kill();
    exchange(true).await;
    redis.run().await;
    // B may be in the new epoch before A is. What A sends until then, B reads as of a node that is cut off.
    exchange(false).await;
    until_all_follow([&a, &b]).await;
    exchange(true).await;
    stop([a, b]).await;
}

/// How soon a change by hand is seen.
const SEEN_WITHIN: Duration = Duration::from_secs(11);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn message_changed_by_hand_is_read_everywhere() {
    let site = Site::in_redis_of_tests();
    let (a, b) = pair(site.clone()).await;
    let chat = DirectChat::begin(&a).await;
    for number in 1..=120_i64 {
        chat.send(&a, &number.to_string()).await;
    }
    // The first is read from a document in memory, the others from the window.
    for (seq, body) in [(5, "in memory"), (60, "in Redis"), (60, "again")] {
        let place = usize::try_from(seq).unwrap() - 1;
        // Each read lets the node copy all messages.
        for node in [&a, &b] {
            until(Duration::from_secs(5), async || {
                let before = hits(node).await;
                chat.read(node, 0).await;
                hits(node).await > before
            })
            .await;
        }
        set_body(&site.database, &chat.id(), place, body);
        until(SEEN_WITHIN, async || {
            chat.read(&a, seq).await[0] == body && chat.read(&b, seq).await[0] == body
        })
        .await;
    }
    stop([a, b]).await;
}
