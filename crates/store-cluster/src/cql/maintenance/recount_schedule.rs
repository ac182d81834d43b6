//! Which list parts have to be counted, and when: soon after a change; but after imports only when they are
//! quiet, because they change the same lists repeatedly.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use crate::cql::{
    change_log::ChangeLogEntry, client::version_clock::is_imported, relation::follow::bucket::ListPart,
};

/// A part that changes continuously is counted this often.
const COUNTED_EVERY: Duration = Duration::from_millis(500);
/// Imports are quiet after this time without a change.
const QUIET: Duration = Duration::from_secs(2);
/// A part is still counted soon if an import has added this many entries: it may be full.
const IMPORTED_ENTRIES_MAX: u32 = 1_000;
/// Maximum parts that wait to be counted; further ones are counted when their minute closes.
const PARTS_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(in crate::cql) struct RecountSchedule {
    soon: HashSet<ListPart>,
    /// How many entries imports have added to these since they were counted.
    imported: HashMap<ListPart, u32>,
    last_import: Option<Instant>,
    counted: HashMap<ListPart, Instant>,
}

impl RecountSchedule {
    /// Adds the parts that have to be counted because of a note.
    pub(in crate::cql) fn add(&mut self, note: &ChangeLogEntry, now: Instant) {
        let is_import = note.version.is_some_and(|version| is_imported(version.get()));
        if is_import {
            self.last_import = Some(now);
        }
        for part in note.parts() {
            if is_import && !self.add_imported(part) {
                continue;
            }
            if self.soon.len() + self.imported.len() < PARTS_MAX {
                self.soon.insert(part);
            }
        }
    }

    /// The parts to count now. They stay due until they are counted.
    pub(in crate::cql) fn parts(&mut self, now: Instant) -> Vec<ListPart> {
        self.counted.retain(|_, at| now.duration_since(*at) < COUNTED_EVERY);
        if self.last_import.is_none_or(|at| now.duration_since(at) >= QUIET) {
            self.soon.extend(self.imported.drain().map(|(part, _)| part));
        }
        self.soon.iter().filter(|part| !self.counted.contains_key(part)).copied().collect()
    }

    /// Notes that a part was counted by a count that began then.
    pub(in crate::cql) fn record_count(&mut self, part: ListPart, begun: Instant) {
        self.soon.remove(&part);
        self.counted.insert(part, begun);
    }

    /// Forgets everything.
    pub(in crate::cql) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds one imported entry to a part; returns whether it has to be counted soon.
    fn add_imported(&mut self, part: ListPart) -> bool {
        let waits = self.soon.len() + self.imported.len();
        match self.imported.get_mut(&part) {
            Some(entries) if *entries >= IMPORTED_ENTRIES_MAX => {
                self.imported.remove(&part);
                true
            }
            Some(entries) => {
                *entries += 1;
                false
            }
            None if waits < PARTS_MAX => {
                self.imported.insert(part, 1);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{Edge, UserId, Version};

    use super::*;
    use crate::cql::{change_log::ChangeSubject, client::version_clock::IMPORTED_MAX};

    fn note(from: i64, version: i64) -> ChangeLogEntry {
        let user = |id| UserId::new(id).unwrap();
        let edge = Edge { from: user(from), to: user(1_000) };
        ChangeLogEntry::sample(ChangeSubject::Follow(edge), Version::new(version), (0, 0))
    }

    fn following(owner: i64) -> ListPart {
        ListPart { owner, list: 0, bucket: 0 }
    }

    #[test]
    fn change_is_due_until_counted_and_again_later() {
        let (mut due, begun) = (RecountSchedule::default(), Instant::now());
        due.add(&note(1, IMPORTED_MAX + 1), begun);
        assert_eq!(due.parts(begun).len(), 2);
        due.record_count(following(1), begun);
        assert!(!due.parts(begun).contains(&following(1)));
        due.add(&note(1, IMPORTED_MAX + 2), begun);
        assert!(!due.parts(begun).contains(&following(1)));
        assert!(due.parts(begun + COUNTED_EVERY).contains(&following(1)));
    }

    #[test]
    fn recount_is_due_once_imports_are_quiet() {
        let (mut due, begun) = (RecountSchedule::default(), Instant::now());
        due.add(&note(1, 7), begun);
        due.add(&note(2, 6), begun + QUIET / 2);
        assert_eq!(due.parts(begun + QUIET), []);
        assert_eq!(due.parts(begun + QUIET * 2).len(), 3);
    }

    #[test]
    fn a_part_that_an_import_fills_is_due_soon() {
        let (mut due, begun) = (RecountSchedule::default(), Instant::now());
        for fan in 1..=i64::from(IMPORTED_ENTRIES_MAX) + 1 {
            due.add(&note(fan, 7), begun);
        }
        assert_eq!(due.parts(begun), [ListPart { owner: 1_000, list: 1, bucket: 0 }]);
    }

    #[test]
    fn no_more_waits_than_there_is_room_for() {
        let (mut due, begun) = (RecountSchedule::default(), Instant::now());
        for fan in 1..=i64::try_from(PARTS_MAX).unwrap() + 10 {
            due.add(&note(fan, fan % 2 * IMPORTED_MAX + 7), begun);
        }
        assert!(due.parts(begun + QUIET).len() <= PARTS_MAX);
    }
}
