//! The state of the calls of dialogs.

use kith_store::{ConversationId, DialogKey, UserId};

use super::heads::LogHeads;
use crate::{
    domain_context::DomainContext,
    error::Error,
    message::{Messages, Notes, ReadBounds, no_conversation},
    rpc::secret::SecretHasher,
};

/// Read marks, settings, and lists of conversations of users. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialogs {
    pub(super) messages: Messages,
    pub(super) heads: LogHeads,
    pub(super) notes: Notes,
    pub(super) hasher: SecretHasher,
}

impl Dialogs {
    /// Over the messages of a deployment. `notes` notifies the devices of users.
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

    /// The range of a user in a conversation, as far as it sees it by its dialog.
    ///
    /// # Errors
    /// As [`Self::bounds`].
    pub(super) async fn seen_bounds(&self, key: DialogKey) -> Result<ReadBounds, Error> {
        let bounds = self.messages.seen_bounds(Some(key.user), &[key.conversation]).await?;
        bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))
    }
}

/// The dialogs of a user about these conversations.
pub(super) fn keys_of(user: UserId, conversations: &[ConversationId]) -> Vec<DialogKey> {
    conversations.iter().map(|conversation| DialogKey { user, conversation: *conversation }).collect()
}
