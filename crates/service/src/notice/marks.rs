//! Writes marks of readers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kith_cache::{Change, Consistency, Token};
use kith_store::{
    Applied, Audience, AudienceEntry, AudienceId, MarkedReader, NoticeId, NoticeReader, NoticeTotals,
    Outcome, ReaderId, ReaderKey, ReaderMark, Slot, StoreError, Timestamp,
};
use tokio::time::Instant;

use super::{
    NoticeRecords,
    records::{ReaderView, reader_error},
};
use crate::{
    error::Error,
    rpc::{call::Principal, versions::cache_version},
    write::mutations::{Committed, RecordWrite},
};

/// The marks that a caller can make.
#[derive(Clone, Debug)]
pub(super) enum NoticeMark {
    /// Marks these notices as read, and optionally as confirmed.
    Read { notices: Vec<NoticeId>, confirm: bool },
    /// Marks all visible notices as read or, with `confirm`, all that need a confirmation as confirmed.
    ReadAll { confirm: bool },
    /// Marks these notices as unread.
    Unread(Vec<NoticeId>),
}

/// The result of a mark.
#[derive(Clone, Debug)]
pub(super) struct NoticeMarkResult {
    pub(super) totals: NoticeTotals,
    /// The notices that the reader does not see.
    pub(super) not_found: Vec<NoticeId>,
    pub(super) token: Token,
}

/// The bits that a mark changes, and the notices of the request that the reader does not see.
struct ChosenBits {
    mark: ReaderMark,
    not_found: Vec<NoticeId>,
}

impl NoticeRecords {
    /// Marks notices for the reader itself or a service, in one atomic step. A reader that is not registered
    /// is registered first. A reader that is a user must exist, also if it was registered before.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn mark(
        &self,
        key: ReaderKey,
        mark: NoticeMark,
        principal: Principal,
        deadline: Instant,
    ) -> Result<NoticeMarkResult, Error> {
        let this = self.clone();
        let work = async move { this.mark_now(key, &mark, principal).await };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    async fn mark_now(
        &self,
        key: ReaderKey,
        mark: &NoticeMark,
        principal: Principal,
    ) -> Result<NoticeMarkResult, Error> {
        let mut audience = self.audience_for(key, principal, &Consistency::Cached).await?;
        self.since_of_new(&audience, key).await?;
        let view = self.view(&audience, key, &Consistency::Cached).await?;
        let mut chosen = choose_bits(mark, &audience, &view)?;
        if !chosen.not_found.is_empty() {
            // Another node may have just published the notices that were not found.
            audience = self.audience(key.audience, &Consistency::Strong).await?;
            chosen = choose_bits(mark, &audience, &view)?;
        }
        let written = self.write_mark(&audience, key, chosen.mark, view.since).await.map_err(reader_error)?;
        let bits = &written.record.reader.bits;
        let totals = NoticeTotals::of(&audience, view.since, bits, Timestamp::now());
        Ok(NoticeMarkResult { totals, not_found: chosen.not_found, token: written.token })
    }

    /// Writes a mark to the store, then to the bitmaps of readers. A reader that is not registered is
    /// registered with `since`. Must be called within
    /// [`Mutations::run`](crate::write::mutations::Mutations::run).
    pub(super) async fn write_mark(
        &self,
        audience: &Audience,
        key: ReaderKey,
        mark: ReaderMark,
        since: Timestamp,
    ) -> Result<Committed<MarkedReader>, StoreError> {
        let (store, readers_max) = (Arc::clone(&self.reader_store), self.config.readers_max);
        let known = self.known(key).await;
        let (to_write, dead_pages) = (mark.clone(), dead_pages(audience, known.as_deref()));
        let write = Box::pin(async move {
            let mut marked = store.mark_reader(key, to_write.clone(), &dead_pages).await?;
            if marked.is_none() {
                store.register_readers(key.audience, &[(key.reader, since)], readers_max).await?;
                marked = store.mark_reader(key, to_write, &dead_pages).await?;
            }
            Ok(Applied { record: marked.ok_or(StoreError::NotFound)?, replayed: false })
        });
        let job = RecordWrite { key, write, change: put_reader };
        match self.mutations.write(&self.readers, job).await {
            Ok(written) => {
                self.counts.marked(&written.record, &mark, known.as_deref()).await;
                Ok(written)
            }
            Err(error) => {
                if let Some(reader) = known.filter(|_| error.outcome() == Outcome::Unknown) {
                    self.counts.unknown(&reader, &mark).await;
                }
                Err(error)
            }
        }
    }

    /// The cached reader. `None` if it is not registered or cannot be read.
    async fn known(&self, key: ReaderKey) -> Option<Arc<NoticeReader>> {
        self.readers.get_with(&key, &Consistency::Cached).await.ok()?.map(|entry| entry.value)
    }

    /// Registers readers of an audience. Returns the number of newly registered readers. Readers that are
    /// users must exist.
    ///
    /// # Errors
    /// NOT_FOUND, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn register(
        &self,
        audience: AudienceId,
        readers: Vec<(ReaderId, Timestamp)>,
        deadline: Instant,
    ) -> Result<Committed<Vec<NoticeReader>>, Error> {
        let this = self.clone();
        let work = async move {
            let of_users = this.audience(audience, &Consistency::Cached).await?.of_users;
            let ids: Vec<ReaderId> = readers.iter().map(|(reader, _)| *reader).collect();
            if of_users && this.created(&ids).await?.len() < ids.iter().collect::<HashSet<_>>().len() {
                return Err(Error::not_found("user"));
            }
            let keys: HashSet<ReaderKey> =
                readers.iter().map(|(reader, _)| ReaderKey { audience, reader: *reader }).collect();
            let (store, limit) = (Arc::clone(&this.reader_store), this.config.readers_max);
            let write = Box::pin(async move { store.register_readers(audience, &readers, limit).await });
            let keys = keys.into_iter().collect();
            this.mutations.write_all(&this.readers, keys, write).await.map_err(reader_error)
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }
}

