//! A conversation's last messages, read through Redis.

use std::time::Duration;

use kith_proto::message::v1::{send_message_request::To, *};
use kith_server::config::Config;
use tonic::Request;

use crate::{
    cluster::{
        hand::set_body,
        site::{Peer, Site, stop, with_relations},
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
        let conversation_id = self.id();
        let request =
            PullMessagesRequest { conversation_id, from_seq, limit: 1_000, ..PullMessagesRequest::default() };
        let answer = node.messages().pull_messages(acting(self.bea, request)).await.unwrap().into_inner();
        texts(answer.messages)
    }

    /// Returns the last messages that Bea reads, the latest first.
    pub(super) async fn last(self, node: &Peer, limit: i32) -> Vec<String> {
        let request = HistoryRequest { conversation_id: self.id(), limit, ..HistoryRequest::default() };
        let answer = node.messages().history(acting(self.bea, request)).await.unwrap().into_inner();
        texts(answer.messages)
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
    let metrics = node.operations("/metrics").await;
    let line = metrics.lines().find(|line| line.starts_with("kith_window_reads_total{result=\"hit\"}"));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
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
