//! Changes the settings that users and services have for a conversation.

use kith_cache::Consistency;
use kith_store::{
    Conversation, ConversationId, Dialog, DialogKey, DialogPatch, MemberKey, MinSeq, Role, Seq,
};
use tokio::time::Instant;

use super::{super::AtLeast, Dialogs, shown::ShownConversation};
use crate::{
    dialog::out_of_range,
    error::Error,
    rpc::{
        call::{Call, Principal},
        request::WriteContext,
    },
    write::mutations::Committed,
};

impl Dialogs {
    /// Makes a direct conversation's dialogs, for a user who may send to it. Returns the conversation, and a
    /// token if something was written.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, or errors of the store.
    pub(super) async fn create(
        &self,
        key: DialogKey,
        deadline: Instant,
    ) -> Result<(ShownConversation, Option<kith_cache::Token>), Error> {
        self.messages.may_send(Some(key.user), key.conversation).await?;
        let records = self.messages.dialogs.clone();
        let work =
            Box::pin(async move { records.create_missing(key.conversation, std::iter::empty()).await });
        let token = self.messages.mutations.call(deadline, work).await?;
        Ok((self.get(key, &Consistency::Cached, &AtLeast::default()).await?, token))
    }

    /// Changes settings of a dialog. Returns the dialog after the write.
    ///
    /// # Errors
    /// NOT_FOUND, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn change(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        context: WriteContext,
    ) -> Result<Committed<Dialog>, Error> {
        self.bounds(key).await?;
        self.write(key, patch, context).await
    }

    /// Leaves a conversation out of a user's list until it has a new message.
    ///
    /// # Errors
    /// Fails like [`Self::change`].
    pub(super) async fn hide(
        &self,
        key: DialogKey,
        context: WriteContext,
    ) -> Result<Committed<Dialog>, Error> {
        let end = self.end(key).await?;
        let patch = DialogPatch { hidden_seq: Some(Some(end)), ..DialogPatch::default() };
        self.write(key, patch, context).await
    }

    /// Hides the present messages of a conversation from a user.
    ///
    /// # Errors
    /// Fails like [`Self::change`].
    pub(super) async fn clear(
        &self,
        key: DialogKey,
        context: WriteContext,
    ) -> Result<Committed<Dialog>, Error> {
        let end = self.end(key).await?;
        let patch = DialogPatch { min_seq: Some(MinSeq::Raise(end + 1)), ..DialogPatch::default() };
        self.write(key, patch, context).await
    }

    /// Hides the messages of a conversation below a number from all users. Strongly consistent.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE, or errors of the store.
    pub(super) async fn trim(
        &self,
        id: ConversationId,
        min_seq: Seq,
        call: Call,
    ) -> Result<Committed<Conversation>, Error> {
        self.may_trim(id, call.principal).await?;
        if min_seq > self.messages.logs.strong_end(id).await?.saturating_add(1) {
            return Err(out_of_range());
        }
        let records = self.messages.conversations.clone();
        let work = Box::pin(async move { records.raise_min_seq(id, min_seq, true).await });
        self.messages.mutations.call(call.deadline, work).await
    }

    /// Returns the end of a conversation, as far as a user may read it.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    async fn end(&self, key: DialogKey) -> Result<Seq, Error> {
        // The read of the end is the most expensive step: a user who may not read the conversation must not
        // cause it.
        let bounds = self.seen_bounds(key).await?;
        let end = self.messages.logs.strong_end(key.conversation).await?;
        Ok(bounds.with(end).max)
    }

    async fn write(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        context: WriteContext,
    ) -> Result<Committed<Dialog>, Error> {
        let write = context.write(&self.hasher).await?;
        let written = self.messages.dialogs.change(key, patch, write, context.deadline).await?;
        self.notes.dialog_changed(key, written.record.read.read_seq());
        Ok(written)
    }

    async fn may_trim(&self, id: ConversationId, principal: Principal) -> Result<(), Error> {
        let bounds = self.messages.bounds(principal.user(), &[id]).await?;
        bounds.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (Principal::User(user), members) = (principal, &self.messages.dependencies.members) else {
            return Ok(());
        };
        let role = match id {
            ConversationId::Group(group) => {
                members.with_roster(MemberKey { group, user }).await?.0.map(|member| member.value.role)
            }
            ConversationId::Direct(..) | ConversationId::Offline(_) => None,
        };
        if role == Some(Role::Owner) {
            return Ok(());
        }
        Err(Error::not_allowed("only the owner of the group and services may do this"))
    }
}
