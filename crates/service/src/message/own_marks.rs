//! Every sender has read its own messages.

use std::{collections::BTreeMap, time::Duration};

use kith_store::{ConversationId, DialogKey, MarkKind, Seq, UserId};
use tokio::time::Instant;

use super::{
    Messages,
    sending::{MessageDraft, SendOutcome},
};
use crate::{
    dialog::MarkRequest,
    error::{Error, Reason},
};

/// Deadline for the begin of a mark, which begins at once and runs to its end.
const MARKED_WITHIN: Duration = Duration::from_secs(10);

impl MessageDraft {
    /// The user who has read up to the message when it is sent; `None`: none.
    pub(super) fn marker(&self) -> Option<UserId> {
        self.message.sender.filter(|_| !self.keeps_unread)
    }
}

impl Messages {
    /// Marks what was sent as read by its senders, in the background.
    pub(super) fn mark_own<'a>(
        &self,
        conversation: ConversationId,
        sent: impl Iterator<Item = (Option<UserId>, &'a Result<SendOutcome, Error>)>,
    ) {
        let mut last: BTreeMap<UserId, Seq> = BTreeMap::new();
        for (user, sent) in sent {
            if let (Some(user), Ok(sent)) = (user, sent) {
                let seq = last.entry(user).or_default();
                *seq = sent.seq.max(*seq);
            }
        }
        for (user, seq) in last {
            let this = self.clone();
            let mark = async move { this.mark_one(DialogKey { user, conversation }, seq).await };
            let mutations = self.mutations.clone();
            tokio::spawn(async move {
                if let Err(error) = mutations.run(Instant::now() + MARKED_WITHIN, mark).await {
                    tracing::warn!(%error, "a message could not be marked as read by its sender");
                }
            });
        }
    }

    async fn mark_one(&self, key: DialogKey, seq: Seq) -> Result<(), Error> {
        let bounds = self.bounds(Some(key.user), &[key.conversation]).await?.into_iter().next();
        let bounds = match bounds {
            Some(Ok(bounds)) => bounds,
            // It left the group in between, and may read nothing of it.
            Some(Err(error)) if error.reason() == Reason::NotFound => return Ok(()),
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        };
        let (joined, left) = (bounds.joined(), bounds.left());
        let request = MarkRequest { key, kind: MarkKind::UpTo(seq), joined, left, exists: true };
        self.marks.mark(request).await.map(drop)
    }
}
