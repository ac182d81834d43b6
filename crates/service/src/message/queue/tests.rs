//! Appends over a store whose faults and times are given by the tests; time is virtual.

use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use kith_store::{ContentHash, Seq, Timestamp};

use super::{
    super::{
        deliver::tests::delivery_to_nobody,
        fake_logs::{AppendFault, FakeLogs},
        sample::{group, logs, message, mutations},
    },
    *,
};
use crate::error::Reason;

const APPEND: Duration = Duration::from_millis(10);

/// A store with these faults, whose appends take [`APPEND`].
fn store(faults: impl IntoIterator<Item = AppendFault>) -> Arc<FakeLogs> {
    FakeLogs::with_faults(APPEND, faults)
}

fn queue(store: &Arc<FakeLogs>) -> AppendQueue {
    let logs = logs(Arc::<FakeLogs>::clone(store));
    AppendQueue::new(logs, delivery_to_nobody(), mutations(), &MessagesConfig::default())
}

/// The stored messages' client ids.
fn stored_ids(store: &FakeLogs) -> Vec<String> {
    store.log(group(9)).iter().map(|new| new.client_message_id.as_deref().unwrap().to_owned()).collect()
}

async fn append(queue: &AppendQueue, ids: &[&str]) -> Vec<AppendResult> {
    append_to(queue, 9, ids.iter().map(|id| message(id, 1)).collect()).await
}

async fn append_to(queue: &AppendQueue, id: i64, messages: Vec<NewMessage>) -> Vec<AppendResult> {
    queue.enqueue(group(id), messages, SentWhen::Now).unwrap().1.await
}

/// The answer for a message that is sent alone.
async fn append_one(queue: &AppendQueue, id: &str) -> AppendResult {
    append(queue, &[id]).await.pop().unwrap()
}

