//! Changes that the reader of the document feed keeps, in MongoDB.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use futures::TryStreamExt as _;
use kith_store::{
    ContentHash, ConversationId, FeedRecord, MessageKey, MessageKind, NewMessage, Timestamp, UserId,
};
use kith_store_cluster::{MongoOptions, connect};
use mongodb::{Client, Database, bson::Document};
use tokio::time::timeout;

use super::*;

/// No change takes this long.
const BOUND: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(600);
const TEXT: &str = "sesame, open";

/// A fresh database with the document feed.
struct FeedStage {
    stores: Stores,
    database: Database,
    feed: StoreFeed,
}

impl FeedStage {
    /// Runs a case for a feed whose position is known and whose lead is taken.
    #[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
    async fn run(changes: ChangesConfig, case: impl AsyncFnOnce(&Self)) {
        let uri = std::env::var("KITH_TEST_MONGODB").expect("KITH_TEST_MONGODB names a MongoDB replica set");
        let name = format!("kith_test_{:016x}", rand::random::<u64>());
        let database = Client::with_uri_str(&uri).await.unwrap().database(&name);
        let options =
            MongoOptions { appends_in_feed: !changes.kept.is_zero(), ..MongoOptions::new(uri, name) };
        let stores = connect(options).await.unwrap().stores();
        stores.migrations.migrate().await.unwrap();
        let feed = feed(&stores, "a", changes);
        assert!(feed.begin_new().await.unwrap());
        assert!(feed.lead(LONG).await.unwrap());
        let stage = Self { stores, database, feed };
        case(&stage).await;
        stage.database.drop().await.unwrap();
    }

    async fn send(&self, conversation: &str, ids: std::ops::Range<u32>) {
        let messages: Vec<NewMessage> = ids.map(message).collect();
        let appended = self.stores.messages.append(conversation.parse().unwrap(), &messages).await.unwrap();
        assert_eq!(appended.len(), messages.len());
    }

    async fn generation(&self) -> Option<u64> {
        self.stores.changes.changes_extent().await.unwrap().map(|extent| extent.generation)
    }

    /// All kept changes. Asserts that their entries have contiguous numbers.
    async fn kept(&self) -> Vec<FeedChange> {
        let entries = self.stores.changes.changes_after(&self.feed.name, 0).await.unwrap();
        let first = entries.first().map_or(0, |entry| entry.number);
        assert!(entries.iter().zip(first..).all(|(entry, number)| entry.number == number));
        entries.into_iter().flat_map(|entry| entry.changes).collect()
    }

    /// The numbers of a conversation's kept messages. Asserts that the first time that each occurs is in
    /// order.
    async fn kept_seqs(&self, conversation: &str) -> i64 {
        let conversation: ConversationId = conversation.parse().unwrap();
        let mut end = 0;
        for change in self.kept().await {
            if let FeedRecord::Messages(of, seqs) = change.record
                && of == conversation
            {
                assert!(seqs.first <= end + 1, "messages after {end} are missed: {seqs:?}");
                end = seqs.last.max(end);
            }
        }
        end
    }

    /// Reads the feed until as many messages of a conversation are kept.
    async fn read_until(&self, open: &mut dyn Changes, conversation: &str, seq: i64) {
        let read = async {
            while self.kept_seqs(conversation).await < seq {
                open.next(Duration::from_millis(100)).await.unwrap();
            }
        };
        timeout(BOUND, read).await.unwrap();
    }

    async fn stored_documents(&self) -> Vec<Document> {
        let documents = self.database.collection::<Document>("changes");
        documents.find(Document::new()).await.unwrap().try_collect().await.unwrap()
    }
}

fn feed(stores: &Stores, holder: &str, changes: ChangesConfig) -> StoreFeed {
    let mappings: Arc<[Arc<dyn FeedMapping>]> = Arc::new([]);
    StoreFeed::all(stores, &mappings, holder, changes).remove(0)
}

fn kept() -> ChangesConfig {
    ChangesConfig { kept: LONG, ..ChangesConfig::default() }
}

fn message(number: u32) -> NewMessage {
    let (sender, id) = (UserId::new(7).ok(), format!("m-{number}"));
    NewMessage {
        key: MessageKey::of(sender, &id),
        hash: ContentHash::of("text/plain", TEXT.as_bytes()),
        sender,
        sent: Timestamp(1),
        kind: MessageKind::Message,
        content_type: "text/plain".into(),
        body: TEXT.into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: Some(id.as_str().into()),
    }
}

