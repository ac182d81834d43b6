//! Bitmaps for slots that a notice change assigns. No reader has their bits, so they are complete without a
//! scan.

use std::time::Duration;

use futures::future::join_all;
use kith_delivery::{FillTicket, ReaderBitmaps, ReaderSection, SectionBits};
use kith_store::{AudienceId, ChangedAudience, Slot};
use tokio::time::timeout;

use super::{ReaderCounts, scan::count_fill};

/// How long a change waits for its bitmaps' tickets. Without them the first count fills the bitmaps.
const PREPARED_WITHIN: Duration = Duration::from_millis(250);
/// Sections that one change completes; readers in further sections are scanned.
const SECTIONS_MAX: usize = 100;

/// The tickets that complete new slots' bitmaps. Taken before the slots are assigned: a later unmark, which
/// drops marks that were kept for the fill, makes the fill fail.
#[derive(Debug, Default)]
pub(in crate::notice) struct NewBitmaps(Vec<(ReaderSection, FillTicket)>);

impl ReaderCounts {
    /// Prepares the bitmaps for slots that a change is about to assign in these audiences.
    pub(in crate::notice) async fn prepare(&self, audiences: &[AudienceId]) -> NewBitmaps {
        let Some(bitmaps) = &self.0.bitmaps else { return NewBitmaps::default() };
        timeout(PREPARED_WITHIN, self.tickets(bitmaps.as_ref(), audiences)).await.unwrap_or_default()
    }

    async fn tickets(&self, bitmaps: &dyn ReaderBitmaps, audiences: &[AudienceId]) -> NewBitmaps {
        let sections = join_all(audiences.iter().map(|audience| self.sections(*audience))).await;
        let ticket = |section| async move { Some((section, bitmaps.begin_fill(section).await.ok()?)) };
        let tickets = join_all(sections.into_iter().flatten().take(SECTIONS_MAX).map(ticket)).await;
        NewBitmaps(tickets.into_iter().flatten().collect())
    }

    /// An audience's sections by its last counted readers; at least the first.
    async fn sections(&self, audience: AudienceId) -> Vec<ReaderSection> {
        let known = self.0.extents.lock().get(&audience).map(|(_, extent)| extent.end);
        let end = match known {
            Some(end) => end,
            None => self.extent(audience).await.map_or(0, |extent| extent.end),
        };
        ReaderSection::below(audience, end.max(1)).collect()
    }

    /// Completes the bitmaps for slots that a change assigned. Must not be called for a repeated change: its
    /// slots may have readers.
    pub(in crate::notice) async fn complete(&self, prepared: NewBitmaps, changed: &[ChangedAudience]) {
        let Some(bitmaps) = &self.0.bitmaps else { return };
        let fills = prepared.0.iter().map(|(section, ticket)| {
            let (zeros, kept) = (zeros(*section, changed), self.0.kept());
            async move {
                if zeros.is_empty() {
                    return Vec::new();
                }
                bitmaps.fill(*section, ticket, zeros, kept).await.unwrap_or_default()
            }
        });
        join_all(fills).await.into_iter().flatten().for_each(count_fill);
    }
}

/// No reader has the bits for slots that a change assigned.
fn zeros(section: ReaderSection, changed: &[ChangedAudience]) -> Vec<(Slot, SectionBits)> {
    let of_section = changed.iter().filter(|changed| changed.id == section.audience);
    let slots = of_section.flat_map(|changed| changed.slots.iter());
    slots.map(|slot| (*slot, SectionBits::default())).collect()
}
