//! The store of dialogs.

use std::fmt;

use async_trait::async_trait;

use super::{Dialog, DialogKey, DialogPatch, ReadMark};
use crate::{Applied, ConversationId, Seq, StoreError, Timestamp, UserId, Version, Write};

/// Most marks in one call of [`DialogStore::mark_dialogs`].
pub const MARKS_AT_ONCE: usize = 250;

/// A mark of one dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialogMark {
    /// The dialog to be marked.
    pub key: DialogKey,
    /// The mark to be made in it.
    pub mark: ReadMark,
    /// The version of the caller's copy; [`Version::NONE`]: it found no dialog. The mark is made in any case,
    /// and [`MarkBase`] says whether the copy was right. `None`: the caller has no copy.
    pub expected: Option<Version>,
}

/// Says which dialog a mark was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkBase {
    /// The dialog had the expected version. The mark has left it as [`Dialog::marked`] does at the time of
    /// the call, settings included. Later writes have higher versions.
    Expected,
    /// The dialog may have had another version, or the mark has changed nothing.
    Other,
}

/// A list of a user's dialogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DialogList {
    /// All dialogs of the user.
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
/// Any number of callers on any number of nodes may write one dialog at once: each write is atomic, and marks
/// never lower what others marked. The existence of conversation, message and user is not checked.
#[async_trait]
pub trait DialogStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) dialogs, each once, in any order. Dialogs that do not
    /// exist are left out; see [`Dialog::absent`]. Sees every write that was acknowledged before it began,
    /// except for some seconds after a failover.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError>;

    /// Reads at most `limit` dialogs in a user's list after a position, by falling day, then by falling text
    /// of the conversation; fewer only at the end. Costs the same at any depth. A dialog that is written
    /// while its list is read may be left out.
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

    /// Reads at most `limit` conversations of a user's dialogs, by rising text after `after`; fewer only at
    /// the end. The pages contain every conversation that had a dialog when the first page was read.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn dialog_conversations(
        &self,
        user: UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, StoreError>;

    /// Makes up to [`MARKS_AT_ONCE`] marks in their order, and returns for each in which dialog it was made.
    /// A mark that changes nothing leaves the dialog and its version as they are. A mark in a dialog that
    /// does not exist makes the dialog in any case. Several marks in one dialog are all made.
    ///
    /// Each dialog is changed atomically, the batch is not. Costs one command for all marks, another read if
    /// a mark changes nothing, and two more commands if a dialog has or gets unread ranges, or does not have
    /// the expected version. Repeating a batch, whatever its outcome was, changes nothing that was marked
    /// already.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more marks, or a mark with more than
    /// [`MARK_RANGES_MAX`](super::MARK_RANGES_MAX) ranges: nothing is changed then. For other errors see
    /// [`StoreError::outcome`]; some marks may have been made.
    ///
    /// A single mark fails with [`StoreError::TooManyRanges`], see
    /// [`ReadRanges::mark`](super::ReadRanges::mark), or with [`StoreError::Corrupt`] when its dialog cannot
    /// be read. That mark changes nothing then.
    async fn mark_dialogs(
        &self,
        marks: &[DialogMark],
        now: Timestamp,
    ) -> Result<Vec<Result<MarkBase, StoreError>>, StoreError>;

    /// Changes a dialog's settings and returns the dialog as the write left it. Raises both versions,
    /// whatever is changed. `write.expected` is compared with [`Dialog::settings_version`], 0 for a dialog
    /// that does not exist.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] with the settings version, [`StoreError::RequestMismatch`]: nothing is
    /// changed then. For other errors see [`StoreError::outcome`].
    async fn change_dialog(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        write: Write,
    ) -> Result<Applied<Dialog>, StoreError>;

    /// Creates up to [`BATCH_MAX`](crate::BATCH_MAX) dialogs, with nothing read and nothing set. Existing
    /// dialogs stay unchanged. See [`DialogKey::of_direct`].
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more keys. For other errors see [`StoreError::outcome`]; some may have
    /// been made.
    async fn make_dialogs(&self, keys: &[DialogKey], now: Timestamp) -> Result<(), StoreError>;

    /// Reduces a deleted user's dialogs about up to [`BATCH_MAX`](crate::BATCH_MAX) conversations, as
    /// [`Dialog::reduced`] does. Each conversation is given with the end of its log. Makes no dialog.
    /// Repeating it changes nothing.
    ///
    /// This is a step in longer work, which pages through [`DialogStore::dialog_conversations`] and may
    /// continue after any conversation or begin again.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more conversations. For other errors see [`StoreError::outcome`]; some
    /// may have been reduced.
    async fn reduce_dialogs(
        &self,
        user: UserId,
        ends: &[(ConversationId, Seq)],
        now: Timestamp,
    ) -> Result<(), StoreError>;
}