fn new(appended: &[AppendResult]) -> Vec<Seq> {
    let number = |answer: &AppendResult| match answer {
        Ok(Appended::New(seq)) => *seq,
        other => panic!("{other:?}"),
    };
    appended.iter().map(number).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_are_one_step() {
    let store = store([]);
    let queue = queue(&store);
    let ids: Vec<String> = (0..=150).map(|number| number.to_string()).collect();
    let sends = join_all(ids.iter().map(|id| append_one(&queue, id))).await;
    assert_eq!(new(&sends), (1..=151).collect::<Vec<_>>(), "in the order in which they were queued");
    // The first one found nothing else that waits; the task that appends began after all were queued, though.
    assert_eq!(store.appends(), [100, 51]);
    assert_eq!(stored_ids(&store), ids);
}

#[tokio::test(start_paused = true)]
async fn one_step_of_a_conversation_at_a_time() {
    let store = store([]);
    let queue = queue(&store);
    let first = tokio::spawn({
        let queue = queue.clone();
        async move { append_one(&queue, "first").await }
    });
    sleep(APPEND / 2).await;
    let (second, third) = tokio::join!(append_one(&queue, "second"), append_one(&queue, "third"));
    assert_eq!(new(&[first.await.unwrap(), second, third]), [1, 2, 3]);
    assert_eq!((store.appends(), store.most_at_once.load(Ordering::SeqCst)), (vec![1, 2], 1));
}

#[tokio::test(start_paused = true)]
async fn conversations_do_not_wait_for_each_other() {
    let store = store([]);
    let queue = queue(&store);
    join_all((1..=4).map(|id| append_to(&queue, id, vec![message("a", 1)]))).await;
    assert_eq!(store.most_at_once.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn repeated_message_shares_an_append_as_replay() {
    let store = store([]);
    let queue = queue(&store);
    let later = NewMessage { sent: Timestamp(8), ..message("a", 1) };
    let sends = append_to(&queue, 9, vec![message("a", 1), message("b", 1), later]).await;
    assert_eq!(new(&sends[..2]), [1, 2]);
    assert!(
        matches!(sends[2], Ok(Appended::Replayed { seq: 1, sent: Timestamp(7) })),
        "as the message that is stored: {sends:?}"
    );
    assert_eq!(store.appends(), [2]);
}

#[tokio::test(start_paused = true)]
async fn error_of_a_message_is_that_of_its_repeats() {
    let store = store([AppendFault::Full]);
    let sends = append(&queue(&store), &["a", "a"]).await;
    assert!(sends.iter().all(|send| matches!(send, Err(StoreError::Full { .. }))), "{sends:?}");
    assert_eq!(store.appends(), [1]);
}

#[tokio::test(start_paused = true)]
async fn other_content_under_a_key_is_its_own_answer() {
    let store = store([]);
    let queue = queue(&store);
    let other = NewMessage { hash: ContentHash::of("", b"other"), ..message("a", 1) };
    let sends = append_to(&queue, 9, vec![message("a", 1), other, message("b", 1)]).await;
    assert!(matches!(sends[1], Ok(Appended::OtherContent)), "{sends:?}");
    assert_eq!(new(&[sends[0].clone(), sends[2].clone()]), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_store_is_tried_again() {
    let store = store([AppendFault::NotApplied; 5]);
    let queue = queue(&store);
    assert_eq!(new(&append(&queue, &["a", "b"]).await), [1, 2]);
    assert_eq!(store.appends(), [2; 6]);
}

#[tokio::test(start_paused = true)]
async fn append_whose_answer_was_lost_is_no_replay() {
    let store = store([AppendFault::Landed, AppendFault::NotApplied]);
    let queue = queue(&store);
    assert_eq!(new(&append(&queue, &["a", "b"]).await), [1, 2]);
    assert_eq!(stored_ids(&store), ["a", "b"], "each once");
}

#[tokio::test(start_paused = true)]
async fn replay_after_a_lost_answer_stays_a_replay() {
    let store = store([]);
    let queue = queue(&store);
    append_one(&queue, "a").await.unwrap();
    store.faults.lock().push_back(AppendFault::Lost);
    let again = NewMessage { sent: Timestamp(8), ..message("a", 1) };
    let again = append_to(&queue, 9, vec![again]).await;
    assert!(matches!(again[..], [Ok(Appended::Replayed { seq: 1, sent: Timestamp(7) })]), "{again:?}");
}

/// A send's error, and how long it took.
async fn failed(faults: impl IntoIterator<Item = AppendFault>) -> (StoreError, Duration, usize) {
    let store = store(faults);
    let (queue, began) = (queue(&store), Instant::now());
    let error = append_one(&queue, "a").await.unwrap_err();
    (error, began.elapsed(), store.appends().len())
}

#[tokio::test(start_paused = true)]
async fn store_away_is_given_up_after_10_s() {
    for (fault, outcome) in
        [(AppendFault::NotApplied, Outcome::NotApplied), (AppendFault::Lost, Outcome::Unknown)]
    {
        let (error, took, tries) = failed([fault; 1_000]).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert_eq!(error.outcome(), outcome);
        // The last attempt begins before the time ends.
        let longest = TRIED_FOR + 2 * APPEND;
        assert!(took > TRIED_FOR - 2 * LONGEST_PAUSE && took <= longest, "{took:?}");
        assert!((15..100).contains(&tries), "pauses grow: {tries} tries");
    }
}

#[tokio::test(start_paused = true)]
async fn one_unknown_outcome_makes_the_send_unknown() {
    let faults = [AppendFault::Lost].into_iter().chain([AppendFault::NotApplied; 1_000]);
    assert_eq!(failed(faults).await.0.outcome(), Outcome::Unknown);
    let (error, _, tries) = failed([AppendFault::Lost, AppendFault::Full]).await;
    assert_eq!((error.outcome(), tries), (Outcome::Unknown, 2));
}

#[tokio::test(start_paused = true)]
async fn refused_append_is_not_tried_again() {
    let (error, took, tries) = failed([AppendFault::Full]).await;
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!((took, tries), (APPEND, 1));
}

#[tokio::test(start_paused = true)]
async fn overloaded_store_sheds_only_unapplied_steps() {
    let (error, took, tries) = failed([AppendFault::Overloaded]).await;
    assert!(matches!(error, StoreError::Overloaded), "{error:?}");
    assert_eq!((took, tries), (APPEND, 1));
    let store = store([AppendFault::Landed, AppendFault::Overloaded, AppendFault::Overloaded]);
    assert_eq!(new(&append(&queue(&store), &["a"]).await), [1]);
    assert_eq!(store.appends().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn error_of_a_step_is_that_of_all_its_messages() {
    let store = store([AppendFault::Full]);
    let queue = queue(&store);
    let ids: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    let sends = append(&queue, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(sends[..100].iter().all(|send| matches!(send, Err(StoreError::Full { .. }))));
    assert_eq!(new(&sends[100..]), (1..=50).collect::<Vec<_>>(), "the next step is independent");
}

#[tokio::test(start_paused = true)]
async fn caller_that_goes_away_cancels_nothing() {
    let store = store([AppendFault::NotApplied]);
    let queue = queue(&store);
    let send = append(&queue, &["a", "b"]);
    assert!(send.now_or_never().is_none(), "queued, and dropped");
    assert_eq!(new(&append(&queue, &["c"]).await), [3]);
    assert_eq!(stored_ids(&store), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn full_queue_appends_nothing() {
    let store = store([]);
    let queue = queue(&store);
    let many = (0..1_001).map(|number| message(&number.to_string(), 1)).collect();
    let refused = queue.enqueue(group(9), many, SentWhen::Now).err().unwrap();
    assert_eq!(refused.reason(), Reason::Overloaded);
    assert_eq!(new(&append(&queue, &["a"]).await), [1]);
    assert_eq!(store.appends(), [1]);
}
