//! Records the order of a write's steps, for tests.

use std::{ops::Range, sync::Arc, time::Duration};

use kith_cache::{Node, Policy, SystemClock, remote::SharedError};
use kith_delivery::{
    Append, Confirm, Fill, FillOutcome, HeadLookup, HoldToken, LeaseToken, Span, WindowKeeper, WindowLimits,
    WindowLookup, Windows,
};
use kith_store::{
    AgedDocument, Appended, CompletedTimes, ConversationId, DocumentKey, LogDocument, LogEnd, LogHead,
    Message, MessageChange, MessageChangeOutcome, MessageStore, MessageUpkeep, NewMessage, NodeName, Outcome,
    SentDocuments, Seq, StoreError, StoredHeader, Timestamp, TrimResult, UserId,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    logs::Logs,
    sample::{group, stored},
};
use crate::{
    error::Error,
    sample::{partial, unavailable},
    write::caches::CacheFactory,
};

/// A step that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepFault {
    Hold,
    NotWritten,
    PerhapsWritten,
    Release,
}

/// A store and windows that record their steps, each with its second.
#[derive(Debug)]
pub(super) struct StepRecorder {
    fault: Option<StepFault>,
    began: Instant,
    recorded: Mutex<Vec<RecordedStep>>,
}

/// A step, and the second in which it was made.
pub(super) type RecordedStep = (u64, &'static str);

impl StepRecorder {
    pub(super) fn new(fault: Option<StepFault>) -> Arc<Self> {
        Arc::new(Self { fault, began: Instant::now(), recorded: Mutex::default() })
    }

    /// The store's messages, with the windows.
    pub(super) fn logs(self: &Arc<Self>) -> Logs {
        let store: Arc<dyn MessageStore> = Arc::<Self>::clone(self);
        let keeper: Arc<dyn WindowKeeper> = Arc::<Self>::clone(self);
        let clock = Arc::new(SystemClock::new());
        let windows = Windows::over(keeper, Arc::clone(&store), clock, WindowLimits::default());
        let policy = Policy { strict: true, ..Policy::new("document", LogDocument::weight) };
        Logs::new(store, &CacheFactory::alone(Node::local(1)), policy, windows)
    }

    /// The steps that were made since the last call.
    pub(super) fn take(&self) -> Vec<RecordedStep> {
        std::mem::take(&mut *self.recorded.lock())
    }

    fn record(&self, step: &'static str) {
        self.recorded.lock().push((self.began.elapsed().as_secs(), step));
    }

    fn write(&self) -> Result<(), StoreError> {
        self.record("write");
        let outcome = match self.fault {
            Some(StepFault::NotWritten) => Outcome::NotApplied,
            Some(StepFault::PerhapsWritten) => Outcome::Unknown,
            _ => return Ok(()),
        };
        Err(unavailable(outcome))
    }

    fn fails(&self, fault: StepFault) -> Result<(), SharedError> {
        if self.fault == Some(fault) { Err(SharedError::Unavailable) } else { Ok(()) }
    }
}

partial! {
    WindowKeeper for StepRecorder {
        async fn append(&self, _: ConversationId, append: &Append) -> Result<Vec<NodeName>, SharedError> {
            assert!(append.changes && append.span == Span { first: 9, last: 9 }, "{append:?}");
            self.record("append");
            Ok(Vec::new())
        }

        async fn hold(
            &self,
            conversation: ConversationId,
            _: HoldToken,
            _: Duration,
        ) -> Result<(), SharedError> {
            assert_eq!(conversation, group(9));
            self.record("hold");
            self.fails(StepFault::Hold)
        }

        async fn release(&self, conversation: ConversationId, _: HoldToken) -> Result<(), SharedError> {
            assert_eq!(conversation, group(9));
            self.record("release");
            self.fails(StepFault::Release)
        }
    }
    fn look_up(ConversationId, Span, LeaseToken) -> Result<WindowLookup, SharedError>;
    fn fill(&[Fill]) -> Vec<Result<FillOutcome, SharedError>>;
    fn confirm(&[Confirm]) -> Vec<Result<(), SharedError>>;
    fn heads(&[(ConversationId, Seq)], LeaseToken) -> Vec<Result<HeadLookup, SharedError>>;
    fn require_check(ConversationId) -> Result<(), SharedError>;
}

partial! {
    MessageStore for StepRecorder {
        async fn change(
            &self,
            _: ConversationId,
            change: &MessageChange,
        ) -> Result<MessageChangeOutcome, StoreError> {
            self.write()?;
            let event_sent = change.event.sent;
            let message = stored(change.seq, 0);
            Ok(MessageChangeOutcome::Done { message, event_seq: 9, event_sent, replayed: false })
        }
    }
    fn append(ConversationId, &[NewMessage]) -> Result<Vec<Appended>, StoreError>;
    fn messages(ConversationId, Seq, Seq) -> Result<Vec<Message>, StoreError>;
    fn document(DocumentKey) -> Result<Option<LogDocument>, StoreError>;
    fn headers(ConversationId, Seq, Seq) -> Result<Vec<StoredHeader>, StoreError>;
    fn heads(&[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError>;
    fn ends(&[ConversationId]) -> Result<Vec<LogEnd>, StoreError>;
    fn strong_end(ConversationId) -> Result<Seq, StoreError>;
    fn seq_at(ConversationId, Timestamp) -> Result<Seq, StoreError>;
}

partial! {
    MessageUpkeep for StepRecorder {
        async fn erase_document(
            &self,
            _: ConversationId,
            _: Seq,
            _: UserId,
            _: Timestamp,
        ) -> Result<u64, StoreError> {
            self.write().map(|()| 3)
        }
    }
    fn trim(ConversationId, Seq, Timestamp) -> Result<TrimResult, StoreError>;
    fn aged(Range<Timestamp>, usize) -> Result<Vec<AgedDocument>, StoreError>;
    fn settle_aged(&[AgedDocument]) -> Result<(), StoreError>;
    fn complete_times(Option<DocumentKey>, usize) -> Result<CompletedTimes, StoreError>;
    fn documents_sent_by(ConversationId, UserId, Seq) -> Result<SentDocuments, StoreError>;
}

/// Whether an error, which is UNAVAILABLE, reports an unknown outcome.
pub(super) fn outcome_is_unknown(error: Error) -> bool {
    let status = tonic::Status::from(error);
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let details = tonic_types::StatusExt::get_error_details(&status);
    details.error_info().unwrap().metadata["outcome"] == "unknown"
}
