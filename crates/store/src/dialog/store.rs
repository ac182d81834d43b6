//! The store of dialogs.

use std::fmt;

use async_trait::async_trait;

use super::{Dialog, DialogKey, DialogPatch, ReadMark};
use crate::{Applied, ConversationId, Seq, StoreError, Timestamp, UserId, Version, Write};

/// Most marks of one [`DialogStore::mark_dialogs`].
pub const MARKS_AT_ONCE: usize = 250;

/// A mark of one dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialogMark {
    /// The dialog.
    pub key: DialogKey,
    /// The mark.
    pub mark: ReadMark,
    /// The version of the copy that the caller has; [`Version::NONE`]: it found no dialog. The mark is made in any case, and
    /// [`MarkBase`] says whether the copy was right. `None`: the caller has none.
    pub expected: Option<Version>,
}

/// Which dialog a mark was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkBase {
    /// That of the expected version. The mark has left what [`Dialog::marked`] makes of it at the time of the call, settings
    /// included. Later writes have higher versions.
    Expected,
    /// Perhaps another one, or the mark has changed nothing.
    Other,
}

/// A list of the dialogs of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DialogList {
    /// All.
    All,
    /// Dialogs of direct conversations.
    Direct,
}

/// A position in a list of dialogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DialogPosition {
    /// See [`Dialog::day`].
    pub day: i64,
    /// The conversation of the dialog.
    pub conversation: ConversationId,
}

/// Storage of [`Dialog`] records. A dialog is made by the first write that names it, and is never removed.
///
/// Any number of callers on any number of nodes may write one dialog at once: each write is atomic, and marks never
/// lower what others marked. The existence of conversation, message and user is not checked.
#[async_trait]
pub trait DialogStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) dialogs; each once, in any order. Those that do not exist are left out; see
    /// [`Dialog::absent`]. Sees every write that was acknowledged before it began, except for some seconds after a failover.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError>;

    /// Reads a list of a user after a position, by falling day, then by falling text of the conversation, at most `limit`: fewer
    /// only at the end. Costs the same at any depth. A dialog that is written while its list is read may be left out.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn dialog_list(
        &self,
        user: UserId,
        list: DialogList,
        after: Option<DialogPosition>,
        limit: usize,
    ) -> Result<Vec<Dialog>, StoreError>;

    /// Reads the conversations of a user's dialogs, by rising text after `after`, at most `limit`: fewer only at the
    /// end. Contains every one that existed when the first page was read.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn dialog_conversations(
        &self,
        user: UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, StoreError>;

    /// Makes up to [`MARKS_AT_ONCE`] marks in their order, and returns for each in which dialog it was made. A mark that changes nothing
    /// leaves the dialog and its version as they are; one of a dialog that does not exist makes it in any case. Of several marks
    /// of one dialog each is made.
    ///
    /// Each dialog is changed atomically, not the batch. Costs one command for all, a read more if a mark changes nothing, and two
    /// commands more if a dialog has unread ranges or gets some, or has another version than the expected one. Repeating a batch, whatever its outcome was, changes nothing that was marked already.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more marks, or a mark of more than [`MARK_RANGES_MAX`](super::MARK_RANGES_MAX)
    /// ranges: nothing is changed then. For other errors see [`StoreError::outcome`]; a part of the marks may have been
    /// made.
    ///
    /// Errors of one mark: [`StoreError::TooManyRanges`], see [`ReadRanges::mark`](super::ReadRanges::mark);
    /// [`StoreError::Corrupt`] when its dialog cannot be read. It changes nothing then.
    async fn mark_dialogs(
        &self,
        marks: &[DialogMark],
        now: Timestamp,
    ) -> Result<Vec<Result<MarkBase, StoreError>>, StoreError>;

    /// Changes settings of a dialog and returns the dialog as the write left it. Raises both versions, whatever is changed.
    /// `write.expected` is compared with [`Dialog::settings_version`], 0 for a dialog that does not exist.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] with the settings version, [`StoreError::RequestMismatch`]: nothing is changed then.
    /// For other errors see [`StoreError::outcome`].
    async fn change_dialog(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        write: Write,
    ) -> Result<Applied<Dialog>, StoreError>;

    /// Creates up to [`BATCH_MAX`](crate::BATCH_MAX) dialogs, with nothing read and nothing set; leaves existing ones
    /// unchanged. See [`DialogKey::of_direct`].
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more keys. For other errors see [`StoreError::outcome`]; some may have been made.
    async fn make_dialogs(&self, keys: &[DialogKey], now: Timestamp) -> Result<(), StoreError>;

    /// Reduces dialogs of a deleted user about up to [`BATCH_MAX`](crate::BATCH_MAX) conversations, each given with the end of
    /// its log, to what [`Dialog::reduced`] leaves. Makes no dialog. Repeating it changes nothing.
    ///
    /// A step of a longer work, which pages through [`DialogStore::dialog_conversations`] and may be continued after any
    /// conversation or begun again.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more conversations. For other errors see [`StoreError::outcome`]; some may have
    /// been reduced.
    async fn reduce_dialogs(
        &self,
        user: UserId,
        ends: &[(ConversationId, Seq)],
        now: Timestamp,
    ) -> Result<(), StoreError>;
}
