//! The inboxes of a node, of which the oldest go first.

use std::collections::{BTreeMap, HashMap};

use kith_cache::Moment;
use kith_store::UserId;

use super::inbox::Inbox;
use crate::InboxLimits;

/// All inboxes, by the time at which they were opened or renewed.
pub(super) struct Shelf {
    inboxes: HashMap<UserId, Kept>,
    /// The order of opening. Invariant: the number of each inbox is here, with the user.
    by_turn: BTreeMap<u64, UserId>,
    last_turn: u64,
    bytes: usize,
    limits: InboxLimits,
}

struct Kept {
    inbox: Inbox,
    /// What it counts in the bytes of all.
    bytes: usize,
    opened: Moment,
    turn: u64,
}

impl Shelf {
    pub(super) fn new(limits: InboxLimits) -> Self {
        let (inboxes, by_turn) = Default::default();
        Self { inboxes, by_turn, last_turn: 0, bytes: 0, limits }
    }

    pub(super) fn get(&self, user: UserId) -> Option<&Inbox> {
        self.inboxes.get(&user).map(|kept| &kept.inbox)
    }

    /// Changes an inbox; `None`: there is none.
    pub(super) fn change<T>(&mut self, user: UserId, change: impl FnOnce(&mut Inbox) -> T) -> Option<T> {
        self.inboxes.get_mut(&user).map(|kept| kept.change(&mut self.bytes, change))
    }

    /// Changes an inbox that is opened now: it goes last. If there is none, it is made, with this generation.
    pub(super) fn open<T>(
        &mut self,
        user: UserId,
        now: Moment,
        generation: impl FnOnce() -> u64,
        change: impl FnOnce(&mut Inbox) -> T,
    ) -> T {
        self.last_turn += 1;
        let (turn, entries_max) = (self.last_turn, self.limits.entries);
        let new = || Kept { inbox: Inbox::new(generation(), entries_max), bytes: 0, opened: now, turn };
        let kept = self.inboxes.entry(user).or_insert_with(new);
        self.by_turn.remove(&kept.turn);
        self.by_turn.insert(turn, user);
        (kept.turn, kept.opened) = (turn, now);
        kept.change(&mut self.bytes, change)
    }

    pub(super) fn remove(&mut self, user: UserId) {
        if let Some(kept) = self.inboxes.remove(&user) {
            self.by_turn.remove(&kept.turn);
            self.bytes -= kept.bytes;
        }
    }

    /// Removes the inboxes whose time is over.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some(user) = self.oldest() {
            let is_over = |kept: &Kept| kept.opened.after(self.limits.memory_kept) <= now;
            if !self.inboxes.get(&user).is_some_and(is_over) {
                return;
            }
            self.remove(user);
        }
    }

    /// Removes the inboxes that were opened least recently until all have room. Returns how many.
    pub(super) fn fit(&mut self) -> usize {
        let before = self.inboxes.len();
        while self.bytes > self.limits.memory_bytes
            && let Some(user) = self.oldest()
        {
            self.remove(user);
        }
        before - self.inboxes.len()
    }

    fn oldest(&self) -> Option<UserId> {
        self.by_turn.first_key_value().map(|(_, user)| *user)
    }
}

impl Kept {
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

    fn shelf(memory_bytes: usize) -> Shelf {
        let memory_kept = Duration::from_millis(100);
        Shelf::new(InboxLimits { memory_bytes, memory_kept, ..InboxLimits::default() })
    }

    fn open(shelf: &mut Shelf, id: i64, ms: u64) {
        shelf.open(user(id), at(ms), || 1, |_| ());
    }

    fn has(shelf: &Shelf) -> Vec<i64> {
        let mut users: Vec<i64> = shelf.inboxes.keys().map(|user| user.get()).collect();
        users.sort_unstable();
        assert_eq!(shelf.by_turn.len(), users.len());
        assert_eq!(shelf.bytes, shelf.inboxes.values().map(|kept| kept.inbox.bytes()).sum::<usize>());
        users
    }

    #[test]
    fn inbox_expires_after_its_last_opening() {
        let mut shelf = shelf(usize::MAX);
        open(&mut shelf, 1, 0);
        open(&mut shelf, 2, 50);
        open(&mut shelf, 1, 60);
        shelf.expire(at(149));
        assert_eq!(has(&shelf), [1, 2]);
        shelf.change(user(2), |inbox| inbox.add(Entry::Unknown)).unwrap();
        shelf.expire(at(150));
        assert_eq!(has(&shelf), [1], "an entry prolongs nothing");
        shelf.expire(at(160));
        assert!(has(&shelf).is_empty());
        assert!(shelf.change(user(1), |_| ()).is_none());
    }

    #[test]
    fn inbox_that_was_opened_first_goes_first() {
        let mut shelf = shelf(4 * Inbox::new(1, 200).bytes());
        for id in 1..=4 {
            open(&mut shelf, id, 0);
        }
        open(&mut shelf, 1, 1);
        assert_eq!(shelf.fit(), 0);
        open(&mut shelf, 5, 1);
        assert_eq!(shelf.fit(), 1);
        assert_eq!(has(&shelf), [1, 3, 4, 5]);
        // One that grows makes others go.
        for _ in 0..100 {
            shelf.change(user(3), |inbox| inbox.add(Entry::Unknown)).unwrap();
        }
        assert!(shelf.fit() > 0);
        assert!(shelf.bytes <= shelf.limits.memory_bytes);
        assert_eq!(has(&shelf), [1, 4, 5]);
    }
}
