//! Counts of unread messages.

use kith_cache::Consistency;
use kith_store::{ConversationId, DOCUMENT, DialogKey, LogHead, Seq, SeqRange, UserId, document_parts};

use super::{
    Dialogs,
    list::{ListedDialogs, PAGE_MAX},
    service::keys_of,
    shown::{DialogView, unread_of},
};
use crate::{
    error::{Error, Reason},
    message::AtLeast,
};

/// The most messages that are counted in a conversation.
const MESSAGES_MAX: Seq = 1_000;
/// The most parts of documents that a call reads besides the heads.
const PARTS_MAX: usize = 200;

/// The unread count of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnreadCount {
    pub(super) conversation: ConversationId,
    /// The number of unread messages. Above 0, unless there may be others that were not counted.
    pub(super) unread: u64,
    pub(super) more: bool,
    /// Whether the user has set do-not-disturb for it.
    pub(super) do_not_disturb: bool,
}

impl Dialogs {
    /// Counts a user's unread messages in these conversations, in their order, or in all listed
    /// conversations. Conversations that the user cannot read or that have no unread messages are left out.
    /// Logs that seem to end below `at_least` are read again. `consistency` is that of the marks.
    pub(super) async fn count(
        &self,
        user: UserId,
        conversations: Vec<ConversationId>,
        at_least: &AtLeast,
        consistency: &Consistency,
    ) -> Result<Vec<UnreadCount>, Error> {
        let mut views = if conversations.is_empty() {
            self.views_of_all(user, at_least).await?
        } else {
            self.views_of(user, conversations, at_least, consistency).await?
        };
        views.retain(|(view, end, _)| view.read_up_to() < view.range(*end).max);
        let (views, heads): (Vec<_>, Vec<_>) = views.into_iter().map(|(view, _, head)| (view, head)).unzip();
        let heads: Vec<LogHead> = match heads.into_iter().collect() {
            Some(heads) => heads,
            None => self.heads.heads(&unread_of(&views), at_least).await?,
        };
        let (mut counts, mut parts_left) = (Vec::with_capacity(views.len()), PARTS_MAX);
        for (view, head) in views.into_iter().zip(heads) {
            let (unread, more) = self.count_one(&view, head, &mut parts_left).await?;
            let (conversation, do_not_disturb) = (view.key().conversation, view.dialog.do_not_disturb);
            counts.extend((unread > 0 || more).then_some(UnreadCount {
                conversation,
                unread,
                more,
                do_not_disturb,
            }));
        }
        self.with_peers(user, counts).await
    }

    /// Adds the do-not-disturb settings of direct conversations.
    async fn with_peers(
        &self,
        user: UserId,
        mut counts: Vec<UnreadCount>,
    ) -> Result<Vec<UnreadCount>, Error> {
        let keys: Vec<DialogKey> =
            counts.iter().map(|count| DialogKey { user, conversation: count.conversation }).collect();
        let peers = self.peers(&keys, &Consistency::Cached).await?;
        for (count, peer) in counts.iter_mut().zip(peers) {
            count.do_not_disturb |= peer.do_not_disturb;
        }
        Ok(counts)
    }

    /// All that are listed, each with the end of its log, and its head if it was read.
    async fn views_of_all(
        &self,
        user: UserId,
        at_least: &AtLeast,
    ) -> Result<Vec<(DialogView, Seq, Option<LogHead>)>, Error> {
        let ListedDialogs { views, .. } = self.listed(user, at_least, PAGE_MAX).await?;
        Ok(views.into_iter().map(|listed| (listed.view, listed.end, listed.head)).collect())
    }

    /// Those that the user can read, each once.
    async fn views_of(
        &self,
        user: UserId,
        conversations: Vec<ConversationId>,
        at_least: &AtLeast,
        consistency: &Consistency,
    ) -> Result<Vec<(DialogView, Seq, Option<LogHead>)>, Error> {
        let keys = keys_of(user, &conversations);
        let (bounds, dialogs, ends) = tokio::try_join!(
            self.messages.bounds(Some(user), &conversations),
            self.messages.dialogs.get_many(&keys, consistency),
            self.messages.logs.ends(&conversations, at_least)
        )?;
        let mut views = Vec::with_capacity(conversations.len());
        for ((bounds, dialog), end) in bounds.into_iter().zip(dialogs).zip(ends) {
            match bounds {
                Ok(bounds) => views.push((DialogView::new(bounds, dialog), end.seq, None)),
                Err(error) if error.reason() == Reason::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(views)
    }

    /// Returns the number of unread messages, and whether there may be others.
    async fn count_one(
        &self,
        view: &DialogView,
        head: LogHead,
        parts_left: &mut usize,
    ) -> Result<(u64, bool), Error> {
        let end = head.last.map_or(0, |last| last.seq);
        let range = view.range(end);
        let first_of_head = end - DOCUMENT + 1;
        let first = (view.read_up_to() + 1).max(range.max - MESSAGES_MAX + 1);
        let mut unread = view.count(range, &head.headers).count;
        for (first, last) in document_parts(first, range.max.min(first_of_head - 1)).rev() {
            if *parts_left == 0 {
                return Ok((unread, true));
            }
            *parts_left -= 1;
            let headers = self.heads.headers(view.key().conversation, SeqRange { first, last }).await?;
            unread += view.count(range, &headers).count;
        }
        Ok((unread, view.read_up_to() + 1 < first))
    }
}
