//! A conversation as one user sees it.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_store::{
    ConversationId, DOCUMENT, Dialog, DialogKey, LogHead, Message, Seq, StoredHeader, Unread, UnreadRange,
    count_unread, document_parts,
};

use super::{Dialogs, peers::Peer};
use crate::{
    error::Error,
    message::{AtLeast, Bounds, Range},
};

/// What a user may read of a conversation and has read of it; the end of the log is not known yet.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) dialog: Arc<Dialog>,
    bounds: Bounds,
}

/// A conversation as it is shown to a user.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) dialog: Arc<Dialog>,
    pub(super) range: Range,
    /// Of the last [`DOCUMENT`] messages that the user may read.
    pub(super) unread: Unread,
    /// Whether there may be other unread ones before.
    pub(super) more: bool,
    /// The last message that the user may read.
    pub(super) last: Option<Message>,
    pub(super) peer: Peer,
}

impl View {
    /// Within `bounds`, as far as the user sees them by its dialog.
    pub(super) fn new(bounds: Bounds, dialog: Arc<Dialog>) -> Self {
        Self { bounds: bounds.of_dialog(&dialog), dialog }
    }

    pub(super) fn key(&self) -> DialogKey {
        self.dialog.key
    }

    /// What the user may read of a log that ends so.
    pub(super) fn range(&self, end: Seq) -> Range {
        self.bounds.with(end)
    }

    /// The number up to which nothing is unread.
    pub(super) fn read_up_to(&self) -> Seq {
        self.dialog.read.read_seq().max(self.bounds.with(0).min - 1)
    }

    /// Whether the user has left the group.
    pub(super) const fn is_of_former_member(&self) -> bool {
        self.bounds.left().is_some()
    }

    /// Counts the unread ones of these messages.
    pub(super) fn count(&self, range: Range, headers: &[StoredHeader]) -> Unread {
        let range = UnreadRange {
            user: self.dialog.key.user,
            read_seq: self.dialog.read.read_seq(),
            min_seq: range.min,
            max_seq: Some(range.max),
        };
        count_unread(range, headers.iter().map(Into::into))
    }
}

impl Dialogs {
    /// Shows one conversation.
    ///
    /// # Errors
    /// NOT_FOUND, or those of a failing store.
    pub(super) async fn get(&self, key: DialogKey, consistency: &Consistency) -> Result<Shown, Error> {
        let (bounds, dialog) =
            tokio::try_join!(self.bounds(key), self.messages.dialogs.get(key, consistency))?;
        let view = View::new(bounds, dialog);
        let mut shown = self.show(vec![view], consistency, &AtLeast::default()).await?;
        shown.pop().ok_or_else(Error::internal)
    }

    /// Shows conversations, in their order. Logs are read from the store, and again if they seem to end below `at_least`.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn show(
        &self,
        views: Vec<View>,
        consistency: &Consistency,
        at_least: &AtLeast,
    ) -> Result<Vec<Shown>, Error> {
        let keys: Vec<DialogKey> = views.iter().map(View::key).collect();
        let asked: Vec<(ConversationId, Seq)> =
            views.iter().map(|view| (view.key().conversation, view.read_up_to())).collect();
        let (heads, peers) =
            tokio::try_join!(self.heads.heads(&asked, at_least), self.peers(&keys, consistency))?;
        let mut shown = Vec::with_capacity(views.len());
        for ((view, head), peer) in views.into_iter().zip(heads).zip(peers) {
            shown.push(self.show_one(view, head, peer).await?);
        }
        Ok(shown)
    }

    async fn show_one(&self, view: View, head: LogHead, peer: Peer) -> Result<Shown, Error> {
        let end = head.last.as_ref().map_or(0, |last| last.seq);
        let range = view.range(end);
        let (headers, last) = if range.max == end {
            (head.headers, head.last)
        } else {
            self.head_up_to(&view, range.max).await?
        };
        Ok(Shown {
            unread: view.count(range, &headers),
            more: view.read_up_to() < range.max - DOCUMENT,
            last: last.filter(|last| range.contains(last.seq)),
            dialog: view.dialog,
            range,
            peer,
        })
    }

    /// The same as a head, of a log that the user sees up to a number below its end.
    async fn head_up_to(&self, view: &View, max: Seq) -> Result<(Vec<StoredHeader>, Option<Message>), Error> {
        let conversation = view.key().conversation;
        let first = (view.read_up_to() + 1).max(max - DOCUMENT + 1);
        let mut headers = Vec::new();
        for part in document_parts(first, max) {
            headers.extend(self.heads.headers(conversation, part).await?);
        }
        Ok((headers, self.heads.message(conversation, max).await?))
    }
}
