//! Erasure: the content of a user's messages is removed, in all its conversations.
//!
//! Each document is one write. Before it, the erasure's record notes the document: after a crash another node
//! continues there, and knows that the conversation gets its event. All steps are idempotent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kith_proto::message::v1::{MessagesErased, event::What};
use kith_store::{
    ConversationId, DialogStore, DocumentKey, Erasure, ErasureCursor, ErasureStore, MessageKey,
    MessageUpkeep, SentDocuments, Timestamp, UserId, document_of,
};
use tokio::time::{Instant, sleep};

use super::{BEGUN_WITHIN, LEASE_LASTS, PERIOD, content_removal::ContentRemoval};
use crate::{
    domain_context::DomainContext,
    error::Error,
    message::{event::event_message, queue::AppendQueue, store_error, waiting::SentWhen},
    write::{lease::Lease, mutations::Mutations, rounds::Rounds},
};

pub(super) const ROUNDS: Rounds = Rounds {
    lease: "message_erasures",
    lease_lasts: LEASE_LASTS,
    period: PERIOD,
    failed: "messages of a user could not be erased",
};
/// Erasures that are read at once.
const ERASURES: usize = 20;
/// How many of a user's conversations are read at once.
const CONVERSATIONS: usize = 250;

/// Continues erasures.
#[derive(Debug)]
pub(super) struct Erasures {
    erasures: Arc<dyn ErasureStore>,
    dialogs: Arc<dyn DialogStore>,
    store: Arc<dyn MessageUpkeep>,
    queue: AppendQueue,
    removal: ContentRemoval,
    mutations: Mutations,
    /// Pause between two documents.
    pause: Duration,
}

/// A user's conversations, a part at a time.
#[derive(Debug, Default)]
struct UserConversations {
    read: VecDeque<ConversationId>,
    is_last: bool,
}

impl Erasures {
    pub(super) fn new(context: DomainContext<'_>, queue: AppendQueue, documents_per_second: u32) -> Self {
        let DomainContext { stores, mutations, .. } = context;
        let store = Arc::clone(&stores.message_upkeep);
        Self {
            erasures: Arc::clone(&stores.erasures),
            dialogs: Arc::clone(&stores.dialogs),
            removal: ContentRemoval::new(Arc::clone(&store), queue.logs.clone(), mutations.clone()),
            store,
            queue,
            mutations: mutations.clone(),
            pause: Duration::from_secs(1) / documents_per_second.max(1),
        }
    }

    /// Completes erasures in turn, as long as the lease is held. A failure does not stop the others.
    pub(super) async fn round(&mut self, lease: &mut Lease) -> Result<(), Error> {
        let mut done = Ok(());
        for erasure in self.erasures.unfinished_erasures(None, ERASURES).await.map_err(store_error)? {
            done = self.continue_erasure(erasure, lease).await.and(done);
        }
        done
    }

    /// Completes an erasure, unless another node continues it.
    async fn continue_erasure(&self, mut erasure: Erasure, lease: &mut Lease) -> Result<(), Error> {
        if erasure.conversations == 0 {
            erasure.conversations = self.count(erasure.user).await?;
        }
        let mut conversations = UserConversations::default();
        while lease.is_held().await.unwrap_or(false) {
            let Some(conversation) = self.next(&mut conversations, &erasure).await? else {
                if !self.remove_reactions(erasure.user, lease).await? {
                    return Ok(());
                }
                erasure.ended = true;
                return self.save(&mut erasure).await.map(drop);
            };
            if !self.erase_in(conversation, &mut erasure, lease).await? {
                return Ok(());
            }
            if erasure.cursor.after == Some(conversation) {
                conversations.read.pop_front();
            }
        }
        Ok(())
    }

