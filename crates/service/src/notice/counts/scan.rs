//! Scans one reader section.

use std::collections::HashMap;

use kith_delivery::{BitmapFill, SectionBits};
use kith_store::{READERS_SCANNED, Slot, StoreError};
use tokio::time::Instant;

use super::{FRESH, ReaderCounts, SectionPage};
use crate::metric::{NOTICE_BITMAP_FILLS, count_from_zero};

/// Most remembered parts: about 3 MB.
const REMEMBERED: usize = 10_000;

/// How many readers in a section have each bit on a page.
#[derive(Clone, Debug)]
pub(super) struct ScannedCounts {
    at: Instant,
    counts: [u32; 64],
}

impl ScannedCounts {
    /// Whether it is recent enough to be used.
    pub(super) fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }

    /// How many readers have a bit on the page.
    pub(super) fn count(&self, slot: Slot) -> u64 {
        self.counts[usize::try_from(slot % 64).unwrap_or_default()].into()
    }
}

/// Exports all results, from zero on.
pub(super) fn count_fills_from_zero() {
    count_from_zero(NOTICE_BITMAP_FILLS, &["filled", "late", "changed"]);
}

impl ReaderCounts {
    /// Scans a part, completes its live slots' bitmaps, and remembers the counts.
    pub(super) async fn scan(self, part: SectionPage, live: Vec<Slot>) {
        let scanned = self.try_scan(part, live).await;
        {
            let mut remembered = self.0.scanned.lock();
            if remembered.len() >= REMEMBERED {
                remembered.retain(|_, scanned| matches!(scanned, Ok(scanned) if scanned.is_fresh()));
            }
            remembered.insert(part, scanned);
        }
        self.0.running.lock().remove(&part);
        self.0.ended.notify_waiters();
    }

    async fn try_scan(&self, part: SectionPage, live: Vec<Slot>) -> Result<ScannedCounts, StoreError> {
        let _permit = self.0.permits.acquire().await;
        let bitmaps = self.0.bitmaps.as_ref();
        // The ticket precedes the scan, which may miss later marks; a bitmap keeps them.
        let ticket = match bitmaps {
            Some(bitmaps) => bitmaps.begin_fill(part.section).await.ok(),
            None => None,
        };
        let mut scanned = ScannedCounts { at: Instant::now(), counts: [0; 64] };
        let mut bits: HashMap<Slot, SectionBits> = live
            .into_iter()
            .filter(|_| ticket.is_some())
            .map(|slot| (slot, SectionBits::default()))
            .collect();
        let ordinals = part.section.ordinals();
        let mut from = ordinals.start;
        loop {
            let audience = part.section.audience;
            let scan =
                self.0.store.scan_readers(audience, from, ordinals.end, part.page, READERS_SCANNED).await?;
            for reader in &scan {
                for bit in set_bits(reader.word) {
                    scanned.counts[usize::try_from(bit).unwrap_or_default()] += 1;
                    if let Some(bits) = bits.get_mut(&(part.page * 64 + bit)) {
                        bits.set(reader.ordinal);
                    }
                }
            }
            from = scan.last().map_or(ordinals.end, |last| last.ordinal.saturating_add(1));
            if scan.len() < READERS_SCANNED {
                break;
            }
        }
        if let (Some(bitmaps), Some(ticket)) = (bitmaps, ticket) {
            let filled = bitmaps.fill(part.section, &ticket, bits.into_iter().collect(), self.0.kept()).await;
            filled.unwrap_or_default().into_iter().for_each(count_fill);
        }
        Ok(scanned)
    }
}

impl super::ReaderCountsInner {
    /// How long a section's bitmaps are kept, varied so that not all sections expire at the same time.
    pub(super) fn kept(&self) -> std::time::Duration {
        self.kept.mul_f64(rand::random_range(0.83..=1.0))
    }
}

fn set_bits(word: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| word & (1 << bit) != 0)
}

pub(super) fn count_fill(fill: BitmapFill) {
    let result = match fill {
        BitmapFill::Filled(_) => "filled",
        BitmapFill::Late => "late",
        BitmapFill::Changed => "changed",
    };
    metrics::counter!(NOTICE_BITMAP_FILLS.name, "result" => result).increment(1);
}
