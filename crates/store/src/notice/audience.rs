//! Notice audiences.

use std::{fmt, num::NonZeroI32, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{AudienceEntry, NoticeId, Slot, read_bits::page_of};
use crate::{Invalid, Text, Timestamp, Version, heap_bytes};

/// Identifies an audience: a platform, or a kind of account. 1 to `i32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct AudienceId(NonZeroI32);

impl AudienceId {
    /// The id with this number.
    ///
    /// # Errors
    /// If it is not above 0, or above `i32::MAX`.
    pub fn new(number: i64) -> Result<Self, Invalid> {
        let id = i32::try_from(number).ok().filter(|number| *number > 0).and_then(NonZeroI32::new);
        id.map(Self).ok_or_else(|| Invalid::fixed("must be from 1 to 2147483647"))
    }

    /// The number, above 0.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0.get()
    }
}

impl TryFrom<i64> for AudienceId {
    type Error = Invalid;

    fn try_from(number: i64) -> Result<Self, Invalid> {
        Self::new(number)
    }
}

impl From<AudienceId> for i64 {
    fn from(id: AudienceId) -> Self {
        id.get().into()
    }
}

impl fmt::Display for AudienceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AudienceId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::new(text.parse().map_err(|_| Invalid::fixed("must be from 1 to 2147483647"))?)
    }
}

/// An audience with its notices' entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience {
    /// The audience's id.
    pub id: AudienceId,
    /// This state's version.
    pub version: Version,
    /// Shown to operators.
    pub name: Text,
    /// Whether its readers are Kith users. Never changes.
    pub of_users: bool,
    /// When it was registered.
    pub created: Timestamp,
    /// The slot that the next notice gets.
    pub next_slot: Slot,
    /// The entries in list order: pinned entries first, then the newest.
    pub entries: Vec<AudienceEntry>,
}

impl Audience {
    /// A notice's entry; `None`: the audience does not have it.
    #[must_use]
    pub fn entry(&self, notice: NoticeId) -> Option<&AudienceEntry> {
        self.entries.iter().find(|entry| entry.notice == notice)
    }

    /// Whether no bit on this page belongs to a notice, now or later. Also true for an old copy of the
    /// audience: slots are assigned by rising number.
    #[must_use]
    pub fn is_dead_page(&self, page: u32) -> bool {
        let is_of_page = |slot: Slot| page_of(slot) == page;
        page < page_of(self.next_slot) && !self.entries.iter().any(|entry| entry.slots().any(is_of_page))
    }

    /// The record's approximate size in memory, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + heap_bytes(&self.name) + self.entries.capacity() * size_of::<AudienceEntry>()
    }
}
