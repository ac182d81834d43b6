//! Lists of the readers that have, or have not, read or confirmed a notice.

use kith_cache::Consistency;
use kith_store::{
    AudienceEntry, AudienceId, NoticeId, READERS_SCANNED, ReaderId, ReaderOrdinal, ScannedReader,
};

use super::{NOTICES, NoticeRecords, records::reader_error};
use crate::error::Error;

/// The state of the readers to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderState {
    Read,
    Unread,
    Confirmed,
    Unconfirmed,
}

/// A page of a list of readers.
#[derive(Clone, Debug)]
pub(super) struct ReaderPage {
    pub(super) readers: Vec<ReaderId>,
    /// The first ordinal that was not examined, if there are more.
    pub(super) next: Option<ReaderOrdinal>,
}

impl NoticeRecords {
    /// Reads the entry of a notice in an audience.
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

    /// Reads registered readers in this state, in the order of their ordinals, beginning at `from`. Readers that never see the
    /// notice are not listed as unread or unconfirmed. Examines at most [`READERS_SCANNED`], and returns at most `size`.
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
        let sees = |reader: &ScannedReader| entry.for_newcomers || entry.publish >= reader.since;
        let is_listed = |reader: &&ScannedReader| reader.has(slot) == is_set && (is_set || sees(reader));
        let listed: Vec<&ScannedReader> = scanned.iter().filter(is_listed).take(size).collect();
        let last = if listed.len() == size { listed.last().copied() } else { scanned.last() };
        let is_end = scanned.len() < READERS_SCANNED && last.is_none_or(|last| Some(last) == scanned.last());
        let next = last.filter(|_| !is_end).map(|last| last.ordinal.saturating_add(1));
        Ok(ReaderPage { readers: listed.into_iter().map(|reader| reader.reader).collect(), next })
    }
}
