//! Lists the readers that have, or have not, read or confirmed a notice.

use std::collections::HashMap;

use kith_cache::Consistency;
use kith_store::{
    AudienceEntry, AudienceId, NoticeId, READERS_SCANNED, ReaderId, ReaderOrdinal, SINCE_CREATION,
    ScannedReader, Timestamp, UserId,
};

use super::{NOTICES, NoticeRecords, records::reader_error};
use crate::error::Error;

/// Readers who are examined together.
const LISTED_AT_ONCE: usize = 500;

/// The listed readers' state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderState {
    Read,
    Unread,
    Confirmed,
    Unconfirmed,
}

/// A page of readers.
#[derive(Clone, Debug)]
pub(super) struct ReaderPage {
    pub(super) readers: Vec<ReaderId>,
    /// The first ordinal that was not examined, if there are more.
    pub(super) next: Option<ReaderOrdinal>,
}

impl NoticeRecords {
    /// Reads a notice's entry in an audience.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn entry(&self, audience: AudienceId, notice: NoticeId) -> Result<AudienceEntry, Error> {
        for consistency in [Consistency::Cached, Consistency::Strong] {
            let audience = self.audience(audience, &consistency).await?;
            if let Some(entry) = audience.entry(notice) {
                return Ok(*entry);
            }
        }
        Err(Error::not_found(NOTICES))
    }

    /// Reads registered readers in this state, by rising ordinal, beginning at `from`. Readers that never see
    /// the notice are not listed as unread or unconfirmed. Examines at most [`READERS_SCANNED`], and returns
    /// at most `size`.
    ///
    /// # Errors
    /// NOT_FOUND, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn readers(
        &self,
        audience: AudienceId,
        notice: NoticeId,
        state: ReaderState,
        from: ReaderOrdinal,
        size: usize,
    ) -> Result<ReaderPage, Error> {
        let entry = self.entry(audience, notice).await?;
        let slot = match state {
            ReaderState::Read | ReaderState::Unread => entry.slot,
            ReaderState::Confirmed | ReaderState::Unconfirmed => entry.confirm_slot.ok_or_else(|| {
                Error::invalid("state", "must be read or unread for notices without must_confirm")
            })?,
        };
        let is_set = matches!(state, ReaderState::Read | ReaderState::Confirmed);
        let scan =
            self.reader_store.scan_readers(audience, from, ReaderOrdinal::MAX, slot / 64, READERS_SCANNED);
        let scanned = scan.await.map_err(reader_error)?;
        let mut listed: Vec<&ScannedReader> = Vec::new();
        for part in scanned.chunks(LISTED_AT_ONCE) {
            let mut some: Vec<&ScannedReader> =
                part.iter().filter(|reader| reader.has(slot) == is_set).collect();
            if !is_set {
                some = self.who_see(&entry, some).await?;
            }
            listed.extend(some);
            if listed.len() >= size {
                break;
            }
        }
        listed.truncate(size);
        let last = if listed.len() == size { listed.last().copied() } else { scanned.last() };
        let is_end = scanned.len() < READERS_SCANNED && last.is_none_or(|last| Some(last) == scanned.last());
        let next = last.filter(|_| !is_end).map(|last| last.ordinal.saturating_add(1));
        Ok(ReaderPage { readers: listed.into_iter().map(|reader| reader.reader).collect(), next })
    }

    /// The readers who see a notice. A forgotten reader sees it if a user has its id again.
    async fn who_see<'a>(
        &self,
        entry: &AudienceEntry,
        readers: Vec<&'a ScannedReader>,
    ) -> Result<Vec<&'a ScannedReader>, Error> {
        let forgotten = readers.iter().filter(|reader| reader.since == SINCE_CREATION);
        let created = self.created(&forgotten.map(|reader| reader.reader).collect::<Vec<_>>()).await?;
        let sees = |reader: &&ScannedReader| {
            let since = match reader.since {
                SINCE_CREATION => created.get(&reader.reader).copied(),
                since => Some(since),
            };
            since.is_some_and(|since| entry.for_newcomers || entry.publish >= since)
        };
        Ok(readers.into_iter().filter(sees).collect())
    }

    /// When the users with these ids were created; users who do not exist have none.
    pub(super) async fn created(&self, readers: &[ReaderId]) -> Result<HashMap<ReaderId, Timestamp>, Error> {
        let ids: Vec<UserId> = readers.iter().filter_map(|id| UserId::new(id.get()).ok()).collect();
        let mut created = HashMap::new();
        for found in self.users.get_many(&ids, &Consistency::Cached).await {
            if let Some(user) = found?
                && let Ok(reader) = ReaderId::new(user.value.id.get())
            {
                created.insert(reader, user.value.created);
            }
        }
        Ok(created)
    }
}
