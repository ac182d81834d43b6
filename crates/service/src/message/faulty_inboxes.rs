//! Inboxes in memory that fail or hang when a test says so.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::{Clock, Moment, remote::SharedError};
use kith_delivery::{
    AbandonedReceivers, FanOutResult, Generation, InboxKeeper, InboxLimits, Mark, MarkOutcome, MemoryInboxes,
    NodeWake, Note, OpenedInbox, ReadFrom, ReadOutcome, SentMessages, WakeSubscription,
};
use kith_store::{ConversationId, NodeName, UserId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A fault that a fan-out meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxFault {
    None,
    Away,
    Hangs,
    /// It takes this long.
    Slow(Duration),
}

/// An action that another task does in between.
type InterleavedAction = Box<dyn FnOnce() + Send>;

/// The runtime's time, which may be virtual.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Moment {
        Moment::new(u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

/// Inboxes in memory.
pub(super) struct FaultyInboxes {
    inboxes: MemoryInboxes,
    pub(super) fault: Mutex<InboxFault>,
    /// Runs before the next inbox is closed.
    pub(super) before_close: Mutex<Option<InterleavedAction>>,
}

impl FaultyInboxes {
    /// Creates inboxes without a fault.
    pub(super) fn new() -> Self {
        Self {
            inboxes: MemoryInboxes::new(Arc::new(RuntimeClock(Instant::now())), InboxLimits::default()),
            fault: Mutex::new(InboxFault::None),
            before_close: Mutex::default(),
        }
    }
}

impl fmt::Debug for FaultyInboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyInboxes").field("fault", &self.fault).finish_non_exhaustive()
    }
}

#[async_trait]
impl InboxKeeper for FaultyInboxes {
    async fn fan_out(&self, sent: &SentMessages, users: &[UserId]) -> FanOutResult {
        let fault = *self.fault.lock();
        match fault {
            InboxFault::None => self.inboxes.fan_out(sent, users).await,
            InboxFault::Away => {
                FanOutResult { failed: Some(SharedError::Unavailable), ..FanOutResult::default() }
            }
            InboxFault::Hangs => std::future::pending().await,
            InboxFault::Slow(time) => {
                tokio::time::sleep(time).await;
                self.inboxes.fan_out(sent, users).await
            }
        }
    }

    async fn open(&self, node: &NodeName, users: &[UserId]) -> Vec<Result<OpenedInbox, SharedError>> {
        self.inboxes.open(node, users).await
    }

    async fn close(&self, node: &NodeName, user: UserId) -> Result<(), SharedError> {
        let action = self.before_close.lock().take();
        if let Some(action) = action {
            action();
        }
        self.inboxes.close(node, user).await
    }

    async fn mark(
        &self,
        user: UserId,
        generation: Generation,
        marks: &[Mark],
        complete: bool,
    ) -> Result<MarkOutcome, SharedError> {
        self.inboxes.mark(user, generation, marks, complete).await
    }

    async fn read(&self, from: &[ReadFrom], most: usize) -> Vec<Result<ReadOutcome, SharedError>> {
        self.inboxes.read(from, most).await
    }

    async fn note(&self, user: UserId, note: Note) -> Result<Vec<NodeWake>, SharedError> {
        self.inboxes.note(user, note).await
    }

    async fn receiving(&self, users: &[UserId]) -> Result<BTreeMap<UserId, Vec<NodeName>>, SharedError> {
        self.inboxes.receiving(users).await
    }

    async fn publish(&self, wakes: &[NodeWake]) -> Result<(), SharedError> {
        self.inboxes.publish(wakes).await
    }

    fn subscribe(&self, node: &NodeName) -> Box<dyn WakeSubscription> {
        self.inboxes.subscribe(node)
    }

    async fn confirm(&self, node: &NodeName, confirmed: &[ReadFrom]) -> Result<(), SharedError> {
        self.inboxes.confirm(node, confirmed).await
    }

    async fn forget(
        &self,
        node: &NodeName,
        users: &[UserId],
        silent_for: Duration,
    ) -> Result<(), SharedError> {
        self.inboxes.forget(node, users, silent_for).await
    }

    async fn abandoned(
        &self,
        silent_for: Duration,
        most: usize,
    ) -> Result<Vec<AbandonedReceivers>, SharedError> {
        self.inboxes.abandoned(silent_for, most).await
    }

    async fn register(&self, node: &NodeName, conversations: &[ConversationId]) -> Result<(), SharedError> {
        self.inboxes.register(node, conversations).await
    }

    async fn registered(&self, conversation: ConversationId) -> Result<Vec<NodeName>, SharedError> {
        self.inboxes.registered(conversation).await
    }
}
