//! The order of the steps around a write, and what follows when one of them fails; time is virtual.

use async_trait::async_trait;
use kith_cache::{Node, Policy, SystemClock, remote::SharedError};
use kith_delivery::{
    Append, Confirm, Fill, Filled, HeadSeen, HoldToken, LeaseToken, Looked, Span, WindowKeeper, WindowLimits,
    Windows,
};
use kith_store::{
    Appended, ContentChange, LogDocument, LogEnd, LogHead, Message, MessageKey, MessageStore, Recalled,
    RecalledBy, StoredHeader, Timestamp,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    super::super::sample::{group, message, stored},
    *,
};
use crate::write::{mutations::WriteLimits, tiers::Tiers};

/// A step that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Hold,
    NotWritten,
    PerhapsWritten,
    Release,
}

/// A store and windows that note their steps, each with the second of it.
#[derive(Debug)]
struct Steps {
    fault: Option<Fault>,
    began: Instant,
    made: Mutex<Vec<(u64, &'static str)>>,
}

impl Steps {
    fn make(&self, step: &'static str) {
        self.made.lock().push((self.began.elapsed().as_secs(), step));
    }

    fn fails(&self, fault: Fault) -> Result<(), SharedError> {
        if self.fault == Some(fault) { Err(SharedError::Away) } else { Ok(()) }
    }
}

#[async_trait]
impl WindowKeeper for Steps {
    async fn look(&self, _: ConversationId, _: Span, _: LeaseToken) -> Result<Looked, SharedError> {
        unreachable!("nothing is read")
    }

    async fn fill(&self, _: ConversationId, _: &Fill) -> Result<Filled, SharedError> {
        unreachable!("nothing is read")
    }

    async fn append(&self, _: ConversationId, append: &Append) -> Result<(), SharedError> {
        assert!(append.changes && append.span == Span { first: 9, last: 9 }, "{append:?}");
        self.make("append");
        Ok(())
    }

    async fn hold(&self, _: ConversationId, _: HoldToken, _: Duration) -> Result<(), SharedError> {
        self.make("hold");
        self.fails(Fault::Hold)
    }

    async fn release(&self, _: ConversationId, _: HoldToken) -> Result<(), SharedError> {
        self.make("release");
        self.fails(Fault::Release)
    }

    async fn confirm(&self, _: &[Confirm]) -> Vec<Result<(), SharedError>> {
        unreachable!("nothing is read")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Vec<Result<HeadSeen, SharedError>> {
        unreachable!("nothing is read")
    }

    async fn doubt(&self, _: ConversationId) -> Result<(), SharedError> {
        unreachable!("nothing is appended")
    }
}

#[async_trait]
impl MessageStore for Steps {
    async fn append(&self, _: ConversationId, _: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        unreachable!("nothing is appended")
    }

    async fn messages(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<Message>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn ends(&self, _: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn strong_end(&self, _: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("nothing is read")
    }

    async fn seq_at(&self, _: ConversationId, _: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("nothing is read")
    }

    async fn change(&self, _: ConversationId, change: &MessageChange) -> Result<Changed, StoreError> {
        self.make("write");
        let outcome = match self.fault {
            Some(Fault::NotWritten) => Outcome::NotApplied,
            Some(Fault::PerhapsWritten) => Outcome::Unknown,
            _ => {
                let event_sent = change.event.sent;
                let message = stored(change.seq, 0);
                return Ok(Changed::Done { message, event_seq: 9, event_sent, replayed: false });
            }
        };
        Err(StoreError::Unavailable { outcome, source: Arc::new(std::io::Error::other("away")) })
    }
}

/// Recalls a message, and returns the steps of two minutes, and the error.
async fn recalled(fault: Option<Fault>) -> (Vec<(u64, &'static str)>, Option<Error>) {
    let steps = Arc::new(Steps { fault, began: Instant::now(), made: Mutex::default() });
    let store: Arc<dyn MessageStore> = Arc::<Steps>::clone(&steps);
    let keeper: Arc<dyn WindowKeeper> = Arc::<Steps>::clone(&steps);
    let clock = Arc::new(SystemClock::new());
    let windows = Windows::over(keeper, Arc::clone(&store), clock, WindowLimits::default());
    let policy = Policy { strict: true, ..Policy::new("document", LogDocument::weight) };
    let logs = Logs::new(store, &Tiers::alone(Node::local(1)), policy, windows);
    let wait = Duration::from_secs(10);
    let limits = WriteLimits { at_once: 8, wait, takes: wait, answer: wait };
    let writer = Writer { logs, mutations: Mutations::new(Node::local(1), &limits) };
    let recall = ContentChange::Recall(Recalled { by: RecalledBy::Service, time: Timestamp(7) });
    let event = NewMessage { key: MessageKey::of_recall(5), ..message("event", 1) };
    let change = MessageChange { seq: 5, content: recall, event };
    let error = writer.change(group(9), change).await.err();
    sleep(Duration::from_secs(120)).await;
    let made = std::mem::take(&mut *steps.made.lock());
    (made, error)
}

fn outcome_is_unknown(error: Option<Error>) -> bool {
    let status = tonic::Status::from(error.unwrap());
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let details = tonic_types::StatusExt::get_error_details(&status);
    details.error_info().unwrap().metadata["outcome"] == "unknown"
}

const AGAIN: [(u64, &str); 6] =
    [(5, "hold"), (5, "release"), (30, "hold"), (30, "release"), (90, "hold"), (90, "release")];

#[tokio::test(start_paused = true)]
async fn window_is_held_around_the_write() {
    let (steps, error) = recalled(None).await;
    assert_eq!(steps, ["hold", "write", "release", "append"].map(|step| (0, step)));
    assert_eq!(error, None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_a_hold() {
    let (steps, error) = recalled(Some(Fault::Hold)).await;
    assert_eq!(steps, [(0, "hold")]);
    assert!(!outcome_is_unknown(error));
}

#[tokio::test(start_paused = true)]
async fn hold_ends_with_a_write_that_was_refused() {
    let (steps, error) = recalled(Some(Fault::NotWritten)).await;
    assert_eq!(steps, ["hold", "write", "release"].map(|step| (0, step)));
    assert!(!outcome_is_unknown(error));
}

#[tokio::test(start_paused = true)]
async fn write_of_unknown_outcome_is_held_again() {
    let (steps, error) = recalled(Some(Fault::PerhapsWritten)).await;
    assert_eq!(steps, [&[(0, "hold"), (0, "write")][..], &AGAIN].concat());
    assert!(outcome_is_unknown(error));
}

#[tokio::test(start_paused = true)]
async fn change_is_not_acknowledged_without_its_release() {
    let (steps, error) = recalled(Some(Fault::Release)).await;
    assert_eq!(steps, [&[(0, "hold"), (0, "write"), (0, "release")][..], &AGAIN].concat());
    assert!(outcome_is_unknown(error));
}
