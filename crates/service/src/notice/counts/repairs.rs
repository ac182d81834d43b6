//! Bitmaps to be dropped.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use kith_delivery::{ReaderBitmaps, ReaderSection};
use kith_store::Slot;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// When a bitmap that was dropped is dropped again.
pub(super) const DROPPED_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// The time between checks for due bitmaps.
const PERIOD: Duration = Duration::from_secs(1);
/// Most remembered bitmaps: some 6 MB. Others are wrong until they expire.
const MOST: usize = 100_000;

/// Bitmaps to be dropped, with the times.
#[derive(Debug, Default)]
pub(super) struct BitmapRepairs(Mutex<HashMap<(ReaderSection, Slot), Instant>>);

impl BitmapRepairs {
    /// Drops these after this time.
    pub(super) fn add(&self, section: ReaderSection, slots: &[Slot], after: Duration) {
        let at = Instant::now() + after;
        let mut waiting = self.0.lock();
        for slot in slots {
            if waiting.len() < MOST || waiting.contains_key(&(section, *slot)) {
                waiting.insert((section, *slot), at);
            }
        }
    }

    /// Drops due bitmaps repeatedly. Bitmaps that cannot be dropped stay.
    pub(super) async fn run(&self, bitmaps: &dyn ReaderBitmaps) {
        loop {
            sleep(PERIOD).await;
            let mut is_unavailable = false;
            for (section, slots) in self.take_due() {
                is_unavailable = is_unavailable || bitmaps.invalidate(section, &slots).await.is_err();
                if is_unavailable {
                    self.add(section, &slots, Duration::ZERO);
                }
            }
        }
    }

    fn take_due(&self) -> BTreeMap<ReaderSection, Vec<Slot>> {
        let (now, mut due): (_, BTreeMap<ReaderSection, Vec<Slot>>) = (Instant::now(), BTreeMap::new());
        self.0.lock().retain(|(section, slot), at| {
            let is_due = *at <= now;
            if is_due {
                due.entry(*section).or_default().push(*slot);
            }
            !is_due
        });
        due
    }
}
