//! A store returns stale ends for some seconds after a failover: callers cope with that.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_proto::message::v1::{
    ClearConversationRequest, CountUnreadRequest, EraseUserMessagesRequest, EraseUserMessagesResponse,
    ErasureState, GetMaxSeqsRequest, HideConversationRequest, ListConversationsRequest, MarkReadRequest,
    Position, RecallMessageRequest, SendMessageRequest, max_seq_result::Result as Max,
    message_service_client::MessageServiceClient, send_message_request::To,
};
use kith_server::{config::Config, edge::Edge, node::services::Services};
use kith_store::*;
use tonic::Code;

use crate::bare_node::{self, user};
use crate::node::{assert_error, assert_not_found, until};
use crate::store_over::store_over;

/// Another store's messages. While it is behind, each log seems to lack its last message, until an end is
/// read with strong consistency.
#[derive(Debug)]
struct BehindStore {
    store: Arc<dyn MessageStore>,
    is_behind: AtomicBool,
    strong: AtomicUsize,
    /// How often ends were read.
    ends: AtomicUsize,
    /// How often heads were read.
    heads: AtomicUsize,
}

impl BehindStore {
    fn lacks(&self) -> Seq {
        Seq::from(self.is_behind.load(Ordering::Relaxed))
    }
}

store_over! {
    MessageStore for BehindStore by store {
        async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
            self.heads.fetch_add(1, Ordering::Relaxed);
            let mut heads = self.store.heads(asked).await?;
            for (head, (conversation, _)) in heads.iter_mut().zip(asked) {
                let end = head.last.as_ref().map_or(0, |last| last.seq) - self.lacks();
                head.last =
                    if end > 0 { self.store.messages(*conversation, end, end).await?.pop() } else { None };
                head.headers.retain(|header| header.seq <= end);
            }
            Ok(heads)
        }

        async fn messages(
            &self,
            conversation: ConversationId,
            first: Seq,
            last: Seq,
        ) -> Result<Vec<Message>, StoreError> {
            let mut found = self.store.messages(conversation, first, last).await?;
            let end = self.store.strong_end(conversation).await? - self.lacks();
            found.retain(|message| message.seq <= end);
            Ok(found)
        }

        async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
            self.ends.fetch_add(1, Ordering::Relaxed);
            let mut ends = self.store.ends(conversations).await?;
            ends.iter_mut().for_each(|end| end.seq = (end.seq - self.lacks()).max(0));
            Ok(ends)
        }

        async fn strong_end(&self, conversation: ConversationId) -> Result<Seq, StoreError> {
            self.is_behind.store(false, Ordering::Relaxed);
            self.strong.fetch_add(1, Ordering::Relaxed);
            self.store.strong_end(conversation).await
        }
    }
    fn append(conversation: ConversationId, batch: &[NewMessage]) -> Vec<Appended>;
    fn document(key: DocumentKey) -> Option<LogDocument>;
    fn change(conversation: ConversationId, change: &MessageChange) -> MessageChangeOutcome;
    fn headers(conversation: ConversationId, first: Seq, last: Seq) -> Vec<StoredHeader>;
    fn seq_at(conversation: ConversationId, time: Timestamp) -> Seq;
}

/// Another store's documents. While the log is behind, no document has any content.
#[derive(Debug)]
struct LateSearch {
    store: Arc<dyn MessageUpkeep>,
    log: Arc<BehindStore>,
}

store_over! {
    MessageUpkeep for LateSearch by store {
        async fn documents_sent_by(
            &self,
            log: ConversationId,
            sender: UserId,
            from: Seq,
        ) -> Result<SentDocuments, StoreError> {
            if self.log.lacks() > 0 {
                return Ok(SentDocuments { firsts: Vec::new(), next: None });
            }
            self.store.documents_sent_by(log, sender, from).await
        }
    }
    fn trim(log: ConversationId, below: Seq, now: Timestamp) -> TrimResult;
    fn aged(highest: Range<Timestamp>, limit: usize) -> Vec<AgedDocument>;
    fn settle_aged(documents: &[AgedDocument]) -> ();
    fn complete_times(from: Option<DocumentKey>, limit: usize) -> CompletedTimes;
    fn erase_document(log: ConversationId, first: Seq, sender: UserId, now: Timestamp) -> u64;
}

/// Two users. The second has three unread messages from the first.
struct Stage {
    edge: Edge,
    services: Services,
    log: Arc<BehindStore>,
    sender: i64,
    reader: i64,
    conversation: String,
}

