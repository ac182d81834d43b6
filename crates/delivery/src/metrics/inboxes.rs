//! Inbox counters, resolved once. All are there from zero on.

use metrics::{Counter, counter};

use super::{INBOX_ENTRIES, INBOX_GENERATIONS, INBOX_WAKES};

/// Why a generation began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GenerationReason {
    /// The user had no inbox.
    New,
    /// Redis has lost an inbox's hash, and not its stream.
    #[cfg(feature = "redis")]
    Hash,
    /// An inbox's stream does not fit its hash.
    #[cfg(feature = "redis")]
    Stream,
    /// There was no room.
    Room,
}

const GENERATION_REASONS: [&str; 4] = ["new", "hash", "stream", "room"];

pub(crate) struct InboxCounts {
    entries: Counter,
    generations: [Counter; 4],
    wakes: Counter,
}

impl InboxCounts {
    pub(crate) fn new() -> Self {
        Self {
            entries: counter!(INBOX_ENTRIES.name),
            generations: GENERATION_REASONS.map(|why| counter!(INBOX_GENERATIONS.name, "why" => why)),
            wakes: counter!(INBOX_WAKES.name),
        }
    }

    pub(crate) fn entries(&self, count: u64) {
        self.entries.increment(count);
    }

    pub(crate) fn generation(&self, why: GenerationReason) {
        let index = match why {
            GenerationReason::New => 0,
            #[cfg(feature = "redis")]
            GenerationReason::Hash => 1,
            #[cfg(feature = "redis")]
            GenerationReason::Stream => 2,
            GenerationReason::Room => 3,
        };
        self.generations[index].increment(1);
    }

    pub(crate) fn wakes(&self, count: usize) {
        self.wakes.increment(count.try_into().unwrap_or(u64::MAX));
    }
}

impl std::fmt::Debug for InboxCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InboxCounts")
    }
}
