//! Tests how another node resumes steps by the notes that a dead node left.

use super::{
    super::{super::fake_logs::FakeLogs, resumption::Resumption},
    *,
};

/// Another node's rounds, over a log with this end.
pub(super) fn rounds(stage: &DeliveryFixture, end: usize) -> Resumption {
    let logs = Arc::<FakeLogs>::default();
    logs.fill(group(9), &vec![message("any", 1); end]);
    Resumption {
        delivery: stage.delivery.clone(),
        notes: StepNotes::new(
            Arc::<FakeNotes>::clone(&stage.notes),
            Arc::<FakeNotes>::clone(&stage.in_store),
            "other".parse().unwrap(),
        ),
        store: logs,
    }
}

#[tokio::test(start_paused = true)]
async fn note_of_a_dead_node_is_resumed() {
    let stage = DeliveryFixture::new().await;
    drop(stage.delivery.begin(group(9)).await);
    let rounds = rounds(&stage, 4);
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
    let rounds = rounds(&stage, 4);
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
    let rounds = rounds(&stage, 4);
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
