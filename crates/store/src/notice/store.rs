//! The stores for notices and their readers.

use std::fmt;

use async_trait::async_trait;

use super::{
    Audience, AudienceId, MarkedReader, Notice, NoticeChange, NoticeChangeResult, NoticeId, NoticeReader,
    ReaderExtent, ReaderId, ReaderKey, ReaderMark, ReaderOrdinal, ScannedReader,
};
use crate::{Applied, StoreError, Stored, Text, Timestamp, Write};

/// The most slots in one mark: those of all notices that an audience may have.
pub const SLOTS_AT_ONCE: usize = 8_000;
/// The most readers in one registration.
pub const READERS_AT_ONCE: usize = 1_000;
/// The most readers in one scan.
pub const READERS_SCANNED: usize = 20_000;

/// An audience to be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudience {
    /// The audience's id.
    pub id: AudienceId,
    /// Shown to operators.
    pub name: Text,
    /// Whether its readers are Kith users.
    pub of_users: bool,
}

/// Storage for audiences and their notices.
#[async_trait]
pub trait NoticeStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) audiences; each once, in any order. Those that do not
    /// exist are left out. `strong`: also right after a failover no deposed primary answers; costs a round
    /// trip to the majority.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more audiences.
    async fn audiences(&self, ids: &[AudienceId], strong: bool) -> Result<Vec<Audience>, StoreError>;

    /// Reads audiences by rising id after `after`, at most `limit`: fewer only at the end.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn audience_list(
        &self,
        after: Option<AudienceId>,
        limit: usize,
    ) -> Result<Vec<Audience>, StoreError>;

    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) notices; each once, in any order. Those that never existed
    /// may be left out. `strong` as in [`Self::audiences`].
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more notices.
    async fn notices(
        &self,
        ids: &[NoticeId],
        strong: bool,
    ) -> Result<Vec<(NoticeId, Stored<Notice>)>, StoreError>;

    /// Registers an audience, or renames it, and returns it; the version rises if something changes.
    /// Concurrent registrations may together exceed `most` by a few.
    ///
    /// # Errors
    /// [`NoticeRefusal`](super::NoticeRefusal) when it is registered with another `of_users`, or there are
    /// `most` audiences. [`StoreError::RequestMismatch`]. For other errors see [`StoreError::outcome`].
    async fn register_audience(
        &self,
        audience: NewAudience,
        most: usize,
        write: Write,
    ) -> Result<Applied<()>, StoreError>;

    /// Changes a notice and all its audiences in one commit, as [`NoticeChange::decide`] decides it.
    ///
    /// # Errors
    /// Fails as [`NoticeChange::decide`] does, and with [`StoreError::RequestMismatch`]: nothing is changed
    /// then. For other errors see [`StoreError::outcome`].
    async fn change_notice(
        &self,
        id: NoticeId,
        change: NoticeChange,
        live_max: usize,
        write: Write,
    ) -> Result<Applied<NoticeChangeResult>, StoreError>;

    /// Removes an audience's entries that expired [`EXPIRED_KEPT`](super::EXPIRED_KEPT) ago. Returns whether
    /// there were some.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn remove_expired(&self, audience: AudienceId, now: Timestamp) -> Result<bool, StoreError>;

    /// Reads the notices that expired before `before`, in any order, at most `limit`.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn expired_notices(&self, before: Timestamp, limit: usize) -> Result<Vec<NoticeId>, StoreError>;
}

/// Storage for readers' marks. Does not know audiences: the caller must check that the audience exists.
#[async_trait]
pub trait NoticeReaderStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) readers; each once, in any order. Those that are not
    /// registered are left out. `strong` as in [`NoticeStore::audiences`].
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more readers.
    async fn readers(&self, keys: &[ReaderKey], strong: bool) -> Result<Vec<NoticeReader>, StoreError>;

    /// Registers up to [`READERS_AT_ONCE`] readers, each with its `since`; leaves registered readers
    /// unchanged. Returns the newly registered readers, in any order. Each gets an ordinal that no other
    /// reader in the audience has or will have. Not atomic: some may be registered when it fails. May be
    /// repeated.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more readers. [`NoticeRefusal`](super::NoticeRefusal) if the ordinals
    /// would reach `most`. For other errors see [`StoreError::outcome`].
    async fn register_readers(
        &self,
        audience: AudienceId,
        readers: &[(ReaderId, Timestamp)],
        most: ReaderOrdinal,
    ) -> Result<Vec<NoticeReader>, StoreError>;

    /// Makes a registered reader's mark in one atomic step, as [`NoticeReader::marked`] does, and returns the
    /// resulting reader. Concurrent marks are all made, in some order. `None`: the reader is not registered.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more than [`SLOTS_AT_ONCE`] slots. For other errors see
    /// [`StoreError::outcome`]; it may be repeated.
    async fn mark_reader(
        &self,
        key: ReaderKey,
        mark: ReaderMark,
        dead_pages: &[u32],
    ) -> Result<Option<MarkedReader>, StoreError>;

    /// Reads an audience's readers by rising ordinal from `from` to below `end`, at most `limit` of up to
    /// [`READERS_SCANNED`]: fewer only at the end. Each comes with its word on a page. Sees every mark that
    /// was acknowledged before it began.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for a higher limit.
    async fn scan_readers(
        &self,
        audience: AudienceId,
        from: ReaderOrdinal,
        end: ReaderOrdinal,
        page: u32,
        limit: usize,
    ) -> Result<Vec<ScannedReader>, StoreError>;

    /// Counts an audience's readers. May cost as much as reading an index entry for each.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn count_readers(&self, audience: AudienceId) -> Result<ReaderExtent, StoreError>;
}
