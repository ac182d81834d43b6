//! A step's append while the step before is delivered.

use kith_store::Outcome;
use tokio::time::sleep_until;

use super::{
    super::super::{
        MessagesConfig,
        fake_logs::{AppendFault, FakeLogs},
        queue::AppendQueue,
        sample::{logs, mutations},
        waiting::{AppendResult, SentWhen},
    },
    *,
};

const APPEND: Duration = Duration::from_millis(10);
const FAN_OUT: Duration = Duration::from_millis(100);

/// A queue whose appends and fan-outs take their time, and what has been answered.
struct TwoStages {
    fixture: DeliveryFixture,
    store: Arc<FakeLogs>,
    queue: AppendQueue,
    began: Instant,
    answers: Arc<Mutex<Vec<SendAnswer>>>,
}

/// When a message was answered, its id, and the answer.
type SendAnswer = (u128, &'static str, AppendResult);

impl TwoStages {
    async fn new(faults: impl IntoIterator<Item = AppendFault>) -> Self {
        let fixture = DeliveryFixture::new().await;
        *fixture.keeper.fault.lock() = InboxFault::Slow(FAN_OUT);
        let store = FakeLogs::with_faults(APPEND, faults);
        let (logs, delivery) = (logs(Arc::<FakeLogs>::clone(&store)), fixture.delivery.clone());
        let queue = AppendQueue::new(logs, delivery, mutations(), &MessagesConfig::default());
        Self { fixture, store, queue, began: Instant::now(), answers: Arc::default() }
    }

    /// Sends a message at this time, from the test's begin.
    async fn send_at(&self, ms: u64, id: &'static str) {
        sleep_until(self.began + Duration::from_millis(ms)).await;
        let (_, sent) = self.queue.enqueue(group(9), vec![message(id, 1)], SentWhen::Now).unwrap();
        let (began, answers) = (self.began, Arc::clone(&self.answers));
        tokio::spawn(async move {
            let answer = sent.await.pop().unwrap();
            answers.lock().push((began.elapsed().as_millis(), id, answer));
        });
    }

    /// How many messages are stored, and in how many appends, at this time.
    async fn stored_at(&self, ms: u64) -> (usize, usize) {
        sleep_until(self.began + Duration::from_millis(ms)).await;
        (self.store.log(group(9)).len(), self.store.appends().len())
    }

    fn answers(&self) -> Vec<(u128, &'static str)> {
        self.answers.lock().iter().map(|(at, id, _)| (*at, *id)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn next_step_is_stored_while_one_is_delivered() {
    let stages = TwoStages::new([]).await;
    for (ms, id) in [(0, "a"), (20, "b"), (40, "c"), (50, "d")] {
        stages.send_at(ms, id).await;
    }
    assert_eq!(stages.stored_at(105).await, (2, 2), "one stored step waits, and other appends wait");
    assert_eq!(stages.stored_at(125).await, (4, 3), "the first step is delivered");
    assert_eq!(stages.answers(), [(110, "a")]);
    assert_eq!(stages.fixture.entries(1).await, [1], "the second step is entered after the first one");
    stages.stored_at(400).await;
    // The fan-outs follow each other, without an append between them.
    assert_eq!(stages.answers(), [(110, "a"), (210, "b"), (310, "c"), (310, "d")]);
    assert_eq!(stages.fixture.entries(1).await, [1, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn turn_ends_after_the_last_delivery() {
    let stages = TwoStages::new([]).await;
    stages.send_at(0, "a").await;
    stages.send_at(109, "b").await;
    stages.send_at(500, "c").await;
    stages.stored_at(1_000).await;
    // The append of "b" began before the fan-out ended, and ended after it.
    assert_eq!(stages.answers(), [(110, "a"), (219, "b"), (610, "c")]);
    assert_eq!(stages.fixture.entries(1).await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn failed_step_is_answered_after_the_one_before() {
    let stages = TwoStages::new([]).await;
    stages.send_at(0, "a").await;
    stages.send_at(20, "b").await;
    stages.store.faults.lock().push_back(AppendFault::Full);
    stages.send_at(40, "c").await;
    stages.stored_at(1_000).await;
    assert_eq!(stages.answers(), [(110, "a"), (110, "b"), (220, "c")]);
    let failed = stages.answers.lock()[1].2.clone().unwrap_err();
    assert_eq!(failed.outcome(), Outcome::NotApplied);
    assert_eq!(stages.fixture.entries(1).await, [1, 2]);
    stages.fixture.remove_ended().await;
    assert_eq!(stages.fixture.noted(), 0, "also of the step that failed");
}
