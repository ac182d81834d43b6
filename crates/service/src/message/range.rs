//! The conversation messages that a reader may read.

use kith_cache::Consistency;
use kith_delivery::{RecentMessages, RequestedMessages};
use kith_store::{ConversationId, Dialog, DialogKey, GroupId, LogEnd, Message, Seq, StoreError, UserId};

use super::{AtLeast, Messages};
use crate::error::Error;

/// The messages that a reader may read; none if `max` is below `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadRange {
    /// The lowest number.
    pub(crate) min: Seq,
    /// The highest number.
    pub(crate) max: Seq,
    /// The last number that the reader may ever read; `None`: it may read later messages, too.
    pub(crate) closed_at: Option<Seq>,
}

/// A reader's range, and the messages that were read with it.
#[derive(Debug)]
pub(super) struct ReadableLog {
    pub(super) range: ReadRange,
    /// Some last messages, with contiguous numbers that rise.
    pub(super) recent: Vec<Message>,
}

impl ReadRange {
    pub(crate) const fn contains(&self, seq: Seq) -> bool {
        self.min <= seq && seq <= self.max
    }

    /// Makes the message what the reader may see. Its content is withheld if an edit above the range has
    /// written it: a former member reads nothing that is newer than its leave. Every message passes here
    /// before it is returned.
    pub(crate) fn show(self, message: &mut Message) {
        if self.closed_at.is_some_and(|last| message.is_edited_above(last)) {
            (message.content_type, message.body, message.mentions) = Default::default();
            message.mention_all = false;
        }
    }
}

/// Whether [`ReadRange::show`] has withheld a message's content. No edit leaves both empty.
pub(super) fn is_withheld(message: &Message) -> bool {
    let is_empty = message.content_type.is_empty() && message.body.is_empty();
    message.edited.is_some() && message.recalled.is_none() && is_empty
}

/// A reader's bounds besides the log's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBounds {
    from: Seq,
    /// The last message before the reader left the group; `None`: it has not left.
    left: Option<Seq>,
    /// The highest number by its dialog; `None`: the end.
    to: Option<Seq>,
    /// Where the last stay begins, at least 1.
    stay: Seq,
}

impl ReadBounds {
    const ALL: Self = Self { from: 1, left: None, to: None, stay: 1 };

    /// The range for a log with this end.
    pub(crate) fn with(self, end: Seq) -> ReadRange {
        let closed_at = self.closed_at();
        ReadRange { min: self.from.max(1), max: closed_at.unwrap_or(end).min(end), closed_at }
    }

    /// Narrows the bounds to the part that the reader's dialog shows.
    pub(crate) fn of_dialog(self, dialog: &Dialog) -> Self {
        let to = [self.to, dialog.max_seq].into_iter().flatten().min();
        Self { to, ..self.raised_to(dialog.min_seq.unwrap_or_default()) }
    }

    /// The last message before the reader left the group; `None`: it has not left.
    pub(crate) const fn left(&self) -> Option<Seq> {
        self.left
    }

    /// The last number that the reader may ever read; `None`: it may read later messages, too.
    pub(crate) fn closed_at(&self) -> Option<Seq> {
        [self.left, self.to].into_iter().flatten().min()
    }

    /// Where the last stay begins.
    pub(crate) const fn stay(&self) -> Seq {
        self.stay
    }

    /// Where the current stay begins; `None`: the reader is a former member.
    pub(crate) const fn joined(&self) -> Option<Seq> {
        if self.left.is_none() { Some(self.stay) } else { None }
    }

    fn raised_to(self, min: Seq) -> Self {
        Self { from: self.from.max(min), ..self }
    }
}

