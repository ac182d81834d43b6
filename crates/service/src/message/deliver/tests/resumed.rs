//! What another node finds by the notes of one that died.

use kith_store::{
    Changed, Coordination, DocumentKey, LogDocument, LogEnd, LogHead, MessageChange, MessageStore,
    StoreError, StoredHeader,
};

use super::{super::resumption::ResumptionRounds, *};
use crate::write::lease::Lease;

/// Logs that all end so.
#[derive(Debug)]
struct Ends(Seq);

#[async_trait]
impl MessageStore for Ends {
    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        Ok(vec![LogEnd { seq: self.0, sent: None }; conversations.len()])
    }

    async fn append(&self, _: ConversationId, _: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        unreachable!("nothing is appended")
    }

    async fn messages(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<Message>, StoreError> {
        unreachable!("only ends are read")
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("only ends are read")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("only ends are read")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        unreachable!("only ends are read")
    }

    async fn strong_end(&self, _: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("only ends are read")
    }

    async fn seq_at(&self, _: ConversationId, _: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("only ends are read")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<Changed, StoreError> {
        unreachable!("nothing is changed")
    }
}

#[derive(Debug)]
struct NoLease;

#[async_trait]
impl Coordination for NoLease {
    async fn lease(&self, _name: &str, _holder: &str, _lasts: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn release(&self, _name: &str, _holder: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn mark(&self, _name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    async fn set_mark(&self, _name: &str, _holder: &str, _mark: &[u8]) -> Result<bool, StoreError> {
        Ok(false)
    }
}

pub(super) fn rounds(stage: &DeliveryFixture, end: Seq) -> ResumptionRounds {
    ResumptionRounds {
        delivery: stage.delivery.clone(),
        notes: StepNotes::new(
            Arc::<FakeNotes>::clone(&stage.notes),
            Arc::<FakeNotes>::clone(&stage.in_store),
            "other".parse().unwrap(),
        ),
        store: Arc::new(Ends(end)),
        lease: Lease::new(&(Arc::new(NoLease) as Arc<dyn Coordination>), "x", None, Duration::from_secs(5)),
    }
}

#[tokio::test(start_paused = true)]
async fn note_of_a_dead_node_is_resumed() {
    let stage = DeliveryFixture::new().await;
    drop(stage.delivery.begin(group(9)).await);
    let mut rounds = rounds(&stage, 4);
    rounds.round().await.unwrap();
    assert_eq!(stage.entries(1).await, [0; 0], "the step of a running node takes less than 3 s");
    *stage.notes.age.lock() = Duration::from_secs(3);
    rounds.round().await.unwrap();
    assert_eq!((stage.entries(1).await, stage.entries(2).await), (vec![4], vec![4]));
    assert_eq!(stage.noted(), 1, "its append may land yet");
    *stage.notes.age.lock() = Duration::from_secs(15);
    rounds.round().await.unwrap();
    assert_eq!((stage.entries(1).await, stage.noted()), (vec![4], 0));
}

#[tokio::test(start_paused = true)]
async fn note_stays_while_inboxes_are_away() {
    let stage = DeliveryFixture::new().await;
    drop(stage.delivery.begin(group(9)).await);
    *stage.notes.age.lock() = Duration::from_secs(60);
    *stage.keeper.fault.lock() = InboxFault::Away;
    let mut rounds = rounds(&stage, 4);
    rounds.round().await.unwrap();
    assert_eq!(stage.noted(), 1);
    *stage.keeper.fault.lock() = InboxFault::None;
    rounds.round().await.unwrap();
    assert_eq!((stage.entries(1).await, stage.noted()), (vec![4], 0));
}

/// A node is cut from Redis, and appends this message.
async fn cut_and_append(stage: &DeliveryFixture, seq: Seq) {
    stage.notes.is_away.store(true, Ordering::Relaxed);
    *stage.keeper.fault.lock() = InboxFault::Away;
    stage.append(seq).await;
}

#[tokio::test(start_paused = true)]
async fn message_of_a_dead_node_is_delivered() {
    let stage = DeliveryFixture::new().await;
    cut_and_append(&stage, 4).await;
    assert_eq!((stage.noted(), stage.in_store.notes.lock().len()), (0, 1));
    // Another node has Redis.
    stage.notes.is_away.store(false, Ordering::Relaxed);
    *stage.keeper.fault.lock() = InboxFault::None;
    let mut rounds = rounds(&stage, 4);
    *stage.in_store.age.lock() = Duration::from_secs(3);
    rounds.round().await.unwrap();
    assert_eq!((stage.entries(1).await, stage.entries(2).await), (vec![4], vec![4]));
    *stage.in_store.age.lock() = Duration::from_secs(15);
    rounds.round().await.unwrap();
    assert_eq!(stage.in_store.notes.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn store_gets_a_note_every_five_seconds() {
    let stage = DeliveryFixture::new().await;
    for (after, notes) in [(0, 1), (1, 1), (3, 1), (2, 2), (4, 2), (1, 3)] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        cut_and_append(&stage, 1).await;
        assert_eq!(stage.in_store.notes.lock().len(), notes);
    }
    stage.notes.is_away.store(false, Ordering::Relaxed);
    *stage.keeper.fault.lock() = InboxFault::None;
    stage.append(2).await;
    assert_eq!(stage.in_store.notes.lock().len(), 0, "all is delivered");
}

#[tokio::test(start_paused = true)]
async fn store_has_no_note_of_what_redis_has() {
    let stage = DeliveryFixture::new().await;
    *stage.keeper.fault.lock() = InboxFault::Away;
    stage.append(1).await;
    assert_eq!((stage.noted(), stage.in_store.notes.lock().len()), (1, 0));
}