    /// Removes the user's reactions to messages, also to those of others. False: another node continues the
    /// erasure.
    async fn remove_reactions(&self, user: UserId, lease: &mut Lease) -> Result<bool, Error> {
        let Some(reactions) = self.queue.logs.reactions.clone() else { return Ok(true) };
        while lease.is_held().await.unwrap_or(false) {
            let reactions = reactions.clone();
            let work = Box::pin(async move { reactions.remove_some(user).await });
            if !self.mutations.run(Instant::now() + BEGUN_WITHIN, work).await? {
                return Ok(true);
            }
            sleep(self.pause).await;
        }
        Ok(false)
    }

    /// Erases in some of a conversation's documents. False: another node continues the erasure.
    async fn erase_in(
        &self,
        conversation: ConversationId,
        erasure: &mut Erasure,
        lease: &mut Lease,
    ) -> Result<bool, Error> {
        let (user, from) = (erasure.user, erasure.cursor.from);
        // Only the present primary answers this read. A deposed primary could lack the last messages before
        // the call.
        self.queue.logs.strong_end(conversation).await?;
        let search = self.store.documents_sent_by(conversation, user, from).await;
        let SentDocuments { firsts, next } = search.map_err(store_error)?;
        for first in firsts {
            erasure.cursor = ErasureCursor { from: first, erased_some: true, ..erasure.cursor };
            if !lease.is_held().await.unwrap_or(false) || !self.save(erasure).await? {
                return Ok(false);
            }
            let key = DocumentKey { conversation, document: document_of(first) };
            erasure.messages += self.removal.remove(key, erasure).await?;
            sleep(self.pause).await;
        }
        sleep(self.pause).await;
        if let Some(next) = next {
            erasure.cursor.from = next;
            return Ok(true);
        }
        if erasure.cursor.erased_some {
            self.append_event(conversation, erasure).await?;
        }
        erasure.cursor = ErasureCursor { after: Some(conversation), ..ErasureCursor::default() };
        erasure.conversations_done += 1;
        self.save(erasure).await
    }

    /// The conversation after the last completed; `None`: there is none.
    async fn next(
        &self,
        UserConversations { read, is_last }: &mut UserConversations,
        erasure: &Erasure,
    ) -> Result<Option<ConversationId>, Error> {
        if read.is_empty() && !*is_last {
            let some =
                self.dialogs.dialog_conversations(erasure.user, erasure.cursor.after, CONVERSATIONS).await;
            *read = some.map_err(store_error)?.into();
            *is_last = read.len() < CONVERSATIONS;
        }
        Ok(read.front().copied())
    }

    async fn count(&self, user: UserId) -> Result<u64, Error> {
        let (mut after, mut count) = (None, 0);
        loop {
            let some =
                self.dialogs.dialog_conversations(user, after, CONVERSATIONS).await.map_err(store_error)?;
            count += u64::try_from(some.len()).unwrap_or(u64::MAX);
            after = some.last().copied();
            if some.len() < CONVERSATIONS {
                return Ok(count);
            }
        }
    }

    /// Writes the erasure's progress. False: another node continues it.
    async fn save(&self, erasure: &mut Erasure) -> Result<bool, Error> {
        let (store, mutations, record) = (Arc::clone(&self.erasures), self.mutations.clone(), *erasure);
        let write = Box::pin(async move { store.save_erasure(&record).await });
        let work = async move { mutations.run_uncached(write).await.map_err(store_error) };
        let saved = self.mutations.run(Instant::now() + BEGUN_WITHIN, work).await?;
        if let Some(saved) = saved {
            *erasure = saved;
        }
        Ok(saved.is_some())
    }

    /// Appends the event that notifies clients, once in a run.
    async fn append_event(&self, conversation: ConversationId, erasure: &Erasure) -> Result<(), Error> {
        let user_id = erasure.user.get();
        let key = format!("erase:{user_id}:{}", erasure.run);
        let key = MessageKey::of(None, &key);
        let event = event_message(key, What::Erased(MessagesErased { user_id }), Timestamp::now());
        let (_, answers) = self.queue.enqueue(conversation, vec![event], SentWhen::Now)?;
        answers.await.into_iter().try_for_each(|answer| answer.map(drop).map_err(store_error))
    }
}