impl Messages {
    /// Returns what a reader (`None`: a service, which may read everything) may read in a conversation, and
    /// the last messages that `wanted` requests. If the log seems to end below `at_least`, its end is read
    /// again in a way that a store failover does not affect.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn readable(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        at_least: Seq,
        wanted: impl FnOnce(ReadBounds) -> RequestedMessages + Send,
    ) -> Result<ReadableLog, Error> {
        let bounds = self.seen_bounds(reader, &[conversation]).await?;
        let bounds = bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))?;
        if let Some(left) = bounds.left {
            return Ok(ReadableLog { range: bounds.with(left), recent: Vec::new() });
        }
        let RecentMessages { span, messages } =
            self.logs.recent(conversation, wanted(bounds), at_least).await?;
        if span.last >= at_least {
            return Ok(ReadableLog { range: bounds.with(span.last), recent: messages });
        }
        let end = self.logs.strong_end(conversation).await?;
        Ok(ReadableLog { range: bounds.with(end), recent: messages })
    }

    /// Returns the highest number that a reader may read in each conversation, in their order; 0: there is
    /// none. Ends that seem to be below `at_least` are read again.
    pub(super) async fn max_seqs(
        &self,
        reader: Option<UserId>,
        conversations: &[ConversationId],
        at_least: &AtLeast,
    ) -> Result<Vec<Result<Seq, Error>>, Error> {
        let bounds = self.seen_bounds(reader, conversations).await?;
        let open = conversations.iter().zip(&bounds).filter(|(_, bounds)| is_open(bounds));
        let open: Vec<_> = open.map(|(conversation, _)| *conversation).collect();
        let mut ends = self.logs.ends(&open, at_least).await?.into_iter();
        let max = |bounds: Result<ReadBounds, Error>| {
            let end = if is_open(&bounds) { ends.next().unwrap_or_default() } else { LogEnd::default() };
            bounds.map(|bounds| highest(bounds, end))
        };
        Ok(bounds.into_iter().map(max).collect())
    }

    /// A reader's bounds in each conversation, in their order, with its dialogs' bounds.
    pub(super) async fn seen_bounds(
        &self,
        reader: Option<UserId>,
        conversations: &[ConversationId],
    ) -> Result<Vec<Result<ReadBounds, Error>>, Error> {
        let Some(user) = reader else { return self.bounds(None, conversations).await };
        let keys: Vec<DialogKey> = conversations
            .iter()
            .map(|conversation| DialogKey { user, conversation: *conversation })
            .collect();
        let (bounds, dialogs) = tokio::try_join!(
            self.bounds(reader, conversations),
            self.dialogs.get_many(&keys, &Consistency::Cached)
        )?;
        let of_dialog = |(bounds, dialog): (Result<ReadBounds, Error>, _)| Ok(bounds?.of_dialog(dialog));
        Ok(bounds.into_iter().zip(dialogs.iter().map(AsRef::as_ref)).map(of_dialog).collect())
    }

    /// A reader's bounds in each conversation, in their order: NOT_FOUND if it may read nothing in a
    /// conversation. Its dialogs are not read.
    pub(crate) async fn bounds(
        &self,
        reader: Option<UserId>,
        conversations: &[ConversationId],
    ) -> Result<Vec<Result<ReadBounds, Error>>, Error> {
        let (bounds, min_seqs) = tokio::try_join!(
            self.bounds_of_membership(reader, conversations),
            self.conversations.min_seqs(conversations)
        )?;
        let raised = |(bounds, min): (Result<ReadBounds, Error>, Seq)| Ok(bounds?.raised_to(min));
        Ok(bounds.into_iter().zip(min_seqs).map(raised).collect())
    }

    async fn bounds_of_membership(
        &self,
        reader: Option<UserId>,
        conversations: &[ConversationId],
    ) -> Result<Vec<Result<ReadBounds, Error>>, Error> {
        let groups: Vec<GroupId> =
            conversations.iter().filter_map(|conversation| group_of(*conversation)).collect();
        let of_groups = self.bounds_in_groups(reader, &groups).await?;
        let of_direct = self.bounds_in_direct(reader, conversations.len() > groups.len()).await?;
        let mut of_groups = of_groups.into_iter();
        let bounds = |conversation: &ConversationId| match conversation {
            ConversationId::Group(_) => of_groups.next().unwrap_or_else(|| Err(no_conversation())),
            ConversationId::Direct(..) if reader.is_none_or(|user| conversation.is_direct_of(user)) => {
                of_direct.ok_or_else(no_conversation)
            }
            ConversationId::Direct(..) | ConversationId::Offline(_) => Err(no_conversation()),
        };
        Ok(conversations.iter().map(bounds).collect())
    }

    async fn bounds_in_groups(
        &self,
        reader: Option<UserId>,
        groups: &[GroupId],
    ) -> Result<Vec<Result<ReadBounds, Error>>, Error> {
        let members = &self.dependencies.members;
        let Some(user) = reader else {
            let exist = members.exist(groups, None).await.into_iter();
            let all = |exists| if exists { Ok(ReadBounds::ALL) } else { Err(no_conversation()) };
            return Ok(exist.map(|exists| exists.and_then(all)).collect());
        };
        let ranges = members.message_ranges(user, groups).await?.into_iter();
        let bounds = ranges.map(|range| {
            let range = range?.ok_or_else(no_conversation)?;
            Ok(ReadBounds { from: range.from, left: range.to, stay: range.stay, ..ReadBounds::ALL })
        });
        Ok(bounds.collect())
    }

    /// A reader's bounds in its direct conversations. `None`: it has no account, or `is_asked` is false. An
    /// earlier user with its id has dialogs that hide the earlier messages.
    async fn bounds_in_direct(
        &self,
        reader: Option<UserId>,
        is_asked: bool,
    ) -> Result<Option<ReadBounds>, Error> {
        let Some(user) = reader.filter(|_| is_asked) else { return Ok(Some(ReadBounds::ALL)) };
        let created = self.dependencies.users.created(user, &Consistency::Cached).await?;
        Ok(created.map(|_| ReadBounds::ALL))
    }
}

const fn is_open(bounds: &Result<ReadBounds, Error>) -> bool {
    matches!(bounds, Ok(ReadBounds { left: None, .. }))
}

/// The highest number within the bounds, for a log with this end; 0: none.
fn highest(bounds: ReadBounds, end: LogEnd) -> Seq {
    let range = bounds.with(bounds.left.unwrap_or(end.seq));
    if range.max < range.min { 0 } else { range.max }
}

const fn group_of(conversation: ConversationId) -> Option<GroupId> {
    match conversation {
        ConversationId::Group(group) => Some(group),
        ConversationId::Direct(..) | ConversationId::Offline(_) => None,
    }
}

pub(crate) fn no_conversation() -> Error {
    Error::not_found("conversation")
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(crate) fn store_error(error: StoreError) -> Error {
    Error::store("message", &error)
}
