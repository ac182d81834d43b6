//! Which faults a run has. Few of them at a time find more than all at once.

use std::fmt;

use crate::chance::Chance;

/// Something that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Fault {
    /// Links are closed, frozen or stalled.
    Links,
    /// Nodes are paused while time goes on.
    Stops,
    /// Nodes die, others start.
    Crashes,
    /// The server takes no writes.
    Full,
    /// The server is replaced by a server with an older past, under another name.
    Dumps,
    /// The server is replaced by a server with an older past, under its own name.
    Hidden,
    /// The server drops cells.
    Evictions,
    /// Frames are lost.
    Lossy,
    /// Frames come twice, late, or out of order.
    Jumbled,
    /// Others write to the channel.
    Forged,
    /// Answers of the server are lost, and what they answer is sent again.
    Answers,
    /// Loads take longer than a lease, or fail.
    SlowStore,
    /// Writers do not learn whether the store took the write; it may take it later.
    Unknown,
    /// The epoch is raised by hand.
    Raised,
    /// Few changes may wait to be published.
    Overflow,
    /// The log is trimmed to a few entries.
    Trimmed,
    /// Copies live shortly and are refreshed early.
    Short,
    /// No node reads the change feed of the store.
    NoFeed,
    /// The change feed forgets, or a collection is dropped.
    FeedLost,
}

const ALL: [Fault; 19] = [
    Fault::Links,
    Fault::Stops,
    Fault::Crashes,
    Fault::Full,
    Fault::Dumps,
    Fault::Hidden,
    Fault::Evictions,
    Fault::Lossy,
    Fault::Jumbled,
    Fault::Forged,
    Fault::Answers,
    Fault::SlowStore,
    Fault::Unknown,
    Fault::Raised,
    Fault::Overflow,
    Fault::Trimmed,
    Fault::Short,
    Fault::NoFeed,
    Fault::FeedLost,
];

/// The faults of one run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FaultSet(u32);

impl fmt::Debug for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(ALL.iter().filter(|fault| self.has(**fault))).finish()
    }
}

impl FaultSet {
    /// One run in eight has no fault, the others about a third of all.
    pub(crate) fn random(chance: &Chance) -> Self {
        if chance.one_in(8) {
            return Self::default();
        }
        Self::with(&ALL.into_iter().filter(|_| chance.one_in(3)).collect::<Vec<_>>())
    }

    pub(crate) fn with(faults: &[Fault]) -> Self {
        Self(faults.iter().fold(0, |all, fault| all | 1 << *fault as u32))
    }

    pub(crate) const fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u32 != 0
    }

    /// Nothing goes wrong: reads do not fail, and the bound of a healthy cluster holds.
    pub(crate) fn is_healthy(self) -> bool {
        [Fault::Short, Fault::NoFeed]
            .iter()
            .fold(self.0, |faults, harmless| faults & !(1 << *harmless as u32))
            == 0
    }

    /// Whether anything gives reason to raise the epoch.
    pub(crate) fn raises(self) -> bool {
        [Fault::Dumps, Fault::Hidden, Fault::Raised, Fault::Overflow, Fault::FeedLost]
            .iter()
            .any(|fault| self.has(*fault))
    }
}
