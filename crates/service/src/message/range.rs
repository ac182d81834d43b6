//! Which messages of a conversation a reader may read.

use kith_cache::Consistency;
use kith_store::{BATCH_MAX, ConversationId, GroupId, LogEnd, Seq, StoreError, Timestamp, UserId};

use super::Messages;
use crate::{error::Error, user::account_begins};

/// The messages that a reader may read; none if `max` is below `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The lowest number.
    pub(super) min: Seq,
    /// The highest number.
    pub(super) max: Seq,
    /// Messages that were sent before are not the reader's: another user had its id.
    pub(super) since: Timestamp,
}

impl Range {
    pub(super) const fn contains(&self, seq: Seq) -> bool {
        self.min <= seq && seq <= self.max
    }
}

/// What bounds a reader besides the end of the log.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    from: Seq,
    /// `None`: the end.
    to: Option<Seq>,
    since: Timestamp,
}

impl Bounds {
    const ALL: Self = Self { from: 1, to: None, since: Timestamp(i64::MIN) };

    fn with(self, end: Seq) -> Range {
        Range { min: self.from.max(1), max: self.to.unwrap_or(end), since: self.since }
    }
}

impl Messages {
    /// Returns what a reader may read of a conversation; `None`: a service, which may read everything. If the log seems to end
    /// below `at_least`, its end is read again in a way that a failover of the store does not affect.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub(super) async fn range(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        at_least: Seq,
    ) -> Result<Range, Error> {
        let bounds =
            self.bounds(reader, &[conversation]).await?.pop().unwrap_or_else(|| Err(no_conversation()))?;
        if let Some(to) = bounds.to {
            return Ok(bounds.with(to));
        }
        let ends = self.store.ends(&[conversation]).await.map_err(store_error)?;
        let end = ends.first().map_or(0, |end| end.seq);
        if end >= at_least {
            return Ok(bounds.with(end));
        }
        Ok(bounds.with(self.store.strong_end(conversation).await.map_err(store_error)?))
    }

    /// Returns the same range without the messages of another user who had the id of the reader.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn without_predecessor(
        &self,
        conversation: ConversationId,
        range: Range,
    ) -> Result<Range, Error> {
        let first = self.store.seq_at(conversation, range.since).await.map_err(store_error)?;
        Ok(Range { min: range.min.max(first), ..range })
    }

    /// Returns the highest number of each of these conversations that a reader may read, in their order; 0: there is none.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn max_seqs(
        &self,
        reader: Option<UserId>,
        conversations: &[ConversationId],
    ) -> Result<Vec<Result<Seq, Error>>, Error> {
        let bounds = self.bounds(reader, conversations).await?;
        let open = conversations.iter().zip(&bounds).filter(|(_, bounds)| is_open(bounds));
        let ends = self.ends(&open.map(|(conversation, _)| *conversation).collect::<Vec<_>>()).await?;
        let mut ends = ends.into_iter();
        let max = |bounds: Result<Bounds, Error>| {
            let end = if is_open(&bounds) { ends.next().unwrap_or_default() } else { LogEnd::default() };
            bounds.map(|bounds| highest(bounds, end))
        };
        Ok(bounds.into_iter().map(max).collect())
    }

    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, Error> {
        let mut ends = Vec::with_capacity(conversations.len());
        for conversations in conversations.chunks(BATCH_MAX) {
            ends.extend(self.store.ends(conversations).await.map_err(store_error)?);
        }
        Ok(ends)
    }

    /// What bounds a reader in each of these conversations, in their order.
    async fn bounds(
        &self,
        reader: Option<UserId>,
        conversations: &[ConversationId],
    ) -> Result<Vec<Result<Bounds, Error>>, Error> {
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
            ConversationId::Direct(..) => Err(no_conversation()),
        };
        Ok(conversations.iter().map(bounds).collect())
    }

    async fn bounds_in_groups(
        &self,
        reader: Option<UserId>,
        groups: &[GroupId],
    ) -> Result<Vec<Result<Bounds, Error>>, Error> {
        let members = &self.correspondents.members;
        let Some(user) = reader else {
            let exist = members.exist(groups, None).await.into_iter();
            let all = |exists| if exists { Ok(Bounds::ALL) } else { Err(no_conversation()) };
            return Ok(exist.map(|exists| exists.and_then(all)).collect());
        };
        let ranges = members.message_ranges(user, groups).await?.into_iter();
        let bounds = ranges.map(|range| {
            let range = range?.ok_or_else(no_conversation)?;
            Ok(Bounds { from: range.from, to: range.to, ..Bounds::ALL })
        });
        Ok(bounds.collect())
    }

    /// What bounds a reader in its direct conversations. `None`: it has no account, or `is_asked` is false.
    async fn bounds_in_direct(
        &self,
        reader: Option<UserId>,
        is_asked: bool,
    ) -> Result<Option<Bounds>, Error> {
        let Some(user) = reader.filter(|_| is_asked) else { return Ok(Some(Bounds::ALL)) };
        let created = self.correspondents.users.created(user, &Consistency::Cached).await?;
        Ok(created.map(|created| Bounds { since: account_begins(created), ..Bounds::ALL }))
    }
}

const fn is_open(bounds: &Result<Bounds, Error>) -> bool {
    matches!(bounds, Ok(Bounds { to: None, .. }))
}

/// The highest number within the bounds of a log that ends so; 0: there is none.
fn highest(bounds: Bounds, end: LogEnd) -> Seq {
    let range = bounds.with(end.seq);
    let is_of_predecessor = end.sent.is_some_and(|sent| sent < bounds.since);
    if range.max < range.min || is_of_predecessor { 0 } else { range.max }
}

const fn group_of(conversation: ConversationId) -> Option<GroupId> {
    match conversation {
        ConversationId::Group(group) => Some(group),
        ConversationId::Direct(..) => None,
    }
}

pub(super) fn no_conversation() -> Error {
    Error::not_found("conversation")
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store("message", &error)
}
