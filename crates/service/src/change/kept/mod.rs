//! Pages of kept changes.

use std::{sync::Arc, time::Duration};

use kith_proto::change::v1 as wire;
use kith_store::{ChangesEntry, ChangesExtent, ChangesStore, ENTRIES_READ_MAX, KeptPositions, StoreError};
use tokio::{sync::Mutex, time::Instant};

use super::{
    convert::{self, Kinds},
    cursor::{Cursor, FeedPlace},
    recent::{KindedEntry, RecentEntries},
};
use crate::error::{Error, Reason};

/// How long an extent answers the readers at its end.
const EXTENT_LASTS: Duration = Duration::from_millis(100);

/// The kept changes, as this node reads them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KeptChanges {
    store: Arc<dyn ChangesStore>,
    recent: RecentEntries,
    /// The extent by the last read, and when that began. Readers who find it too old wait for one read.
    known: Arc<Mutex<Option<(Instant, KnownExtent)>>>,
}

/// `None`: changes are not kept.
type KnownExtent = Result<Option<Arc<ChangesExtent>>, StoreError>;

/// A page of changes.
#[derive(Debug)]
pub(super) struct ChangesPage {
    pub(super) changes: Vec<wire::Change>,
    pub(super) next: Cursor,
    /// Whether there was nothing after it.
    pub(super) is_last: bool,
}

/// What a page may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageTerms {
    pub(super) kinds: Kinds,
    pub(super) limit: usize,
}

impl KeptChanges {
    /// The changes in this store.
    #[must_use]
    pub fn new(store: &Arc<dyn ChangesStore>) -> Self {
        Self { store: Arc::clone(store), recent: RecentEntries::new(store), known: Arc::default() }
    }

    /// The end of what is kept: before every change that is acknowledged later.
    ///
    /// # Errors
    /// NOT_CONFIGURED if changes are not kept.
    pub(super) async fn end(&self) -> Result<Cursor, Error> {
        let extent = self.extent().await?.ok_or_else(not_kept)?;
        Ok(Cursor::at_end(&extent))
    }

    /// The changes after a cursor. Reads at most [`ENTRIES_READ_MAX`] entries of each feed, and nothing if
    /// the cursor is at the end.
    ///
    /// # Errors
    /// CURSOR_EXPIRED; INVALID_ARGUMENT if the terms name dialogs that are not kept.
    pub(super) async fn page(&self, cursor: Cursor, terms: PageTerms) -> Result<ChangesPage, Error> {
        let extent = self.extent().await?.filter(|extent| extent.generation == cursor.generation);
        let extent = extent.ok_or_else(expired)?;
        if terms.kinds.names_dialogs && !extent.dialogs {
            return Err(Error::invalid("kinds", "must be without dialogs: changes.dialogs is not set"));
        }
        let mut page = ChangesPage { changes: Vec::new(), next: cursor, is_last: true };
        let behind = behind(&extent, &page.next);
        for &(feed, last) in &behind {
            if page.changes.len() >= terms.limit {
                page.is_last = false;
                break;
            }
            let after = page.next.places.get(feed).copied().unwrap_or_default();
            let entries = self.recent.after(extent.generation, feed, after.number, last).await;
            page.take(&entries.map_err(changes_error)?, after, terms)?;
        }
        page.next.turn = page.next.turn.wrapping_add(u64::from(!behind.is_empty()));
        Ok(page)
    }

    async fn extent(&self) -> Result<Option<Arc<ChangesExtent>>, Error> {
        let mut known = self.known.lock().await;
        if let Some((_, extent)) = known.as_ref().filter(|(read, _)| read.elapsed() < EXTENT_LASTS) {
            return extent.clone().map_err(changes_error);
        }
        let began = Instant::now();
        let extent = self.store.changes_extent().await.map(|extent| extent.map(Arc::new));
        *known = Some((began, extent.clone()));
        extent.map_err(changes_error)
    }
}

impl ChangesPage {
    /// Adds changes in entries that were read after a place in their feed.
    fn take(
        &mut self,
        entries: &[Arc<KindedEntry>],
        after: FeedPlace,
        terms: PageTerms,
    ) -> Result<(), Error> {
        let mut place = after;
        for KindedEntry { entry, kinds } in entries.iter().map(Arc::as_ref) {
            // Entries may have been removed after the extent was read.
            if entry.number != place.number + 1 {
                return Err(expired());
            }
            let changes = if kinds.has_any(terms.kinds) { entry.changes.as_slice() } else { &[] };
            for (index, change) in changes.iter().enumerate().skip(place.offset) {
                if self.changes.len() >= terms.limit {
                    self.is_last = false;
                    self.next.places.insert(entry.feed.clone(), place);
                    return Ok(());
                }
                place.offset = index + 1;
                if terms.kinds.has(convert::kind(&change.record)) {
                    self.changes.push(convert::to_wire(self.position(entry, index), change));
                }
            }
            place = FeedPlace { number: entry.number, offset: 0 };
        }
        if let Some(last) = entries.last() {
            self.next.places.insert(last.entry.feed.clone(), place);
        }
        self.is_last &= entries.len() < ENTRIES_READ_MAX;
        Ok(())
    }

    /// Identifies a change for ever: numbers of entries rise across generations, except in restored data.
    fn position(&self, entry: &ChangesEntry, index: usize) -> String {
        format!("{:x}.{}.{}.{index}", self.next.generation, entry.feed, entry.number)
    }
}

/// The feeds with entries after the cursor, and the last entry of each. Each page begins with the next feed,
/// so that a busy feed keeps no other feed waiting.
fn behind<'a>(extent: &'a ChangesExtent, cursor: &Cursor) -> Vec<(&'a str, i64)> {
    let place = |feed: &str| cursor.places.get(feed).copied().unwrap_or_default();
    let is_behind = |(feed, kept): &(&String, &KeptPositions)| place(feed.as_str()).number < kept.last;
    let mut behind: Vec<_> =
        extent.feeds.iter().filter(is_behind).map(|(feed, kept)| (feed.as_str(), kept.last)).collect();
    let count = u64::try_from(behind.len().max(1)).unwrap_or(1);
    behind.rotate_left(usize::try_from(cursor.turn % count).unwrap_or(0));
    behind
}

fn expired() -> Error {
    Error::new(
        Reason::CursorExpired,
        "changes after the cursor are not kept any more: get a cursor (GetCursor), export everything, then read from that cursor",
    )
}

fn not_kept() -> Error {
    Error::new(Reason::NotConfigured, "changes are not kept: changes.kept is not set")
        .with("setting", "changes.kept")
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn changes_error(error: StoreError) -> Error {
    Error::store("change", &error)
}

#[cfg(test)]
mod tests;
