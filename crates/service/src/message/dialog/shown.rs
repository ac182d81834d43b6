//! A conversation as one user sees it.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_delivery::Span;
use kith_store::{
    ConversationId, DOCUMENT, Dialog, DialogKey, LogHead, Message, Seq, StoredHeader, Unread, UnreadRange,
    count_unread, document_parts,
};

use super::{Dialogs, peers::Peer};
use crate::{
    error::Error,
    message::{AtLeast, ReadBounds, ReadRange},
};

/// A user's range and read mark in a conversation, before the log's end is known.
#[derive(Clone, Debug)]
pub(super) struct DialogView {
    pub(super) dialog: Arc<Dialog>,
    bounds: ReadBounds,
}

/// A conversation as it is shown to a user.
#[derive(Clone, Debug)]
pub(super) struct ShownConversation {
    pub(super) dialog: Arc<Dialog>,
    pub(super) range: ReadRange,
    /// Counts the unread among the last [`DOCUMENT`] messages that the user may read.
    pub(super) unread: Unread,
    /// Whether there may be other unread messages before these.
    pub(super) more: bool,
    /// The last message that the user may read.
    pub(super) last: Option<Message>,
    pub(super) peer: Peer,
    /// See [`DialogView::read_seq`].
    pub(super) read_seq: Seq,
}

impl ShownConversation {
    /// The conversation.
    pub(super) fn id(&self) -> ConversationId {
        self.dialog.key.conversation
    }

    /// The last message that shows its reactions: a user whose range has ended reads none.
    pub(super) fn reacted(&self) -> Option<(ConversationId, Seq)> {
        let last = self.last.as_ref().filter(|_| self.range.closed_at.is_none())?;
        Some((self.id(), last.seq))
    }
}

impl DialogView {
    /// Creates the view within `bounds`, as far as the dialog shows them.
    pub(super) fn new(bounds: ReadBounds, dialog: Arc<Dialog>) -> Self {
        Self { bounds: bounds.of_dialog(&dialog), dialog }
    }

    pub(super) fn key(&self) -> DialogKey {
        self.dialog.key
    }

    /// Returns the range that the user may read if the log has this end.
    pub(super) fn range(&self, end: Seq) -> ReadRange {
        self.bounds.with(end)
    }

    /// The highest number that the user has marked. A present or former member that may read messages from
    /// before its join begins with a mark at the join.
    pub(super) fn read_seq(&self) -> Seq {
        read_seq(self.bounds, &self.dialog)
    }

    /// The number up to which nothing is unread.
    pub(super) fn read_up_to(&self) -> Seq {
        self.read_seq().max(self.bounds.with(0).min - 1)
    }

    /// Whether the user has left the group.
    pub(super) const fn is_of_former_member(&self) -> bool {
        self.bounds.left().is_some()
    }

    /// Counts how many of the last messages are unread, and says whether there may be others before them.
    /// `None`: the user may not read up to the log's end.
    pub(super) fn count_head(&self, head: &LogHead) -> Option<(u64, bool)> {
        let end = head.last.as_ref().map_or(0, |last| last.seq);
        let range = self.range(end);
        (range.max == end).then(|| (self.count(range, &head.headers).count, self.has_more(range)))
    }

    /// Whether there may be unread messages before the last [`DOCUMENT`] that the user may read.
    fn has_more(&self, range: ReadRange) -> bool {
        self.read_up_to() < range.max - DOCUMENT
    }

    /// Counts the unread messages among these.
    pub(super) fn count(&self, range: ReadRange, headers: &[StoredHeader]) -> Unread {
        let range = UnreadRange {
            user: self.dialog.key.user,
            read_seq: self.read_seq(),
            min_seq: range.min,
            max_seq: Some(range.max),
        };
        count_unread(range, headers.iter().map(Into::into))
    }
}

/// See [`DialogView::read_seq`].
pub(super) fn read_seq(bounds: ReadBounds, dialog: &Dialog) -> Seq {
    let stay = Some(bounds.stay()).filter(|stay| bounds.with(0).min < *stay);
    dialog.read.read_seq().max(stay.map_or(0, |stay| stay - 1))
}

/// Conversations, each with the number up to which nothing is unread.
pub(super) fn unread_of(views: &[DialogView]) -> Vec<(ConversationId, Seq)> {
    views.iter().map(|view| (view.key().conversation, view.read_up_to())).collect()
}

impl Dialogs {
    /// Shows one conversation.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn get(
        &self,
        key: DialogKey,
        consistency: &Consistency,
        at_least: &AtLeast,
    ) -> Result<ShownConversation, Error> {
        let (bounds, dialog) =
            tokio::try_join!(self.bounds(key), self.messages.dialogs.get(key, consistency))?;
        let view = DialogView::new(bounds, dialog);
        let mut shown = self.show(vec![view], None, consistency, at_least).await?;
        shown.pop().ok_or_else(Error::internal)
    }

    /// Shows conversations, in their order. `heads`: those of their logs, if they were read. Logs that seem
    /// to end below `at_least` are read again.
    pub(super) async fn show(
        &self,
        views: Vec<DialogView>,
        heads: Option<Vec<LogHead>>,
        consistency: &Consistency,
        at_least: &AtLeast,
    ) -> Result<Vec<ShownConversation>, Error> {
        let keys: Vec<DialogKey> = views.iter().map(DialogView::key).collect();
        let heads = async {
            match heads {
                Some(heads) => Ok(heads),
                None => self.heads.heads(&unread_of(&views), at_least).await,
            }
        };
        let (heads, peers) = tokio::try_join!(heads, self.peers(&keys, consistency))?;
        let mut shown = Vec::with_capacity(views.len());
        for ((view, head), peer) in views.into_iter().zip(heads).zip(peers) {
            shown.push(self.show_one(view, head, peer).await?);
        }
        Ok(shown)
    }

    async fn show_one(
        &self,
        view: DialogView,
        head: LogHead,
        peer: Peer,
    ) -> Result<ShownConversation, Error> {
        let end = head.last.as_ref().map_or(0, |last| last.seq);
        let range = view.range(end);
        let (headers, last) = if range.max == end && range.closed_at.is_none() {
            (head.headers, head.last)
        } else {
            self.head_of_range(&view, range, end).await?
        };
        Ok(ShownConversation {
            read_seq: view.read_seq(),
            unread: view.count(range, &headers),
            more: view.has_more(range),
            last: last.filter(|last| range.contains(last.seq)),
            dialog: view.dialog,
            range,
            peer,
        })
    }

    /// Returns headers and last message, like a head, for a log that the user sees up to a number below its
    /// end. Reads whole messages: their mentions depend on what is withheld.
    async fn head_of_range(
        &self,
        view: &DialogView,
        range: ReadRange,
        end: Seq,
    ) -> Result<(Vec<StoredHeader>, Option<Message>), Error> {
        let (conversation, logs) = (view.key().conversation, &self.messages.logs);
        let first = (view.read_up_to() + 1).min(range.max).max(range.max - DOCUMENT + 1).max(1);
        let (mut headers, mut last_message) = (Vec::new(), None);
        for (first, last) in document_parts(first, range.max) {
            for mut message in logs.stored(conversation, Span { first, last }, end).await? {
                range.show(&mut message);
                headers.push(StoredHeader::of(&message));
                last_message = Some(message);
            }
        }
        Ok((headers, last_message.filter(|last| last.seq == range.max)))
    }
}
