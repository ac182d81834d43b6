//! Recipients without a receiver, as deliveries enter them.

use kith_store::NewMessage;

use super::{
    super::super::{
        fake_logs::FakeLogs,
        offline::tests::{entered, over},
    },
    resumed::rounds,
    *,
};

/// A group with users 1, 2 and 4. Only 4 has no receiver.
pub(super) struct AnnouncingFixture {
    pub(super) stage: DeliveryFixture,
    pub(super) logs: Arc<FakeLogs>,
}

impl AnnouncingFixture {
    pub(super) async fn new() -> Self {
        let logs = Arc::<FakeLogs>::default();
        let stage = DeliveryFixture::with(Some(over(&logs))).await;
        stage.members.change(2, 3, &[1, 2, 4]);
        Self { stage, logs }
    }

    /// Appends a message that was sent now, and delivers it.
    pub(super) async fn append(&self, seq: Seq) {
        self.append_with(seq, &[], Appended::New(seq)).await;
    }

    pub(super) async fn append_with(&self, seq: Seq, mentions: &[i64], appended: Appended) {
        let mentions = mentions.iter().map(|id| user(*id)).collect();
        let message = NewMessage { sent: Timestamp::now(), mentions, ..message(&seq.to_string(), 5) };
        self.logs.fill(group(9), std::slice::from_ref(&message));
        self.stage.deliver(message, appended, None).await;
    }

    pub(super) fn entered(&self) -> Vec<(Seq, Vec<i64>)> {
        entered(&self.logs, group(9))
    }
}

#[tokio::test(start_paused = true)]
async fn absent_users_are_entered_before_the_answer() {
    let fixture = AnnouncingFixture::new().await;
    fixture.append(1).await;
    assert_eq!(fixture.entered(), [(1, vec![4])]);
    assert_eq!((fixture.stage.pending(), fixture.stage.noted()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn all_recipients_are_entered_without_inboxes() {
    for fault in [InboxFault::Away, InboxFault::Hangs] {
        let fixture = AnnouncingFixture::new().await;
        *fixture.stage.keeper.fault.lock() = fault;
        fixture.append(1).await;
        assert_eq!(fixture.entered(), [(1, vec![1, 2, 4])], "{fault:?}");
        assert_eq!(fixture.stage.pending(), [(group(9), 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_entry_is_repeated_and_keeps_its_note() {
    let fixture = AnnouncingFixture::new().await;
    fixture.logs.is_away.store(true, Ordering::Relaxed);
    fixture.append(1).await;
    assert_eq!(fixture.stage.entries(1).await, [1], "inboxes have it");
    fixture.logs.is_away.store(false, Ordering::Relaxed);
    fixture.append(2).await;
    assert_eq!(fixture.entered(), [(2, vec![4])]);
    assert_eq!((fixture.stage.pending(), fixture.stage.noted()), (vec![(group(9), 1)], 1));
    let retries = FanOutRetries::new(fixture.stage.delivery.clone());
    retries.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    retries.stop().await;
    assert_eq!(fixture.entered(), [(2, vec![4]), (1, vec![4])]);
    assert_eq!((fixture.stage.pending(), fixture.stage.noted()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn repeated_send_enters_what_is_missing() {
    let fixture = AnnouncingFixture::new().await;
    let now = Timestamp::now();
    fixture.append_with(1, &[], Appended::Replayed { seq: 1, sent: now }).await;
    assert_eq!(fixture.entered(), [(1, vec![4])]);
    fixture.append_with(2, &[], Appended::Replayed { seq: 2, sent: now }).await;
    fixture.append_with(3, &[], Appended::Replayed { seq: 2, sent: now }).await;
    assert_eq!(fixture.entered().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn repeated_send_of_old_message_enters_nothing() {
    let fixture = AnnouncingFixture::new().await;
    fixture.logs.fill(group(9), &[message("old", 5)]);
    let replayed = Appended::Replayed { seq: 1, sent: Timestamp(7) };
    fixture.stage.deliver(message("old", 5), replayed, None).await;
    assert_eq!(fixture.entered(), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_node_left_is_entered() {
    let fixture = AnnouncingFixture::new().await;
    let sent = |id: i64, sent| NewMessage { sent, ..message(&id.to_string(), 5) };
    let now = Timestamp::now();
    fixture.logs.fill(group(9), &[sent(1, Timestamp(7)), sent(2, now), sent(3, now)]);
    drop(fixture.stage.delivery.begin(group(9)).await);
    *fixture.stage.notes.age.lock() = Duration::from_secs(15);
    fixture.logs.is_away.store(true, Ordering::Relaxed);
    let rounds = rounds(&fixture.stage, 3);
    rounds.round().await.unwrap();
    assert_eq!((fixture.entered(), fixture.stage.noted()), (vec![], 1), "the note stays until it is");
    fixture.logs.is_away.store(false, Ordering::Relaxed);
    rounds.round().await.unwrap();
    assert_eq!(fixture.entered(), [(2, vec![4]), (3, vec![4])], "the first one is older than the step");
    assert_eq!(fixture.stage.noted(), 0);
}

#[tokio::test(start_paused = true)]
async fn large_group_enters_mentioned_absent_members() {
    let fixture = AnnouncingFixture::new().await;
    fixture.stage.members.change(3, 4, &[1, 2, 4, 5]);
    fixture.append(1).await;
    fixture.append_with(2, &[1, 4, 6], Appended::New(2)).await;
    assert_eq!(fixture.entered(), [(2, vec![4])], "1 receives, 6 is no member");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_entered_unless_it_is_configured() {
    let stage = DeliveryFixture::with(None).await;
    stage.members.change(2, 3, &[1, 2, 4]);
    stage.append(1).await;
    assert_eq!((stage.pending(), stage.noted()), (vec![], 0));
}
