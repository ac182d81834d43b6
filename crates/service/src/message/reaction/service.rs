//! Makes, withdraws and reads reactions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kith_cache::Consistency;
use kith_store::{
    ConversationId, DocumentKey, KINDS_OF_MESSAGE_MAX, KINDS_OF_USER_MAX, KindCount, REACTIONS_MAX, Reaction,
    ReactionChange, ReactionKey, ReactionKind, ReactionList, ReactionPosition, ReactionRefusal, Seq,
    Timestamp, UserId, document_of,
};
use tokio::time::{Instant, sleep};

use super::{
    super::{
        Messages,
        changes::{ChangeTarget, no_message, was_recalled},
        group_changes::NotedChanges,
        range::{ReadBounds, no_conversation},
        receive,
    },
    records::store_error,
};
use crate::{
    error::{Error, Reason},
    metric::REACTIONS,
};

/// A message is signaled at most once in this time.
const SIGNALED_EVERY: Duration = Duration::from_secs(1);

/// The messages whose reactions were signaled lately.
pub(in crate::message) type ReactionSignals = Arc<NotedChanges<(ConversationId, Seq)>>;

/// A user's reaction in a conversation.
#[derive(Clone, Debug)]
pub(super) struct UserReaction {
    pub(super) conversation: ConversationId,
    pub(super) key: ReactionKey,
}

impl UserReaction {
    /// The message, as the user may read it.
    const fn target(&self) -> ChangeTarget {
        ChangeTarget { conversation: self.conversation, seq: self.key.seq, by: Some(self.key.user) }
    }
}

/// A message after a change of a reaction.
#[derive(Clone, Debug)]
pub(super) struct ReactedMessage {
    pub(super) counts: Vec<KindCount>,
    /// Whether the call changed anything.
    pub(super) is_changed: bool,
}

/// The reactions to a message, as one reader sees them.
#[derive(Clone, Debug)]
pub(super) struct ReadReactions {
    pub(super) seq: Seq,
    pub(super) counts: Vec<KindCount>,
    /// The reader's own kinds.
    pub(super) own: Vec<ReactionKind>,
}

impl Messages {
    /// Makes a reaction, unless it exists.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, INVALID_ARGUMENT, or errors of the
    /// store.
    pub(super) async fn react(
        &self,
        reaction: UserReaction,
        deadline: Instant,
    ) -> Result<ReactedMessage, Error> {
        let this = self.clone();
        let work = async move {
            if this.get_changeable(reaction.target()).await?.recalled.is_some() {
                return Err(was_recalled());
            }
            let UserReaction { conversation, key } = reaction;
            this.may_react(key.user, conversation).await?;
            this.change_reaction(conversation, ReactionChange::Add(Reaction { key, at: Timestamp::now() }))
                .await
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    /// Withdraws a reaction, if it exists.
    ///
    /// # Errors
    /// NOT_FOUND, OUT_OF_RANGE, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn unreact(
        &self,
        reaction: UserReaction,
        deadline: Instant,
    ) -> Result<ReactedMessage, Error> {
        let this = self.clone();
        let work = async move {
            this.get_changeable(reaction.target()).await?;
            let UserReaction { conversation, key } = reaction;
            this.change_reaction(conversation, ReactionChange::Remove(key)).await
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    async fn change_reaction(
        &self,
        conversation: ConversationId,
        change: ReactionChange,
    ) -> Result<ReactedMessage, Error> {
        let (seq, user) = change.pair();
        let kind = if matches!(change, ReactionChange::Add(_)) { "added" } else { "removed" };
        let key = DocumentKey { conversation, document: document_of(seq) };
        let changed = self.reactions.change(key, vec![change]).await?;
        let result = changed.results.first().copied().ok_or_else(Error::internal)?;
        let is_changed = result.map_err(refused)?;
        if is_changed {
            metrics::counter!(REACTIONS.name, "change" => kind).increment(1);
            self.signal_reactions(conversation, seq, user);
        }
        Ok(ReactedMessage { counts: changed.summary.of(seq).to_vec(), is_changed })
    }

    /// Signals a message's reactions to the users who receive now, in the background. If there are several
    /// changes, the first is signaled at once, and the last soon.
    fn signal_reactions(&self, conversation: ConversationId, seq: Seq, user: UserId) {
        let place = (conversation, seq);
        if !self.config.signals || !self.reaction_signals.changed(place) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                let signal = receive::reactions_to_bytes(conversation, user, seq);
                this.queue.signal(conversation, &signal).await;
                sleep(SIGNALED_EVERY).await;
                if !this.reaction_signals.goes_on(&place) {
                    return;
                }
            }
        });
    }

