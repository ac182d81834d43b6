//! One user in one audience, for one stream.

use std::sync::Arc;

use kith_store::{NoticeReader, NoticeTotals, ReadBits, ReaderKey, SINCE_CREATION, Timestamp, Version};
use parking_lot::Mutex;

use super::{AudienceTotals, AudienceView, TotalsListener};

/// Compares one reader's totals with those that its listener has.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) key: ReaderKey,
    /// The user's creation, from which on it sees notices while it is not registered.
    created: Timestamp,
    listener: Arc<dyn TotalsListener>,
    last: Mutex<LastTotals>,
}

/// The listener's last totals, and the versions from which they were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastTotals {
    seen: SeenVersions,
    totals: NoticeTotals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenVersions {
    audience: Version,
    last_time: Timestamp,
    /// A reader's version, below all others if it is not registered.
    reader: Version,
}

impl Watch {
    /// `reader`: its present state; `None`: not registered.
    pub(super) fn new(
        key: ReaderKey,
        created: Timestamp,
        listener: Arc<dyn TotalsListener>,
        view: &AudienceView,
        reader: Option<&NoticeReader>,
    ) -> Self {
        let last = LastTotals { seen: SeenVersions::of(view, reader), totals: totals(view, reader, created) };
        Self { key, created, listener, last: Mutex::new(last) }
    }

    /// The listener's last totals.
    pub(super) fn totals(&self) -> AudienceTotals {
        AudienceTotals { audience: self.key.audience, totals: self.last.lock().totals }
    }

    /// Notifies the listener if the totals have changed. A copy older than the last is ignored.
    pub(super) fn compare(&self, view: &AudienceView, reader: Option<&NoticeReader>) {
        let seen = SeenVersions::of(view, reader);
        let mut last = self.last.lock();
        let is_older = seen.audience < last.seen.audience || seen.reader < last.seen.reader;
        if is_older || seen == last.seen {
            return;
        }
        let before = last.totals;
        *last = LastTotals { seen, totals: totals(view, reader, self.created) };
        let (is_changed, totals) = (last.totals != before, last.totals);
        drop(last);
        if is_changed {
            self.listener.changed(AudienceTotals { audience: self.key.audience, totals });
        }
    }
}

impl SeenVersions {
    fn of(view: &AudienceView, reader: Option<&NoticeReader>) -> Self {
        let reader = reader.map_or(Version::NONE, |reader| reader.version);
        Self { audience: view.audience.version, last_time: view.last_time, reader }
    }
}

fn totals(view: &AudienceView, reader: Option<&NoticeReader>, created: Timestamp) -> NoticeTotals {
    let since = reader.map(|reader| reader.since).filter(|since| *since != SINCE_CREATION);
    let none = ReadBits::default();
    let bits = reader.map_or(&none, |reader| &reader.bits);
    NoticeTotals::of(&view.audience, since.unwrap_or(created), bits, view.now)
}