impl Stage {
    async fn new() -> Self {
        let mut config = Config::default();
        config.limits.write_answer = Duration::from_secs(8);
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let mut stores = file.stores();
        let store = Arc::clone(&stores.messages);
        let log = Arc::new(BehindStore {
            store,
            is_behind: AtomicBool::default(),
            strong: AtomicUsize::default(),
            ends: AtomicUsize::default(),
            heads: AtomicUsize::default(),
        });
        stores.messages = Arc::<BehindStore>::clone(&log);
        let store = Arc::clone(&stores.message_upkeep);
        stores.message_upkeep = Arc::new(LateSearch { store, log: Arc::clone(&log) });
        let (edge, services) = bare_node::serve(&stores, &config).await;
        let (sender, reader) = (user(&edge, 0, "ann").await, user(&edge, 0, "bea").await);
        for _ in 0..3 {
            say(&edge, sender, reader).await;
        }
        Self { edge, services, log, sender, reader, conversation: format!("d{sender}-{reader}") }
    }

    fn messages(&self) -> MessageServiceClient<Edge> {
        MessageServiceClient::new(self.edge.clone())
    }

    /// Lets the store fall behind, and counts from 0 how often an end is read with strong consistency.
    fn fall_behind(&self) {
        self.log.is_behind.store(true, Ordering::Relaxed);
        self.log.strong.store(0, Ordering::Relaxed);
    }

    fn strong(&self) -> usize {
        self.log.strong.load(Ordering::Relaxed)
    }

    fn known(&self, seq: i64) -> Vec<Position> {
        vec![Position { conversation_id: self.conversation.clone(), seq }]
    }

    /// Returns the last number, the unread count, and whether the last message is there, as the list shows
    /// them.
    async fn listed(&self, at_least: Vec<Position>) -> (i64, i64, bool) {
        let request = ListConversationsRequest { user_id: self.reader, at_least, ..Default::default() };
        let list = self.messages().list_conversations(request).await.unwrap().into_inner();
        let one = &list.conversations[0];
        (one.max_seq, one.unread, one.last_message.as_ref().is_some_and(|last| last.seq == one.max_seq))
    }

    async fn unread(&self, conversation_ids: Vec<String>, at_least: Vec<Position>) -> i64 {
        let request = CountUnreadRequest { user_id: self.reader, conversation_ids, at_least };
        self.messages().count_unread(request).await.unwrap().into_inner().total
    }

    async fn max_seq(&self, at_least: Vec<Position>) -> Max {
        let conversation_ids = vec![self.conversation.clone()];
        let request = GetMaxSeqsRequest { user_id: self.reader, conversation_ids, at_least };
        let mut results = self.messages().get_max_seqs(request).await.unwrap().into_inner().results;
        results.remove(0).result.unwrap()
    }
}

async fn say(edge: &Edge, by: i64, to: i64) {
    let message = SendMessageRequest {
        to: Some(To::UserId(to)),
        sender_id: by,
        body: "hi".into(),
        ..Default::default()
    };
    MessageServiceClient::new(edge.clone()).send_message(message).await.unwrap();
}

#[tokio::test]
async fn list_shows_what_the_caller_knows() {
    let stage = Stage::new().await;
    stage.fall_behind();
    assert_eq!(stage.listed(Vec::new()).await, (2, 2, true));
    assert_eq!(stage.listed(stage.known(3)).await, (3, 3, true));
}

#[tokio::test]
async fn list_of_a_page_reads_heads_once() {
    let stage = Stage::new().await;
    for name in ["cid", "dan"] {
        say(&stage.edge, user(&stage.edge, 0, name).await, stage.reader).await;
    }
    let reads = || [&stage.log.heads, &stage.log.ends].map(|count| count.swap(0, Ordering::Relaxed));
    reads();
    let request = ListConversationsRequest { user_id: stage.reader, ..Default::default() };
    let list = stage.messages().list_conversations(request).await.unwrap().into_inner();
    assert_eq!((list.conversations.len(), reads()), (3, [1, 0]));
    let request = ListConversationsRequest { user_id: stage.reader, page_size: 2, ..Default::default() };
    let list = stage.messages().list_conversations(request).await.unwrap().into_inner();
    assert_eq!((list.conversations.len(), reads()), (2, [1, 1]));
}

#[tokio::test]
async fn count_has_what_the_caller_knows() {
    let stage = Stage::new().await;
    for ids in [Vec::new(), vec![stage.conversation.clone()]] {
        stage.fall_behind();
        assert_eq!(stage.unread(ids.clone(), Vec::new()).await, 2);
        assert_eq!(stage.unread(ids, stage.known(3)).await, 3);
    }
}

