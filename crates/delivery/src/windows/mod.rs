//! Reading and keeping windows: the window for what it has, the store for the rest.

mod flights;
mod heads;
mod read;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use kith_cache::{AdmissionQueue, Clock, Moment, remote::SharedError};
use kith_store::{ConversationId, Message, MessageStore, NodeName, Seq, StoreError};

pub use heads::HeadOf;

use self::flights::Flights;
use crate::{
    Append, HoldToken, Span, WindowKeeper, WindowLimits, entry,
    metrics::{ReadResult, WindowCounts},
};

/// The last messages of conversations: their windows, and the store below. Cheap to clone.
///
/// A read sees every append whose [`Windows::append`] had returned before the read began, in the epoch of the
/// read. It sees the append of a writer that died, or was cut from Redis, after [`WindowLimits::checked`] at
/// the latest. It never shows the previous state of a message after a change whose [`Windows::release`] had
/// returned before the read began.
#[derive(Clone, Debug)]
pub struct Windows(Arc<WindowParts>);

#[derive(Debug)]
struct WindowParts {
    store: Arc<dyn MessageStore>,
    /// Keeps the windows; `None`: there are no windows.
    keeper: Option<Arc<dyn WindowKeeper>>,
    clock: Arc<dyn Clock>,
    limits: WindowLimits,
    /// Bounds the store's concurrent reads.
    admission: AdmissionQueue,
    counts: WindowCounts,
    fills: Flights<ConversationId, Loaded<RecentMessages>>,
    checks: Flights<ConversationId, Loaded<Seq>>,
    direct: Flights<(ConversationId, RequestedMessages), Loaded<RecentMessages>>,
}

/// The result of a store read, for all waiting callers.
type Loaded<T> = Result<T, StoreError>;

/// The requested messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestedMessages {
    /// The requested numbers. The last number may be beyond the end of the log.
    pub span: Span,
    /// The most messages to return: the last of the requested messages.
    pub most: usize,
}

impl From<Span> for RequestedMessages {
    /// Requests all messages with these numbers.
    fn from(span: Span) -> Self {
        Self { span, most: usize::MAX }
    }
}

/// The requested messages among a conversation's last messages.
#[derive(Clone, PartialEq, Eq)]
pub struct RecentMessages {
    /// The numbers that could be read here: `messages` has every requested message within it. Its last number
    /// is the end of the log; 0: the log is empty. Messages below its first number are in documents.
    pub span: Span,
    /// The messages by rising number.
    pub messages: Vec<Message>,
}

/// A window that is held while a message in it is changed.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it ends by itself only after its time"]
pub struct WindowHold {
    conversation: ConversationId,
    token: HoldToken,
}

impl Windows {
    /// Creates it over a keeper's windows. `clock` is the keeper's clock.
    #[must_use]
    pub fn over(
        keeper: Arc<dyn WindowKeeper>,
        store: Arc<dyn MessageStore>,
        clock: Arc<dyn Clock>,
        limits: WindowLimits,
    ) -> Self {
        Self::of(Some(keeper), store, clock, limits)
    }

    /// Creates it without windows: every read goes to the store.
    #[must_use]
    pub fn none(store: Arc<dyn MessageStore>, clock: Arc<dyn Clock>, limits: WindowLimits) -> Self {
        Self::of(None, store, clock, limits)
    }

