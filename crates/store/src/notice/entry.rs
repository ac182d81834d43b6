//! Audience entries, and their stored form.

use serde::{Deserialize, Serialize};

use std::cmp::{Ordering, Reverse};

use super::NoticeId;
use crate::Timestamp;

/// A bit's position in the words that each reader of an audience has. Never reused.
pub type Slot = u32;

/// Bytes in a packed entry.
const PACKED: usize = 33;
const PINNED: u8 = 1;
const FOR_NEWCOMERS: u8 = 2;
const EXPIRES: u8 = 4;
const MUST_CONFIRM: u8 = 8;

/// A notice in an audience: its visibility and its position in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudienceEntry {
    /// The notice's id.
    pub notice: NoticeId,
    /// The slot for the read bit.
    pub slot: Slot,
    /// The slot for the confirmation bit; `None`: it needs no confirmation.
    pub confirm_slot: Option<Slot>,
    /// When it becomes visible.
    pub publish: Timestamp,
    /// When it expires; `None`: never.
    pub expire: Option<Timestamp>,
    /// Whether it is listed before notices that are not pinned.
    pub pinned: bool,
    /// Whether readers who came after its publish time see it.
    pub for_newcomers: bool,
}

impl AudienceEntry {
    /// Whether a reader sees it whose `since` is this time.
    #[must_use]
    pub fn is_visible(&self, since: Timestamp, now: Timestamp) -> bool {
        self.publish <= now && !self.is_expired(now) && (self.publish >= since || self.for_newcomers)
    }

    /// Whether it has expired.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expire.is_some_and(|expire| expire <= now)
    }

    /// Returns its slots.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        [Some(self.slot), self.confirm_slot].into_iter().flatten()
    }

    /// Pinned ones first, then the newest.
    pub(super) fn listed_before(&self, other: &Self) -> Ordering {
        let sort_key = |entry: &Self| Reverse((entry.pinned, entry.publish, entry.notice));
        sort_key(self).cmp(&sort_key(other))
    }
}

/// Entries as bytes, 33 for each: the form in stores and caches.
#[must_use]
pub fn pack_entries(entries: &[AudienceEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * PACKED);
    for entry in entries {
        let flags = [
            (entry.pinned, PINNED),
            (entry.for_newcomers, FOR_NEWCOMERS),
            (entry.expire.is_some(), EXPIRES),
            (entry.confirm_slot.is_some(), MUST_CONFIRM),
        ];
        bytes.extend(entry.notice.get().to_be_bytes());
        bytes.extend(entry.publish.0.to_be_bytes());
        bytes.extend(entry.expire.unwrap_or_default().0.to_be_bytes());
        bytes.extend(entry.slot.to_be_bytes());
        bytes.extend(entry.confirm_slot.unwrap_or_default().to_be_bytes());
        bytes.push(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    }
    bytes
}

/// Reverses [`pack_entries`]; `None`: invalid.
#[must_use]
pub fn unpack_entries(bytes: &[u8]) -> Option<Vec<AudienceEntry>> {
    let (packed, rest) = bytes.as_chunks::<PACKED>();
    if !rest.is_empty() {
        return None;
    }
    packed.iter().map(unpacked).collect()
}

fn unpacked(bytes: &[u8; PACKED]) -> Option<AudienceEntry> {
    let long = |at: usize| i64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let short = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let flags = bytes[PACKED - 1];
    Some(AudienceEntry {
        notice: NoticeId::new(long(0)).ok()?,
        publish: Timestamp(long(8)),
        expire: (flags & EXPIRES != 0).then_some(Timestamp(long(16))),
        slot: short(24),
        confirm_slot: (flags & MUST_CONFIRM != 0).then_some(short(28)),
        pinned: flags & PINNED != 0,
        for_newcomers: flags & FOR_NEWCOMERS != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(notice: i64, publish: i64) -> AudienceEntry {
        AudienceEntry {
            notice: NoticeId::new(notice).unwrap(),
            slot: 7,
            confirm_slot: None,
            publish: Timestamp(publish),
            expire: None,
            pinned: false,
            for_newcomers: false,
        }
    }

    #[test]
    fn entries_come_back_from_their_bytes() {
        let last = AudienceEntry {
            slot: u32::MAX,
            confirm_slot: Some(u32::MAX),
            expire: Some(Timestamp(i64::MAX)),
            pinned: true,
            for_newcomers: true,
            ..entry(i64::MAX, i64::MIN)
        };
        let entries = [entry(1, 0), last];
        let bytes = pack_entries(&entries);
        assert_eq!(bytes.len(), 66);
        assert_eq!(unpack_entries(&bytes).unwrap(), entries);
        assert_eq!(unpack_entries(&bytes[..65]), None);
        assert_eq!(unpack_entries(&[0; PACKED]), None, "no notice has the id 0");
    }

    #[test]
    fn entry_is_visible_from_publish_to_expire() {
        let timed = AudienceEntry { expire: Some(Timestamp(20)), ..entry(1, 10) };
        let visible = |now| timed.is_visible(Timestamp(0), Timestamp(now));
        assert_eq!([9, 10, 19, 20].map(visible), [false, true, true, false]);
    }

    #[test]
    fn newcomers_see_what_is_for_them() {
        let seen = |entry: AudienceEntry, since| entry.is_visible(Timestamp(since), Timestamp(100));
        assert!(seen(entry(1, 10), 10) && !seen(entry(1, 10), 11));
        assert!(seen(AudienceEntry { for_newcomers: true, ..entry(1, 10) }, 11));
    }

    #[test]
    fn pinned_entries_come_first_then_newest() {
        let pinned = AudienceEntry { pinned: true, ..entry(9, 1) };
        let mut listed = [entry(1, 5), entry(3, 7), pinned, entry(2, 7)];
        listed.sort_by(AudienceEntry::listed_before);
        assert_eq!(listed.map(|entry| entry.notice.get()), [9, 3, 2, 1]);
    }
}