    /// Returns the reactions to these messages that a reader may read, by rising number. A reader whose range
    /// has ended reads none: they may be newer than its leave.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn reactions_to(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        mut seqs: Vec<Seq>,
        consistency: &Consistency,
    ) -> Result<Vec<ReadReactions>, Error> {
        let bounds = self.reader_bounds(reader, conversation).await?;
        seqs.retain(|seq| shows_reactions(bounds, *seq));
        seqs.sort_unstable();
        seqs.dedup();
        let mut keys: Vec<_> =
            seqs.iter().map(|seq| DocumentKey { conversation, document: document_of(*seq) }).collect();
        keys.dedup();
        let counts = self.counts_of(&keys, consistency).await?;
        seqs.retain(|seq| !counts.of(conversation, *seq).is_empty());
        let mut own = self.own_kinds(reader, conversation, &seqs).await?;
        let read = |seq| {
            let counts = counts.of(conversation, seq).to_vec();
            ReadReactions { seq, counts, own: own.remove(&seq).unwrap_or_default() }
        };
        Ok(seqs.into_iter().map(read).collect())
    }

    async fn own_kinds(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        seqs: &[Seq],
    ) -> Result<BTreeMap<Seq, Vec<ReactionKind>>, Error> {
        let mut own: BTreeMap<Seq, Vec<ReactionKind>> = BTreeMap::new();
        let Some(user) = reader.filter(|_| !seqs.is_empty()) else { return Ok(own) };
        let found = self.reactions.store.own_reactions(conversation, user, seqs).await;
        let mut found = found.map_err(store_error)?;
        found.sort_unstable();
        for key in found {
            own.entry(key.seq).or_default().push(key.kind);
        }
        Ok(own)
    }

    /// Returns a part of the reactions to a message, at most `limit`.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn list_reactions(
        &self,
        reader: Option<UserId>,
        list: &ReactionList,
        after: Option<ReactionPosition>,
        limit: usize,
    ) -> Result<Vec<Reaction>, Error> {
        let bounds = self.reader_bounds(reader, list.conversation).await?;
        if !bounds.with(list.seq).contains(list.seq) {
            return Err(no_message());
        }
        if !shows_reactions(bounds, list.seq) {
            return Ok(Vec::new());
        }
        self.reactions.store.reactions(list, after, limit).await.map_err(store_error)
    }

    async fn reader_bounds(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
    ) -> Result<ReadBounds, Error> {
        let bounds = self.seen_bounds(reader, &[conversation]).await?;
        bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))
    }
}

/// Whether a reader with these bounds reads the reactions to a message.
fn shows_reactions(bounds: ReadBounds, seq: Seq) -> bool {
    bounds.closed_at().is_none() && bounds.with(seq).contains(seq)
}

/// Why a reaction is not made.
pub(super) fn refused(refusal: ReactionRefusal) -> Error {
    let text = match refusal {
        // It existed a moment ago.
        ReactionRefusal::NoMessage => return was_recalled(),
        ReactionRefusal::TooManyOfUser => {
            format!("kind: the user reacts to the message with {KINDS_OF_USER_MAX} kinds already, the most")
        }
        ReactionRefusal::TooManyKinds => {
            format!("kind: the message has reactions of {KINDS_OF_MESSAGE_MAX} kinds already, the most")
        }
        ReactionRefusal::TooMany => format!("the message has {REACTIONS_MAX} reactions already, the most"),
    };
    Error::new(Reason::StateForbids, text).at("kind")
}