/// Whether bytes occur in a document's bytes.
fn contains(document: &Document, text: &str) -> bool {
    let bytes = mongodb::bson::serialize_to_vec(document).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn sent_messages_are_kept_without_their_contents() {
    FeedStage::run(kept(), async |stage| {
        let mut open = stage.feed.open(false).await.unwrap();
        // One message, several, and more than a document takes.
        for ids in [0..1, 1..2, 2..40, 40..75, 75..140, 140..141] {
            stage.send("g9", ids.clone()).await;
            stage.send("d7-8", ids).await;
        }
        for conversation in ["g9", "d7-8"] {
            stage.read_until(&mut *open, conversation, 141).await;
        }
        let stored = stage.stored_documents().await;
        assert!(!stored.is_empty());
        for document in &stored {
            assert!(!contains(document, "sesame") && !contains(document, "m-1"), "{document}");
        }
        let sent = stage.database.collection::<Document>("messages").find_one(Document::new()).await;
        assert!(contains(&sent.unwrap().unwrap(), "sesame"), "it would be found");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn two_leaders_leave_no_gap() {
    FeedStage::run(kept(), async |stage| {
        let other = feed(&stage.stores, "b", kept());
        let mut leaders = [stage.feed.open(false).await.unwrap(), other.open(false).await.unwrap()];
        stage.send("g9", 0..3).await;
        let [first, second] = &mut leaders;
        stage.read_until(&mut **first, "g9", 3).await;
        let stopped = timeout(BOUND, async {
            loop {
                if let Err(error) = second.next(Duration::from_millis(100)).await {
                    return error;
                }
            }
        });
        assert_eq!(stopped.await.unwrap(), FeedError::Unavailable);
        stage.send("g9", 3..5).await;
        stage.read_until(&mut **first, "g9", 5).await;
        assert_eq!(stage.kept().await.len(), 2, "the second has kept nothing");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn leader_that_dies_leaves_no_gap() {
    FeedStage::run(kept(), async |stage| {
        let mut open = stage.feed.open(false).await.unwrap();
        stage.send("g9", 0..3).await;
        stage.read_until(&mut *open, "g9", 3).await;
        let generation = stage.generation().await;
        // It dies before it saves its mark, and before it reads all.
        stage.send("g9", 3..6).await;
        drop(open);
        let before = stage.kept().await;
        let mut next = stage.feed.open(false).await.unwrap();
        stage.read_until(&mut *next, "g9", 6).await;
        let after = stage.kept().await;
        assert_eq!(after[..before.len()], before, "entries stay");
        assert!(after[before.len()..].starts_with(&before), "they are kept again: {after:?}");
        let mark = next.position().mark;
        assert!(next.save(&mark).await.unwrap());
        drop(next);
        let mut last = stage.feed.open(false).await.unwrap();
        stage.send("g9", 6..7).await;
        stage.read_until(&mut *last, "g9", 7).await;
        assert_eq!(stage.kept().await.len(), after.len() + 1);
        assert_eq!(stage.generation().await, generation);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lost_feed_begins_a_generation() {
    FeedStage::run(kept(), async |stage| {
        let mut open = stage.feed.open(false).await.unwrap();
        stage.send("g9", 0..3).await;
        stage.read_until(&mut *open, "g9", 3).await;
        let before = stage.generation().await;
        stage.database.collection::<Document>("groups").drop().await.unwrap();
        let lost = timeout(BOUND, async { while open.next(FIRST).await.is_ok() {} });
        lost.await.unwrap();
        let old = stage.stores.coordination.mark(&stage.feed.name).await.unwrap();
        let mut again = stage.feed.open(true).await.unwrap();
        let after = stage.generation().await;
        assert!(after.is_some() && after != before);
        assert_eq!(stage.stores.coordination.mark(&stage.feed.name).await.unwrap(), old, "not saved yet");
        assert_eq!(stage.kept().await, []);
        stage.send("g9", 3..4).await;
        let changes = async {
            while stage.kept().await.is_empty() {
                again.next(FIRST).await.unwrap();
            }
        };
        timeout(BOUND, changes).await.unwrap();
        let positions = stage.stores.changes.changes_extent().await.unwrap().unwrap().feeds;
        assert!(positions[&stage.feed.name].first > 1, "positions continue");
        assert_eq!(stage.generation().await, after);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn nothing_is_kept_where_it_is_not_configured() {
    FeedStage::run(ChangesConfig::default(), async |stage| {
        let mut open = stage.feed.open(false).await.unwrap();
        stage.send("g9", 0..3).await;
        let end = timeout(BOUND, async {
            let begun = open.position().mark;
            while open.position().mark == begun {
                open.next(FIRST).await.unwrap();
            }
        });
        end.await.unwrap();
        assert_eq!((stage.generation().await, stage.stored_documents().await), (None, Vec::new()));
        drop(open);
        // An earlier configuration has kept a change.
        stage.stores.changes.begin_generation(false).await.unwrap();
        let user = FeedRecord::User(UserId::new(7).unwrap());
        let change = FeedChange { record: user, version: None, by_hand: false };
        let mut kept = feed(&stage.stores, "a", kept()).begin_to_keep(true).await.unwrap().unwrap();
        kept.keep(&[change]).await.unwrap();
        assert_eq!(stage.kept().await, [change]);
        drop(stage.feed.open(false).await.unwrap());
        let ended = timeout(BOUND, async {
            while stage.generation().await.is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        ended.await.unwrap();
        assert_eq!(stage.stored_documents().await, []);
    })
    .await;
}
