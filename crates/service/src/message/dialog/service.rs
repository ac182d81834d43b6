//! The state of the calls of dialogs.

use kith_store::{ConversationId, DialogKey, UserId};

use super::heads::LogHeads;
use crate::{
    domain_context::DomainContext,
    error::Error,
    message::{Messages, Notes, ReadBounds, no_conversation},
    rpc::secret::SecretHasher,
};

/// The users' read marks, settings, and lists of conversations. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialogs {
    pub(super) messages: Messages,
    pub(super) heads: LogHeads,
    pub(super) notes: Notes,
    pub(super) hasher: SecretHasher,
}

impl Dialogs {
    /// Creates it over a deployment's messages. `notes` notifies users' devices.
    #[must_use]
    pub fn new(context: DomainContext<'_>, messages: Messages, notes: Notes) -> Self {
        let heads = LogHeads::new(messages.logs.clone());
        Self { messages, heads, notes, hasher: context.hasher.clone() }
    }

    /// The range of a user in a conversation, before its dialog is applied.
    ///
    /// # Errors
    /// NOT_FOUND if it may read nothing of it, or errors of the store.
    pub(super) async fn bounds(&self, key: DialogKey) -> Result<ReadBounds, Error> {
        let bounds = self.messages.bounds(Some(key.user), &[key.conversation]).await?;
        bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))
    }

    /// Returns a user's range in a conversation, as far as its dialog shows it.
    ///
    /// # Errors
    /// Fails like [`Self::bounds`].
    pub(super) async fn seen_bounds(&self, key: DialogKey) -> Result<ReadBounds, Error> {
        let bounds = self.messages.seen_bounds(Some(key.user), &[key.conversation]).await?;
        bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))
    }
}

/// The dialogs of a user about these conversations.
pub(super) fn keys_of(user: UserId, conversations: &[ConversationId]) -> Vec<DialogKey> {
    conversations.iter().map(|conversation| DialogKey { user, conversation: *conversation }).collect()
}