#[tokio::test]
async fn max_seq_is_not_below_what_the_caller_knows() {
    let stage = Stage::new().await;
    stage.fall_behind();
    assert_eq!(stage.max_seq(Vec::new()).await, Max::MaxSeq(2));
    assert_eq!(stage.max_seq(stage.known(3)).await, Max::MaxSeq(3));
}

#[tokio::test]
async fn ends_that_are_known_already_are_read_once() {
    let stage = Stage::new().await;
    stage.fall_behind();
    stage.listed(stage.known(2)).await;
    stage.unread(Vec::new(), stage.known(2)).await;
    stage.max_seq(stage.known(2)).await;
    assert_eq!(stage.strong(), 0);
}

#[tokio::test]
async fn mark_of_a_late_visible_message_is_made() {
    let stage = Stage::new().await;
    stage.fall_behind();
    let mark = async |seq| {
        let (user_id, conversation_id) = (stage.reader, stage.conversation.clone());
        let request = MarkReadRequest { user_id, conversation_id, up_to: seq, ..Default::default() };
        stage.messages().mark_read(request).await
    };
    assert_eq!(mark(2).await.unwrap().into_inner().read_seq, 2);
    assert_eq!(stage.strong(), 0);
    assert_eq!(mark(3).await.unwrap().into_inner().read_seq, 3);
    assert_eq!(stage.strong(), 1);
    assert_error(mark(4).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
}

/// Otherwise a caller could make the node read any conversations in the most expensive way.
#[tokio::test]
async fn positions_of_other_conversations_read_nothing() {
    let stage = Stage::new().await;
    let others: Vec<_> =
        (1..=100).map(|group| Position { conversation_id: format!("g{group}"), seq: i64::MAX }).collect();
    stage.fall_behind();
    stage.listed(others.clone()).await;
    stage.unread(Vec::new(), others.clone()).await;
    stage.max_seq(others).await;
    assert_eq!(stage.strong(), 0);
}

#[tokio::test]
async fn stranger_causes_no_read_of_the_log() {
    let stage = Stage::new().await;
    let stranger = user(&stage.edge, 0, "cid").await;
    stage.fall_behind();
    for user_id in [stranger, i64::MAX] {
        let conversation_id = stage.conversation.clone();
        let hide = HideConversationRequest { user_id, conversation_id, ..Default::default() };
        assert_not_found(stage.messages().hide_conversation(hide).await);
        let conversation_id = stage.conversation.clone();
        let clear = ClearConversationRequest { user_id, conversation_id, ..Default::default() };
        assert_not_found(stage.messages().clear_conversation(clear).await);
    }
    assert_eq!(stage.strong(), 0);
}

#[tokio::test]
async fn reader_hides_up_to_the_end() {
    let stage = Stage::new().await;
    stage.fall_behind();
    let (user_id, conversation_id) = (stage.reader, stage.conversation.clone());
    let hide = HideConversationRequest { user_id, conversation_id, ..Default::default() };
    assert_eq!(stage.messages().hide_conversation(hide).await.unwrap().into_inner().hidden_seq, 3);
    assert_eq!(stage.strong(), 1);
}

/// No message has this number: the end is read again, and is unchanged.
#[tokio::test]
async fn position_beyond_the_end_changes_nothing() {
    let stage = Stage::new().await;
    assert_eq!(stage.listed(stage.known(i64::MAX)).await, (3, 3, true));
    assert_eq!(stage.unread(Vec::new(), stage.known(i64::MAX)).await, 3);
    assert_eq!(stage.max_seq(stage.known(4)).await, Max::MaxSeq(3));
}

#[tokio::test]
async fn erasure_covers_what_the_store_shows_late() {
    let stage = Stage::new().await;
    stage.fall_behind();
    let mut erased = EraseUserMessagesResponse::default();
    stage.services.message_upkeep.start();
    until(async || {
        let request = EraseUserMessagesRequest { user_id: stage.sender, again: false };
        erased = stage.messages().erase_user_messages(request).await.unwrap().into_inner();
        erased.state() == ErasureState::Finished
    })
    .await;
    assert_eq!((erased.conversations_done, erased.messages), (1, 3));
}

#[tokio::test]
async fn late_visible_message_is_recalled() {
    let stage = Stage::new().await;
    stage.fall_behind();
    let recall = async |seq| {
        let (user_id, conversation_id) = (stage.sender, stage.conversation.clone());
        let request = RecallMessageRequest { user_id, conversation_id, seq };
        stage.messages().recall_message(request).await
    };
    assert!(recall(3).await.unwrap().into_inner().message.unwrap().recall.is_some());
    assert_eq!(stage.strong(), 1);
    assert_error(recall(9).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
}
