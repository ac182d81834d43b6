//! Marks of readers.

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

/// The kinds of marks.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// These are read, and optionally confirmed.
    Read { notices: Vec<NoticeId>, confirm: bool },
    /// All visible ones are read, or all that need a confirmation are confirmed.
    ReadAll { confirm: bool },
    /// These are unread.
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

/// The bits of a mark.
struct Chosen {
    mark: ReaderMark,
    not_found: Vec<NoticeId>,
}

impl NoticeRecords {
    /// Marks notices for the reader itself or a service, in one atomic step. A reader that is not registered is registered first.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn mark(
        &self,
        key: ReaderKey,
        deed: Deed,
        principal: Principal,
        deadline: Instant,
    ) -> Result<NoticeMarkResult, Error> {
        let this = self.clone();
        let work = async move { this.mark_now(key, &deed, principal).await };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    async fn mark_now(
        &self,
        key: ReaderKey,
        deed: &Deed,
        principal: Principal,
    ) -> Result<NoticeMarkResult, Error> {
        let mut audience = self.audience_for(key, principal, &Consistency::Cached).await?;
        let view = self.view(&audience, key, &Consistency::Cached).await?;
        let mut chosen = chosen(deed, &audience, &view)?;
        if !chosen.not_found.is_empty() {
            // Another node may have just published them.
            audience = self.audience(key.audience, &Consistency::Strong).await?;
            chosen = self::chosen(deed, &audience, &view)?;
        }
        let written = self.write_mark(&audience, key, chosen.mark, view.since).await.map_err(reader_error)?;
        let NoticeReader { since, bits, .. } = &written.record.reader;
        let totals = NoticeTotals::of(&audience, *since, bits, Timestamp::now());
        Ok(NoticeMarkResult { totals, not_found: chosen.not_found, token: written.token })
    }

    /// Writes a mark to the store, then to the bitmaps of readers. `since`: that of the reader, if it is not
    /// registered. Must be called within [`Mutations::run`](crate::write::mutations::Mutations::run).
    pub(super) async fn write_mark(
        &self,
        audience: &Audience,
        key: ReaderKey,
        mark: ReaderMark,
        since: Timestamp,
    ) -> Result<Committed<MarkedReader>, StoreError> {
        let (store, most) = (Arc::clone(&self.reader_store), self.config.readers_max);
        let known = self.known(key).await;
        let (made, dead_pages) = (mark.clone(), dead_pages(audience, known.as_deref()));
        let write = Box::pin(async move {
            let mut marked = store.mark_reader(key, made.clone(), &dead_pages).await?;
            if marked.is_none() {
                store.register_readers(key.audience, &[(key.reader, since)], most).await?;
                marked = store.mark_reader(key, made, &dead_pages).await?;
            }
            Ok(Applied { record: marked.ok_or(StoreError::NotFound)?, replayed: false })
        });
        let job = RecordWrite { key, write, change: put };
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

    /// The reader from the tiers.
    async fn known(&self, key: ReaderKey) -> Option<Arc<NoticeReader>> {
        self.readers.get_with(&key, &Consistency::Cached).await.ok()?.map(|entry| entry.value)
    }

    /// Registers readers of an audience. Returns the number of newly registered ones.
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
            this.audience(audience, &Consistency::Cached).await?;
            let keys: HashSet<ReaderKey> =
                readers.iter().map(|(reader, _)| ReaderKey { audience, reader: *reader }).collect();
            let (store, most) = (Arc::clone(&this.reader_store), this.config.readers_max);
            let write = Box::pin(async move { store.register_readers(audience, &readers, most).await });
            let keys = keys.into_iter().collect();
            this.mutations.write_all(&this.readers, keys, write).await.map_err(reader_error)
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }
}

/// Pages of a reader without a live notice.
fn dead_pages(audience: &Audience, known: Option<&NoticeReader>) -> Vec<u32> {
    let pages = known.into_iter().flat_map(|reader| reader.bits.words().map(|(page, _)| page));
    pages.filter(|page| audience.is_dead_page(*page)).collect()
}

/// The bits of a mark, for the notices that the reader sees.
fn chosen(deed: &Deed, audience: &Audience, view: &ReaderView) -> Result<Chosen, Error> {
    let visible: HashMap<NoticeId, &AudienceEntry> =
        view.visible(audience).map(|entry| (entry.notice, entry)).collect();
    let missing = |notices: &[NoticeId]| {
        notices.iter().filter(|id| !visible.contains_key(id)).copied().collect::<Vec<_>>()
    };
    let found = |notices: &[NoticeId]| {
        notices.iter().filter_map(|id| visible.get(id).copied()).collect::<Vec<&AudienceEntry>>()
    };
    match deed {
        Deed::ReadAll { confirm } => {
            let all = visible.values().filter(|entry| !confirm || entry.confirm_slot.is_some());
            let slots = all.flat_map(|entry| read_slots(entry, *confirm)).collect();
            Ok(Chosen { mark: ReaderMark::Read(slots), not_found: Vec::new() })
        }
        Deed::Read { notices, confirm } => {
            let entries = found(notices);
            if *confirm && entries.iter().any(|entry| entry.confirm_slot.is_none()) {
                let why = "must be false for notices without must_confirm";
                return Err(Error::invalid("confirm", why));
            }
            let slots = entries.into_iter().flat_map(|entry| read_slots(entry, *confirm)).collect();
            Ok(Chosen { mark: ReaderMark::Read(slots), not_found: missing(notices) })
        }
        Deed::Unread(notices) => {
            let slots = found(notices).into_iter().map(|entry| entry.slot).collect();
            Ok(Chosen { mark: ReaderMark::Unread(slots), not_found: missing(notices) })
        }
    }
}

/// A confirmed notice is read, too.
fn read_slots(entry: &AudienceEntry, confirm: bool) -> impl Iterator<Item = Slot> {
    [Some(entry.slot), entry.confirm_slot.filter(|_| confirm)].into_iter().flatten()
}

fn put(marked: &Arc<MarkedReader>) -> Change<NoticeReader> {
    let version = cache_version(marked.reader.version);
    Change::Put { value: Arc::new(marked.reader.clone()), version }
}