/// Returns a reader's pages in which no bit belongs to a notice.
fn dead_pages(audience: &Audience, known: Option<&NoticeReader>) -> Vec<u32> {
    let pages = known.into_iter().flat_map(|reader| reader.bits.words().map(|(page, _)| page));
    pages.filter(|page| audience.is_dead_page(*page)).collect()
}

/// Returns the bits of a mark, for the notices that the reader sees.
fn choose_bits(mark: &NoticeMark, audience: &Audience, view: &ReaderView) -> Result<ChosenBits, Error> {
    let visible: HashMap<NoticeId, &AudienceEntry> =
        view.visible(audience).map(|entry| (entry.notice, entry)).collect();
    let missing = |notices: &[NoticeId]| {
        notices.iter().filter(|id| !visible.contains_key(id)).copied().collect::<Vec<_>>()
    };
    let found = |notices: &[NoticeId]| {
        notices.iter().filter_map(|id| visible.get(id).copied()).collect::<Vec<&AudienceEntry>>()
    };
    match mark {
        NoticeMark::ReadAll { confirm } => {
            let all = visible.values().filter(|entry| !confirm || entry.confirm_slot.is_some());
            let slots = all.flat_map(|entry| read_slots(entry, *confirm)).collect();
            Ok(ChosenBits { mark: ReaderMark::Read(slots), not_found: Vec::new() })
        }
        NoticeMark::Read { notices, confirm } => {
            let entries = found(notices);
            if *confirm && entries.iter().any(|entry| entry.confirm_slot.is_none()) {
                let why = "must be false for notices without must_confirm";
                return Err(Error::invalid("confirm", why));
            }
            let slots = entries.into_iter().flat_map(|entry| read_slots(entry, *confirm)).collect();
            Ok(ChosenBits { mark: ReaderMark::Read(slots), not_found: missing(notices) })
        }
        NoticeMark::Unread(notices) => {
            let slots = found(notices).into_iter().map(|entry| entry.slot).collect();
            Ok(ChosenBits { mark: ReaderMark::Unread(slots), not_found: missing(notices) })
        }
    }
}

/// Returns the bits that a mark as read sets. Confirming a notice also marks it as read.
fn read_slots(entry: &AudienceEntry, confirm: bool) -> impl Iterator<Item = Slot> {
    [Some(entry.slot), entry.confirm_slot.filter(|_| confirm)].into_iter().flatten()
}

fn put_reader(marked: &Arc<MarkedReader>) -> Change<NoticeReader> {
    let version = cache_version(marked.reader.version);
    Change::Put { value: Arc::new(marked.reader.clone()), version }
}
