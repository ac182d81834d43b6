//! Users who had no receiver when a message was delivered, for a service that sends pushes.
//!
//! **Entries.** A message's users are an entry in one of four internal logs, which the store keeps as it
//! keeps messages. An entry's key is made of conversation and number: it may be entered again, by any node,
//! and is there once. A user whose receiver was lost gets a separate entry, whose key has the user, too.
//!
//! **At least once.** A send is answered after its entry is stored (`deliver`). An entry that cannot be
//! stored is pending, like a failed fan-out, and its step's note stays until the entry is stored.
//!
//! **Users** are selected when the message is fanned out, by each user's state at that time
//! (`recipient_state.rs`).

mod entry;
mod recipient_state;
mod rpc;
#[cfg(test)]
pub(super) mod tests;
mod watch;

use std::{sync::Arc, time::Duration};

use kith_store::{ConversationId, Message, MessageStore, NewMessage, Seq, SeqRange, Timestamp, UserId};
use tokio::sync::watch as signal;

pub use self::rpc::OfflineRpc;
use self::{
    entry::EntryKind,
    recipient_state::{RecipientStates, StoredRecipientStates},
};
use super::{MessagesConfig, waiting::STEP_MAX};
use crate::{
    dialog::DialogRecords,
    domain_context::DomainContext,
    error::Error,
    message::store_error,
    metric::{OFFLINE_ENTRIES, count_from_zero},
    relation::Blocks,
    user::Accesses,
    write::mutations::Mutations,
};

/// The logs for users without a receiver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OfflineLogs(Arc<OfflineLogsInner>);

#[derive(Debug)]
struct OfflineLogsInner {
    store: Arc<dyn MessageStore>,
    states: Arc<dyn RecipientStates>,
    mutations: Mutations,
    kept: Duration,
    /// Wakes this node's streams.
    entered: signal::Sender<()>,
}

/// Message recipients who have no receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AbsentRecipients {
    /// All these users.
    All(Vec<UserId>),
    /// The mentioned ones among these: the group is too large to name all.
    Mentioned(Vec<UserId>),
}

impl OfflineLogs {
    /// Creates them over users' dialogs, blocks and access. `None`: they are off by the configuration.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        dialogs: DialogRecords,
        blocks: Blocks,
        accesses: Accesses,
        config: &MessagesConfig,
    ) -> Option<Self> {
        count_from_zero(OFFLINE_ENTRIES, &[]);
        let states = Arc::new(StoredRecipientStates { dialogs, blocks, accesses });
        let (store, mutations) = (Arc::clone(&context.stores.messages), context.mutations.clone());
        config.offline.then(|| Self::over(store, states, mutations, config.offline_kept))
    }

    fn over(
        store: Arc<dyn MessageStore>,
        states: Arc<dyn RecipientStates>,
        mutations: Mutations,
        kept: Duration,
    ) -> Self {
        Self(Arc::new(OfflineLogsInner { store, states, mutations, kept, entered: signal::Sender::new(()) }))
    }

    /// Enters a conversation's messages, each with the recipients who are to be notified. An existing entry
    /// is unchanged.
    ///
    /// # Errors
    /// The store's errors; some may have been entered.
    pub(super) async fn enter(
        &self,
        conversation: ConversationId,
        messages: &[Message],
        absent: &AbsentRecipients,
    ) -> Result<(), Error> {
        self.enter_as(EntryKind::OfMessage, conversation, messages, absent).await
    }

    /// Like [`Self::enter`], for recipients who had a receiver when the messages were sent. These entries are
    /// separate from the others: a message may have one entry in each kind for every user.
    ///
    /// # Errors
    /// The errors of [`Self::enter`].
    pub(super) async fn enter_again(
        &self,
        conversation: ConversationId,
        messages: &[Message],
        absent: &AbsentRecipients,
    ) -> Result<(), Error> {
        self.enter_as(EntryKind::OfUsers, conversation, messages, absent).await
    }

    async fn enter_as(
        &self,
        kind: EntryKind,
        conversation: ConversationId,
        messages: &[Message],
        absent: &AbsentRecipients,
    ) -> Result<(), Error> {
        let states = self.0.states.of(conversation, absent.users()).await?;
        let known: Vec<_> = absent.users().iter().copied().zip(states).collect();
        let named = messages.iter().filter(|message| is_announced(message));
        let entries = named.filter_map(|message| entry::of(kind, conversation, message, absent, &known));
        for some in entries.collect::<Vec<_>>().chunks(STEP_MAX) {
            self.append(conversation.offline_log(), some.to_vec()).await?;
        }
        Ok(())
    }

    /// The messages from one number to another, which are in one document.
    pub(super) async fn stored(
        &self,
        conversation: ConversationId,
        seqs: SeqRange,
    ) -> Result<Vec<Message>, Error> {
        self.0.store.messages(conversation, seqs.first, seqs.last).await.map_err(store_error)
    }

    /// The number of a conversation's last message.
    pub(super) async fn end(&self, conversation: ConversationId) -> Result<Seq, Error> {
        let ends = self.0.store.ends(&[conversation]).await.map_err(store_error)?;
        Ok(ends.first().map_or(0, |end| end.seq))
    }

    /// The first message's number if it that is at most this old.
    pub(super) async fn sent_within(
        &self,
        conversation: ConversationId,
        age: Duration,
    ) -> Result<Seq, Error> {
        self.0.store.seq_at(conversation, before(age)).await.map_err(store_error)
    }

    /// Whether an entry for a message with this time may have been removed.
    pub(super) fn is_old(&self, sent: Timestamp) -> bool {
        sent < before(self.0.kept)
    }

    async fn append(&self, log: ConversationId, entries: Vec<NewMessage>) -> Result<(), Error> {
        let (store, count) = (Arc::clone(&self.0.store), entries.len());
        let write = Box::pin(async move { store.append(log, &entries).await });
        self.0.mutations.run_uncached(write).await.map_err(store_error)?;
        metrics::counter!(OFFLINE_ENTRIES.name).increment(u64::try_from(count).unwrap_or_default());
        self.0.entered.send_replace(());
        Ok(())
    }
}

impl AbsentRecipients {
    fn users(&self) -> &[UserId] {
        let (Self::All(users) | Self::Mentioned(users)) = self;
        users
    }
}

/// Whether users are notified about a message at all.
pub(super) fn is_announced(message: &Message) -> bool {
    message.kind == kith_store::MessageKind::Message && !message.silent && message.recalled.is_none()
}

/// The time this long ago.
pub(super) fn before(age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp(Timestamp::now().0.saturating_sub(age))
}
