//! The calls that make and read marks.

use kith_cache::{Consistency, Token};
use kith_store::{ConversationId, Dialog, DialogKey, MarkKind, Seq, UserId};
use std::sync::Arc;
use tokio::time::Instant;

use super::{
    Dialogs,
    peers::{Peer, peer_of},
    service::keys_of,
    shown::{DialogView, read_seq},
};
use crate::{
    dialog::{HeadAfter, MarkRequest},
    error::Error,
    message::{AtLeast, ReadBounds},
};

/// The result of a mark.
#[derive(Debug)]
pub(super) struct MarkedRead {
    pub(super) read_seq: Seq,
    /// The number of unread messages among the last that the user may read, and whether there may be others.
    pub(super) unread: (u64, bool),
    /// The token of the write; `None`: nothing was written.
    pub(super) token: Option<Token>,
}

/// The read marks of a user and its peer in a conversation.
#[derive(Debug)]
pub(super) struct DialogReadState {
    pub(super) dialog: Arc<Dialog>,
    pub(super) peer: Peer,
    /// See [`DialogView::read_seq`].
    pub(super) read_seq: Seq,
}

impl Dialogs {
    /// Marks messages as read, together with other callers' marks. Durable when this returns.
    ///
    /// # Errors
    /// NOT_FOUND, OUT_OF_RANGE, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn mark(
        &self,
        key: DialogKey,
        kind: MarkKind,
        deadline: Instant,
    ) -> Result<MarkedRead, Error> {
        let bounds = self.seen_bounds(key).await?;
        let (joined, last) = (bounds.joined(), bounds.closed_at());
        let is_hidden = matches!(kind, MarkKind::Hidden(_));
        let request = MarkRequest { key, kind, joined, last, exists: false, imported: false };
        let queue = self.messages.marks.clone();
        let work = Box::pin(async move { queue.mark(request).await });
        let marked = self.messages.mutations.call(deadline, work).await?;
        if marked.token.is_some() {
            self.notify_of_mark(key, marked.dialog.read.read_seq(), is_hidden);
        }
        let view = DialogView::new(bounds, Arc::new(marked.dialog));
        Ok(MarkedRead {
            read_seq: view.read_seq(),
            unread: self.unread_of(view, marked.end, marked.head).await?,
            token: marked.token,
        })
    }

    /// Notifies the user's devices, in the background. In a direct conversation, also notifies the other
    /// user's devices, which must not learn of a hidden mark.
    fn notify_of_mark(&self, key: DialogKey, read_seq: Seq, is_hidden: bool) {
        self.notes.dialog_changed(key, read_seq);
        let Some(peer) = peer_of(key).filter(|_| !is_hidden && self.messages.config.signals) else { return };
        let (this, shown) = (self.clone(), DialogKey { user: peer, ..key });
        tokio::spawn(async move {
            let seen = this.peers(&[shown], &Consistency::Cached).await.ok().and_then(|mut seen| seen.pop());
            if let Some(Peer { read_seq, .. }) = seen.filter(|seen| seen.read_seq > 0) {
                this.notes.peer_read(shown, key.user, read_seq);
            }
        });
    }

    /// Counts the unread messages after a mark, for a log with this end.
    async fn unread_of(
        &self,
        view: DialogView,
        end: Seq,
        head: Option<HeadAfter>,
    ) -> Result<(u64, bool), Error> {
        if view.range(end).max <= view.read_up_to() {
            return Ok((0, false));
        }
        let counted = head.and_then(|HeadAfter { after, head }| {
            view.count_head(&head).filter(|_| after <= view.read_up_to())
        });
        if let Some(counted) = counted {
            return Ok(counted);
        }
        let mut shown = self.show(vec![view], None, &Consistency::Cached, &AtLeast::default()).await?;
        let shown = shown.pop().ok_or_else(Error::internal)?;
        Ok((shown.unread.count, shown.more))
    }

    /// Returns the read marks of a user in these conversations, in their order.
    pub(super) async fn read_states(
        &self,
        user: UserId,
        conversations: &[ConversationId],
        consistency: &Consistency,
    ) -> Result<Vec<Result<DialogReadState, Error>>, Error> {
        let keys = keys_of(user, conversations);
        let (bounds, dialogs, peers) = tokio::try_join!(
            self.messages.bounds(Some(user), conversations),
            self.messages.dialogs.get_many(&keys, consistency),
            self.peers(&keys, consistency)
        )?;
        let states = bounds.into_iter().zip(dialogs).zip(peers);
        let state = |((bounds, dialog), peer): ((Result<ReadBounds, Error>, Arc<Dialog>), Peer)| {
            let read_seq = read_seq(bounds?, &dialog);
            Ok(DialogReadState { dialog, peer, read_seq })
        };
        Ok(states.map(state).collect())
    }
}
