//! Appends over a store whose faults and times are given by the tests; time is virtual.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::FutureExt as _;
use kith_cache::Node;
use kith_store::{
    Changed, ContentHash, DocumentKey, LogDocument, LogEnd, LogHead, Message, MessageChange, MessageStore,
    Seq, StoredHeader, Timestamp,
};
use parking_lot::Mutex;

use super::{
    super::sample::{group, logs, message},
    *,
};
use crate::{error::Reason, write::mutations::WriteLimits};

const APPEND: Duration = Duration::from_millis(10);

/// What happens to an append instead of a success.
#[derive(Clone, Copy, Debug)]
enum AppendFault {
    /// The store is away.
    NotApplied,
    /// The answer is lost, and nothing was appended.
    Lost,
    /// The answer is lost after the append.
    Landed,
    Overloaded,
    Full,
}

/// One log in memory.
#[derive(Debug, Default)]
struct FakeStore {
    log: Mutex<Vec<NewMessage>>,
    /// Sizes of the appends, in their order.
    appends: Mutex<Vec<usize>>,
    faults: Mutex<VecDeque<AppendFault>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl FakeStore {
    fn with_faults(faults: impl IntoIterator<Item = AppendFault>) -> Arc<Self> {
        Arc::new(Self { faults: Mutex::new(faults.into_iter().collect()), ..Self::default() })
    }

    fn add(&self, new: &NewMessage) -> Appended {
        let mut log = self.log.lock();
        let number = |at: usize| Seq::try_from(at + 1).unwrap();
        match log.iter().position(|old| old.key == new.key) {
            Some(at) if log[at].hash == new.hash => {
                Appended::Replayed { seq: number(at), sent: log[at].sent }
            }
            Some(_) => Appended::OtherContent,
            None => {
                log.push(new.clone());
                Appended::New(number(log.len() - 1))
            }
        }
    }

    fn appends(&self) -> Vec<usize> {
        self.appends.lock().clone()
    }

    fn ids(&self) -> Vec<String> {
        self.log.lock().iter().map(|new| new.client_message_id.as_deref().unwrap().to_owned()).collect()
    }
}

fn unavailable(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(std::io::Error::other("away")) }
}

#[async_trait]
impl MessageStore for FakeStore {
    async fn append(
        &self,
        _conversation: ConversationId,
        batch: &[NewMessage],
    ) -> Result<Vec<Appended>, StoreError> {
        self.appends.lock().push(batch.len());
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        sleep(APPEND).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        let fault = self.faults.lock().pop_front();
        let add_all = || batch.iter().map(|new| self.add(new)).collect();
        match fault {
            None => Ok(add_all()),
            Some(AppendFault::NotApplied) => Err(unavailable(Outcome::NotApplied)),
            Some(AppendFault::Lost) => Err(unavailable(Outcome::Unknown)),
            Some(AppendFault::Landed) => {
                let _landed: Vec<Appended> = add_all();
                Err(unavailable(Outcome::Unknown))
            }
            Some(AppendFault::Overloaded) => Err(StoreError::Overloaded),
            Some(AppendFault::Full) => {
                Err(StoreError::Full { source: Arc::new(std::io::Error::other("full")) })
            }
        }
    }

