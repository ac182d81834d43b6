//! All a node's inboxes in memory, bounded in time and bytes. Opening an inbox prolongs it; writing an entry
//! does not.

use std::collections::{BTreeMap, HashMap};

use kith_cache::Moment;
use kith_store::UserId;

use super::inbox::Inbox;
use crate::InboxLimits;

/// All inboxes, by the time at which they were opened or renewed.
pub(super) struct InboxTable {
    inboxes: HashMap<UserId, StoredInbox>,
    /// Users by when their inboxes were last opened, as a counter. Invariant: each inbox is here.
    by_opening: BTreeMap<u64, UserId>,
    last_opening: u64,
    bytes: usize,
    limits: InboxLimits,
}

struct StoredInbox {
    inbox: Inbox,
    /// The bytes that it adds to the sum over all inboxes.
    bytes: usize,
    opened: Moment,
    opening: u64,
}

impl InboxTable {
    pub(super) fn new(limits: InboxLimits) -> Self {
        let (inboxes, by_opening) = Default::default();
        Self { inboxes, by_opening, last_opening: 0, bytes: 0, limits }
    }

    pub(super) fn get(&self, user: UserId) -> Option<&Inbox> {
        self.inboxes.get(&user).map(|stored| &stored.inbox)
    }

    /// Changes an inbox; `None`: there is none.
    pub(super) fn change<T>(&mut self, user: UserId, change: impl FnOnce(&mut Inbox) -> T) -> Option<T> {
        self.inboxes.get_mut(&user).map(|stored| stored.change(&mut self.bytes, change))
    }

    /// Changes an inbox that is opened now: it goes last. If there is none, it is made, with this generation.
    pub(super) fn open<T>(
        &mut self,
        user: UserId,
        now: Moment,
        generation: impl FnOnce() -> u64,
        change: impl FnOnce(&mut Inbox) -> T,
    ) -> T {
        self.last_opening += 1;
        let (opening, entries_max) = (self.last_opening, self.limits.entries);
        let new =
            || StoredInbox { inbox: Inbox::new(generation(), entries_max), bytes: 0, opened: now, opening };
        let stored = self.inboxes.entry(user).or_insert_with(new);
        self.by_opening.remove(&stored.opening);
        self.by_opening.insert(opening, user);
        (stored.opening, stored.opened) = (opening, now);
        stored.change(&mut self.bytes, change)
    }

    pub(super) fn remove(&mut self, user: UserId) {
        if let Some(stored) = self.inboxes.remove(&user) {
            self.by_opening.remove(&stored.opening);
            self.bytes -= stored.bytes;
        }
    }

    /// Removes the inboxes whose time is over.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some(user) = self.oldest() {
            let is_over = |stored: &StoredInbox| stored.opened.after(self.limits.memory_kept) <= now;
            if !self.inboxes.get(&user).is_some_and(is_over) {
                return;
            }
            self.remove(user);
        }
    }

    /// Removes the inboxes that were opened least recently until all have room. Returns how many.
    pub(super) fn evict_to_limit(&mut self) -> usize {
        let before = self.inboxes.len();
        while self.bytes > self.limits.memory_bytes
            && let Some(user) = self.oldest()
        {
            self.remove(user);
        }
        before - self.inboxes.len()
    }

    fn oldest(&self) -> Option<UserId> {
        self.by_opening.first_key_value().map(|(_, user)| *user)
    }
}

impl StoredInbox {
    fn change<T>(&mut self, bytes_of_all: &mut usize, change: impl FnOnce(&mut Inbox) -> T) -> T {
        let changed = change(&mut self.inbox);
        let bytes = self.inbox.bytes();
        *bytes_of_all = *bytes_of_all - self.bytes + bytes;
        self.bytes = bytes;
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::inbox::Entry;

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    fn at(ms: u64) -> Moment {
        Moment::new(ms)
    }

    fn inboxes(memory_bytes: usize) -> InboxTable {
        let memory_kept = Duration::from_millis(100);
        InboxTable::new(InboxLimits { memory_bytes, memory_kept, ..InboxLimits::default() })
    }

    fn open(inboxes: &mut InboxTable, id: i64, ms: u64) {
        inboxes.open(user(id), at(ms), || 1, |_| ());
    }

    fn has(inboxes: &InboxTable) -> Vec<i64> {
        let mut users: Vec<i64> = inboxes.inboxes.keys().map(|user| user.get()).collect();
        users.sort_unstable();
        assert_eq!(inboxes.by_opening.len(), users.len());
        assert_eq!(inboxes.bytes, inboxes.inboxes.values().map(|stored| stored.inbox.bytes()).sum::<usize>());
        users
    }

    #[test]
    fn inbox_expires_after_its_last_opening() {
        let mut inboxes = inboxes(usize::MAX);
        open(&mut inboxes, 1, 0);
        open(&mut inboxes, 2, 50);
        open(&mut inboxes, 1, 60);
        inboxes.expire(at(149));
        assert_eq!(has(&inboxes), [1, 2]);
        inboxes.change(user(2), |inbox| inbox.add(Entry::Unknown)).unwrap();
        inboxes.expire(at(150));
        assert_eq!(has(&inboxes), [1], "an entry prolongs nothing");
        inboxes.expire(at(160));
        assert!(has(&inboxes).is_empty());
        assert!(inboxes.change(user(1), |_| ()).is_none());
    }

    #[test]
    fn inbox_that_was_opened_first_goes_first() {
        let mut inboxes = inboxes(4 * Inbox::new(1, 200).bytes());
        for id in 1..=4 {
            open(&mut inboxes, id, 0);
        }
        open(&mut inboxes, 1, 1);
        assert_eq!(inboxes.evict_to_limit(), 0);
        open(&mut inboxes, 5, 1);
        assert_eq!(inboxes.evict_to_limit(), 1);
        assert_eq!(has(&inboxes), [1, 3, 4, 5]);
        // A growing inbox makes others go.
        for _ in 0..100 {
            inboxes.change(user(3), |inbox| inbox.add(Entry::Unknown)).unwrap();
        }
        assert!(inboxes.evict_to_limit() > 0);
        assert!(inboxes.bytes <= inboxes.limits.memory_bytes);
        assert_eq!(has(&inboxes), [1, 4, 5]);
    }
}
