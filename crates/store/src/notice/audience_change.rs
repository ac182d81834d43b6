//! How changing a notice changes an audience.

use std::time::Duration;

use super::{Audience, AudienceEntry, NoticeId, NoticeRefusal, NoticeTerms, Slot};
use crate::Timestamp;

/// How long an entry is kept after it expired. Until then an update may extend it, and its marks are kept.
pub const EXPIRED_KEPT: Duration = Duration::from_secs(60 * 60);

/// A change to an audience's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudienceChange {
    /// Adds or updates a notice with these terms. `is_unread`: under new slots, so that no reader has read
    /// it.
    Put {
        /// The notice's id.
        notice: NoticeId,
        /// The notice's terms.
        terms: NoticeTerms,
        /// Whether it gets new slots although it has some.
        is_unread: bool,
    },
    /// Removes a notice.
    Remove(NoticeId),
    /// Removes the entries that expired [`EXPIRED_KEPT`] before this time, a time in the store that no wrong
    /// clock moves. No other change removes them.
    RemoveExpired(Timestamp),
}

impl AudienceChange {
    /// The audience after the change, with the next version; `None`: it changes nothing.
    ///
    /// # Errors
    /// If it would have more than `live_max` entries.
    pub fn apply(&self, audience: &Audience, live_max: usize) -> Result<Option<Audience>, NoticeRefusal> {
        let mut after = audience.clone();
        match *self {
            Self::Put { notice, terms, is_unread } => put(&mut after, notice, terms, is_unread, live_max)?,
            Self::Remove(notice) => after.entries.retain(|entry| entry.notice != notice),
            Self::RemoveExpired(now) => after.entries.retain(|entry| !is_over(entry.expire, now)),
        }
        after.entries.sort_by(AudienceEntry::listed_before);
        Ok((after != *audience).then(|| Audience { version: audience.version.next(), ..after }))
    }
}

fn is_over(expire: Option<Timestamp>, now: Timestamp) -> bool {
    expire.is_some_and(|expire| expire.after(EXPIRED_KEPT) <= now)
}

fn put(
    audience: &mut Audience,
    notice: NoticeId,
    terms: NoticeTerms,
    is_unread: bool,
    live_max: usize,
) -> Result<(), NoticeRefusal> {
    let known = audience.entry(notice).copied();
    let (slot, confirm_slot) = match known.filter(|_| !is_unread) {
        Some(entry) => (entry.slot, entry.confirm_slot),
        None => (next(audience)?, terms.must_confirm.then(|| next(audience)).transpose()?),
    };
    audience.entries.retain(|entry| entry.notice != notice);
    if known.is_none() && audience.entries.len() >= live_max {
        return Err(NoticeRefusal::TooManyNotices);
    }
    let NoticeTerms { publish, expire, pinned, must_confirm: _, for_newcomers } = terms;
    let entry = AudienceEntry { notice, slot, confirm_slot, publish, expire, pinned, for_newcomers };
    audience.entries.push(entry);
    Ok(())
}

/// Takes a new slot.
fn next(audience: &mut Audience) -> Result<Slot, NoticeRefusal> {
    let slot = audience.next_slot;
    audience.next_slot = slot.checked_add(1).ok_or(NoticeRefusal::TooManyNotices)?;
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AudienceId, Text, Version};

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn audience() -> Audience {
        Audience {
            id: AudienceId::new(1).unwrap(),
            version: Version::FIRST,
            name: Text::default(),
            of_users: false,
            created: Timestamp(0),
            next_slot: 0,
            entries: Vec::new(),
        }
    }

    fn terms() -> NoticeTerms {
        NoticeTerms { publish: NOW, expire: None, pinned: false, must_confirm: false, for_newcomers: false }
    }

    fn has(notice: i64, terms: NoticeTerms, is_unread: bool) -> AudienceChange {
        AudienceChange::Put { notice: NoticeId::new(notice).unwrap(), terms, is_unread }
    }

    fn apply(audience: &Audience, change: AudienceChange) -> Audience {
        change.apply(audience, 10).unwrap().unwrap()
    }

    #[test]
    fn slots_are_never_reused() {
        let one = apply(&audience(), has(1, terms(), false));
        let none = apply(&one, AudienceChange::Remove(one.entries[0].notice));
        assert_eq!((none.entries.len(), none.next_slot, none.version.get()), (0, 1, 3));
        let other = apply(&none, has(2, NoticeTerms { must_confirm: true, ..terms() }, false));
        assert_eq!((other.entries[0].slot, other.entries[0].confirm_slot, other.next_slot), (1, Some(2), 3));
    }

    #[test]
    fn update_keeps_slots_unless_it_makes_unread() {
        let one = apply(&audience(), has(1, NoticeTerms { must_confirm: true, ..terms() }, false));
        let pinned = NoticeTerms { pinned: true, must_confirm: true, ..terms() };
        let same = apply(&one, has(1, pinned, false));
        assert_eq!((same.entries[0].slot, same.entries[0].confirm_slot), (0, Some(1)));
        let unread = apply(&same, has(1, pinned, true));
        assert_eq!((unread.entries[0].slot, unread.entries[0].confirm_slot), (2, Some(3)));
        assert_eq!(unread.entries.len(), 1);
    }

    #[test]
    fn limit_refuses_new_entries_not_updates() {
        let full = apply(&audience(), has(1, terms(), false));
        assert_eq!(has(2, terms(), false).apply(&full, 1), Err(NoticeRefusal::TooManyNotices));
        let pinned = NoticeTerms { pinned: true, ..terms() };
        assert!(has(1, pinned, false).apply(&full, 1).unwrap().is_some());
    }

    #[test]
    fn only_upkeep_removes_expired_entries() {
        let expire = Some(Timestamp(NOW.0 - 1));
        let one = apply(&audience(), has(1, NoticeTerms { expire, ..terms() }, false));
        let later = NOW.after(EXPIRED_KEPT);
        for change in [has(2, terms(), false), AudienceChange::Remove(NoticeId::new(3).unwrap())] {
            let after = change.apply(&one, 10).unwrap();
            assert!(after.is_none_or(|after| after.entry(one.entries[0].notice).is_some()), "{change:?}");
        }
        assert_eq!(AudienceChange::RemoveExpired(NOW).apply(&one, 1), Ok(None), "an hour has to pass");
        let none = apply(&one, AudienceChange::RemoveExpired(later));
        assert!(none.entries.is_empty());
    }

    #[test]
    fn change_that_changes_nothing_has_no_version() {
        let one = apply(&audience(), has(1, terms(), false));
        assert_eq!(has(1, terms(), false).apply(&one, 10), Ok(None));
        assert_eq!(AudienceChange::Remove(NoticeId::new(9).unwrap()).apply(&one, 10), Ok(None));
    }

    #[test]
    fn page_is_dead_once_all_its_notices_are_gone() {
        let mut full = Audience { next_slot: 63, ..audience() };
        for notice in 1..=2 {
            full = apply(&full, has(notice, terms(), false));
        }
        assert_eq!([0, 1, 2].map(|page| full.is_dead_page(page)), [false; 3]);
        let fewer = apply(&full, AudienceChange::Remove(NoticeId::new(1).unwrap()));
        assert_eq!([0, 1, 2].map(|page| fewer.is_dead_page(page)), [true, false, false]);
    }
}