    async fn messages(
        &self,
        _conversation: ConversationId,
        _first: Seq,
        _last: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn document(&self, _key: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        Err(StoreError::Overloaded)
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        Err(StoreError::Overloaded)
    }

    async fn ends(&self, _conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn strong_end(&self, _conversation: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("nothing is read")
    }

    async fn seq_at(&self, _conversation: ConversationId, _time: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("nothing is read")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<Changed, StoreError> {
        unreachable!("nothing is changed")
    }
}

fn queue(store: &Arc<FakeStore>) -> AppendQueue {
    let limits = WriteLimits { at_once: 8, wait: TRIED_FOR, takes: TRIED_FOR, answer: TRIED_FOR };
    let mutations = Mutations::new(Node::local(1), &limits);
    AppendQueue::new(logs(Arc::<FakeStore>::clone(store)), mutations, &MessagesConfig::default())
}

async fn append(queue: &AppendQueue, ids: &[&str]) -> Vec<AppendResult> {
    let messages = ids.iter().map(|id| message(id, 1)).collect();
    queue.append(group(9), messages).await.unwrap()
}

/// The answer of a message that is sent alone.
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
    let store = FakeStore::with_faults([]);
    let queue = queue(&store);
    let ids: Vec<String> = (0..=150).map(|number| number.to_string()).collect();
    let sends = join_all(ids.iter().map(|id| append_one(&queue, id))).await;
    assert_eq!(new(&sends), (1..=151).collect::<Vec<_>>(), "in the order in which they were queued");
    // The first one found nothing else that waits; the task that appends began after all were queued, though.
    assert_eq!(store.appends(), [100, 51]);
    assert_eq!(store.ids(), ids);
}

#[tokio::test(start_paused = true)]
async fn one_step_of_a_conversation_at_a_time() {
    let store = FakeStore::with_faults([]);
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
    let store = FakeStore::with_faults([]);
    let queue = queue(&store);
    let sends = (1..=4).map(|id| queue.append(group(id), vec![message("a", 1)]));
    join_all(sends).await;
    assert_eq!(store.most_at_once.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn repeated_message_shares_an_append_as_replay() {
    let store = FakeStore::with_faults([]);
    let queue = queue(&store);
    let later = NewMessage { sent: Timestamp(8), ..message("a", 1) };
    let sends = queue.append(group(9), vec![message("a", 1), message("b", 1), later]).await.unwrap();
    assert_eq!(new(&sends[..2]), [1, 2]);
    assert!(
        matches!(sends[2], Ok(Appended::Replayed { seq: 1, sent: Timestamp(7) })),
        "as the message that is stored: {sends:?}"
    );
    assert_eq!(store.appends(), [2]);
}

#[tokio::test(start_paused = true)]
async fn error_of_a_message_is_that_of_its_repeats() {
    let store = FakeStore::with_faults([AppendFault::Full]);
    let sends = append(&queue(&store), &["a", "a"]).await;
    assert!(sends.iter().all(|send| matches!(send, Err(StoreError::Full { .. }))), "{sends:?}");
    assert_eq!(store.appends(), [1]);
}

#[tokio::test(start_paused = true)]
async fn other_content_under_a_key_is_its_own_answer() {
    let store = FakeStore::with_faults([]);
    let queue = queue(&store);
    let other = NewMessage { hash: ContentHash::of("", b"other"), ..message("a", 1) };
    let sends = queue.append(group(9), vec![message("a", 1), other, message("b", 1)]).await.unwrap();
    assert!(matches!(sends[1], Ok(Appended::OtherContent)), "{sends:?}");
    assert_eq!(new(&[sends[0].clone(), sends[2].clone()]), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_store_is_tried_again() {
    let store = FakeStore::with_faults([AppendFault::NotApplied; 5]);
    let queue = queue(&store);
    assert_eq!(new(&append(&queue, &["a", "b"]).await), [1, 2]);
    assert_eq!(store.appends(), [2; 6]);
}

#[tokio::test(start_paused = true)]
async fn append_whose_answer_was_lost_is_no_replay() {
    let store = FakeStore::with_faults([AppendFault::Landed, AppendFault::NotApplied]);
    let queue = queue(&store);
    assert_eq!(new(&append(&queue, &["a", "b"]).await), [1, 2]);
    assert_eq!(store.ids(), ["a", "b"], "each once");
}

#[tokio::test(start_paused = true)]
async fn replay_after_a_lost_answer_stays_a_replay() {
    let store = FakeStore::with_faults([]);
    let queue = queue(&store);
    append_one(&queue, "a").await.unwrap();
    store.faults.lock().push_back(AppendFault::Lost);
    let again = NewMessage { sent: Timestamp(8), ..message("a", 1) };
    let again = queue.append(group(9), vec![again]).await.unwrap();
    assert!(matches!(again[..], [Ok(Appended::Replayed { seq: 1, sent: Timestamp(7) })]), "{again:?}");
}

/// The error of a send, and how long it took.
async fn failed(faults: impl IntoIterator<Item = AppendFault>) -> (StoreError, Duration, usize) {
    let store = FakeStore::with_faults(faults);
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
        // The last attempt begins before the end of the time.
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
    let store =
        FakeStore::with_faults([AppendFault::Landed, AppendFault::Overloaded, AppendFault::Overloaded]);
    assert_eq!(new(&append(&queue(&store), &["a"]).await), [1]);
    assert_eq!(store.appends().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn error_of_a_step_is_that_of_all_its_messages() {
    let store = FakeStore::with_faults([AppendFault::Full]);
    let queue = queue(&store);
    let ids: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    let sends = append(&queue, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(sends[..100].iter().all(|send| matches!(send, Err(StoreError::Full { .. }))));
    assert_eq!(new(&sends[100..]), (1..=50).collect::<Vec<_>>(), "the next step is independent");
}

#[tokio::test(start_paused = true)]
async fn caller_that_goes_away_cancels_nothing() {
    let store = FakeStore::with_faults([AppendFault::NotApplied]);
    let queue = queue(&store);
    let send = append(&queue, &["a", "b"]);
    assert!(send.now_or_never().is_none(), "queued, and dropped");
    assert_eq!(new(&append(&queue, &["c"]).await), [3]);
    assert_eq!(store.ids(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn full_queue_appends_nothing() {
    let store = FakeStore::with_faults([]);
    let queue = queue(&store);
    let many = (0..1_001).map(|number| message(&number.to_string(), 1)).collect();
    let refused = queue.append(group(9), many).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::Overloaded);
    assert_eq!(new(&append(&queue, &["a"]).await), [1]);
    assert_eq!(store.appends(), [1]);
}