    /// Whether there are windows at all.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.keeper.is_some()
    }

    /// The present time. For [`Windows::append`] it must be taken before the append to the store begins.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.0.clock.now()
    }

    /// Reads those of the requested messages that are among the log's last messages: the messages in the
    /// window, or as many from the store. Numbers below [`RecentMessages::span`] are left to the caller.
    ///
    /// `at_least` is a number that the caller knows to exist: if it does, the end is not below it.
    ///
    /// Costs one round trip to Redis; once in [`WindowLimits::checked`] a small store read as well; without a
    /// window up to three store reads. Reads of one conversation that need the same data from the store share
    /// one read.
    ///
    /// # Errors
    /// If the store is needed and does not answer; [`StoreError::Overloaded`] if too many reads wait for it.
    pub async fn read(
        &self,
        conversation: ConversationId,
        asked: impl Into<RequestedMessages>,
        at_least: Seq,
    ) -> Result<RecentMessages, StoreError> {
        let asked = asked.into();
        let asked =
            RequestedMessages { span: Span { first: asked.span.first.max(1), ..asked.span }, ..asked };
        if let Some(keeper) = &self.0.keeper
            && let Some(recent) = self.0.by_window(keeper, conversation, asked, at_least).await?
        {
            return Ok(recent);
        }
        self.0.by_store(conversation, asked).await
    }

    /// Adds messages that were appended to the log to the window. Their numbers rise without gaps. `changes`:
    /// they contain the event of a change (a recall, an edit, an erasure). `began`: a moment before the
    /// append began, see [`Windows::now`]; `None` for a replay, whose append began earlier.
    ///
    /// May be repeated, and may arrive late or out of order. Returns the nodes that are registered at the
    /// conversation; `None`: they are not known, because there are no windows, or no messages.
    ///
    /// # Errors
    /// If Redis does not answer. Other nodes may read the log without these messages for up to
    /// [`WindowLimits::checked`]; this node should read with `at_least` until a later call for the
    /// conversation has succeeded.
    pub async fn append(
        &self,
        conversation: ConversationId,
        messages: &[Message],
        changes: bool,
        began: Option<Moment>,
    ) -> Result<Option<Vec<NodeName>>, SharedError> {
        let (Some(keeper), Some(first)) = (&self.0.keeper, messages.first()) else { return Ok(None) };
        let last = first.seq.saturating_add(number(messages.len())).saturating_sub(1);
        let entries: Option<Vec<Bytes>> = messages.iter().map(entry::encode).collect();
        // A message without an entry cannot be in a window: the window is dropped, as by a change.
        let changes = changes || entries.is_none();
        let span = Span { first: first.seq, last };
        let append = Append { span, entries: entries.unwrap_or_default(), changes, began };
        let added = keeper.append(conversation, &append).await;
        self.0.counts.append(added.is_ok());
        added.map(Some)
    }

    /// Holds a conversation's window while a message is changed: for [`WindowLimits::hold`] no window can be
    /// filled. A change takes these steps: hold; write the change and its event atomically; release;
    /// acknowledge; append the event.
    ///
    /// # Errors
    /// If Redis does not answer. The change must not be made then: a window may keep the previous message.
    pub async fn hold(&self, conversation: ConversationId) -> Result<WindowHold, SharedError> {
        let hold = WindowHold { conversation, token: HoldToken(rand::random()) };
        if let Some(keeper) = &self.0.keeper {
            keeper.hold(conversation, hold.token, self.0.limits.hold).await?;
        }
        Ok(hold)
    }

    /// Ends a hold after the change was written. After it returns, no read on any node shows the previous
    /// message.
    ///
    /// # Errors
    /// If Redis or the store of the epochs does not answer, or another epoch has begun. The change must not
    /// be acknowledged then; a new hold and its release may follow.
    pub async fn release(&self, hold: WindowHold) -> Result<(), SharedError> {
        match &self.0.keeper {
            Some(keeper) => keeper.release(hold.conversation, hold.token).await,
            None => Ok(()),
        }
    }

    /// Drops a conversation's window, because another program may have changed a message. After it returns,
    /// no read on any node shows a message as it was in the store before this call. May be repeated.
    ///
    /// # Errors
    /// Fails like [`Windows::release`].
    pub async fn forget(&self, conversation: ConversationId) -> Result<(), SharedError> {
        match &self.0.keeper {
            // This ends a hold that does not exist, which drops the window.
            Some(keeper) => keeper.release(conversation, HoldToken(rand::random())).await,
            None => Ok(()),
        }
    }

    /// Makes the next read compare the window's end with the store, because an unknown append may have been
    /// made.
    ///
    /// # Errors
    /// If Redis does not answer. The window is compared after [`WindowLimits::checked`] then.
    pub async fn require_check(&self, conversation: ConversationId) -> Result<(), SharedError> {
        match &self.0.keeper {
            Some(keeper) => keeper.require_check(conversation).await,
            None => Ok(()),
        }
    }

    fn of(
        keeper: Option<Arc<dyn WindowKeeper>>,
        store: Arc<dyn MessageStore>,
        clock: Arc<dyn Clock>,
        limits: WindowLimits,
    ) -> Self {
        Self(Arc::new(WindowParts {
            store,
            keeper,
            clock,
            limits,
            admission: AdmissionQueue::new(limits.loads, limits.load_wait),
            counts: WindowCounts::new(),
            fills: Flights::new(),
            checks: Flights::new(),
            direct: Flights::new(),
        }))
    }
}

impl WindowParts {
    /// Reads the store within the limit of concurrent reads.
    async fn load<T>(&self, read: impl Future<Output = Loaded<T>>) -> Loaded<T> {
        let permit = self.admission.acquire().await.ok_or(StoreError::Overloaded)?;
        let read = read.await;
        permit.finish();
        read
    }

    fn count(&self, read: ReadResult) {
        self.counts.read(read);
    }
}

impl fmt::Debug for RecentMessages {
    /// Leaves out the contents of messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentMessages")
            .field("span", &self.span)
            .field("messages", &self.messages.len())
            .finish()
    }
}

fn number(count: usize) -> Seq {
    Seq::try_from(count).unwrap_or(Seq::MAX)
}
