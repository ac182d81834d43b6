//! What the calls of dialogs are made of.

use kith_store::{ConversationId, DialogKey, UserId};

use super::heads::Heads;
use crate::{
    domain_context::DomainContext,
    error::Error,
    message::{Bounds, Messages, Notes, no_conversation},
    rpc::secret::SecretHasher,
};

/// What users have read and set, and lists of their conversations. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialogs {
    pub(super) messages: Messages,
    pub(super) heads: Heads,
    pub(super) notes: Notes,
    pub(super) hasher: SecretHasher,
}

impl Dialogs {
    /// Over the messages of a deployment. `notes` notifies the devices of users.
    #[must_use]
    pub fn new(context: DomainContext<'_>, messages: Messages, notes: Notes) -> Self {
        let heads = Heads::new(messages.logs.clone());
        Self { messages, heads, notes, hasher: context.hasher.clone() }
    }

    /// What bounds a user in a conversation, besides its dialog.
    ///
    /// # Errors
    /// NOT_FOUND if it may read nothing of it, or those of a failing store.
    pub(super) async fn bounds(&self, key: DialogKey) -> Result<Bounds, Error> {
        let bounds = self.messages.bounds(Some(key.user), &[key.conversation]).await?;
        bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))
    }
}

/// The dialogs of a user about these conversations.
pub(super) fn keys_of(user: UserId, conversations: &[ConversationId]) -> Vec<DialogKey> {
    conversations.iter().map(|conversation| DialogKey { user, conversation: *conversation }).collect()
}
