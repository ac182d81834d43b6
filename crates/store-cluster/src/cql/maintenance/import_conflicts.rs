//! Concurrent imports that put the same follow at two positions.
//!
//! The first of several concurrent imports wins, by its timestamp. A later but faster import may have read
//! its row, and put the follow into both lists, before the first import's row arrives and replaces it:
//! neither observes the other. With a clock that is behind, this can happen for as long as clocks differ. But
//! each import notes where it put the follow, so a reader of the notes sees both, and removes the entries
//! that the row does not confirm.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, StoreError};

use crate::cql::{relation::follow::row::ListSlot, stores::Cql};

/// Follows with known positions from imports, in each shard: some 100 bytes each. If a follow is forgotten
/// before another import brings it again, `verify_edges` finds the wrong entries.
const FOLLOWS_MAX: usize = 65_536;
/// Follows at several positions that are handled in one step.
const RESOLVED_AT_ONCE: usize = 256;
const AT_A_TIME: usize = 8;

/// The positions at which imports have recently put follows.
#[derive(Debug)]
pub(in crate::cql) struct ImportConflicts {
    kept: Duration,
    slots: HashMap<Edge, Vec<ListSlot>>,
    /// When each was first noted.
    first_noted: VecDeque<(Instant, Edge)>,
    /// Follows at more than one position that were not checked since.
    due: BTreeSet<Edge>,
}

impl ImportConflicts {
    /// Remembers each follow for this long.
    pub(in crate::cql) fn new(kept: Duration) -> Self {
        Self { kept, slots: HashMap::new(), first_noted: VecDeque::new(), due: BTreeSet::new() }
    }

    /// Remembers that an import has put a follow there.
    pub(in crate::cql) fn add(&mut self, edge: Edge, slot: ListSlot, now: Instant) {
        self.forget(now);
        let slots = self.slots.entry(edge).or_default();
        if slots.contains(&slot) {
            return;
        }
        if slots.is_empty() {
            self.first_noted.push_back((now, edge));
        } else {
            self.due.insert(edge);
        }
        slots.push(slot);
    }

    /// Removes list entries for follows that are in several places, except where their rows put them. Only
    /// some at a time, so that the caller gets to its other work, too.
    pub(in crate::cql) async fn resolve(&mut self, cql: &Cql) -> Result<(), StoreError> {
        let due = self.due.iter().take(RESOLVED_AT_ONCE).map(|edge| (*edge, self.slots(*edge).to_vec()));
        let conflicts: Vec<(Edge, Vec<ListSlot>)> = due.collect();
        let resolved = stream::iter(conflicts).map(|(edge, slots)| resolve(cql, edge, slots));
        for edge in resolved.buffer_unordered(AT_A_TIME).try_collect::<Vec<_>>().await? {
            self.due.remove(&edge);
        }
        Ok(())
    }

    /// Forgets everything.
    pub(in crate::cql) fn clear(&mut self) {
        *self = Self::new(self.kept);
    }

    fn slots(&self, edge: Edge) -> &[ListSlot] {
        self.slots.get(&edge).map_or(&[], Vec::as_slice)
    }

    /// A due follow is kept while there is room.
    fn forget(&mut self, now: Instant) {
        while let Some((at, edge)) = self.first_noted.front().copied() {
            let is_old = now.duration_since(at) >= self.kept && !self.due.contains(&edge);
            if !is_old && self.first_noted.len() < FOLLOWS_MAX {
                return;
            }
            self.first_noted.pop_front();
            self.slots.remove(&edge);
            self.due.remove(&edge);
        }
    }
}

async fn resolve(cql: &Cql, edge: Edge, slots: Vec<ListSlot>) -> Result<Edge, StoreError> {
    if let Some(row) = cql.follow_row(edge).await? {
        for stray in slots.into_iter().filter(|slot| *slot != row.slot) {
            cql.repair_lists(&row, stray, row.version()).await?;
        }
    }
    Ok(edge)
}

#[cfg(test)]
mod tests {
    use kith_store::UserId;

    use super::*;

    const KEPT: Duration = Duration::from_secs(60);

    fn due(conflicts: &ImportConflicts) -> Vec<Edge> {
        conflicts.due.iter().copied().collect()
    }

    fn edge(from: i64) -> Edge {
        Edge { from: UserId::new(from).unwrap(), to: UserId::new(1_000_000).unwrap() }
    }

    fn slot(at: i64) -> ListSlot {
        ListSlot { at, in_following: 0, in_fans: 3 }
    }

    #[test]
    fn conflicting_import_is_due_until_checked() {
        let (mut conflicts, now) = (ImportConflicts::new(KEPT), Instant::now());
        for at in [5, 5, 7, 9, 7] {
            conflicts.add(edge(1), slot(at), now);
            conflicts.add(edge(2), slot(5), now);
        }
        assert_eq!((due(&conflicts), conflicts.slots(edge(1))), (vec![edge(1)], &[5, 7, 9].map(slot)[..]));
        conflicts.due.clear();
        conflicts.add(edge(1), slot(9), now);
        assert_eq!(due(&conflicts), []);
        conflicts.add(edge(1), slot(10), now);
        assert_eq!((due(&conflicts), conflicts.slots(edge(1)).len()), (vec![edge(1)], 4));
    }

    #[test]
    fn follow_expires_unless_it_is_due() {
        let (mut conflicts, now) = (ImportConflicts::new(KEPT), Instant::now());
        conflicts.add(edge(1), slot(5), now);
        conflicts.add(edge(1), slot(7), now + KEPT / 2);
        conflicts.add(edge(1), slot(9), now + KEPT * 2);
        assert_eq!((due(&conflicts), conflicts.slots(edge(1)).len()), (vec![edge(1)], 3));
        conflicts.due.clear();
        conflicts.add(edge(1), slot(7), now + KEPT * 2);
        assert_eq!((due(&conflicts), conflicts.slots(edge(1)).len()), (vec![], 1));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let (mut conflicts, now) = (ImportConflicts::new(KEPT), Instant::now());
        for from in 1..=i64::try_from(FOLLOWS_MAX).unwrap() + 10 {
            conflicts.add(edge(from), slot(5), now);
            conflicts.add(edge(from), slot(7), now);
        }
        let room = 1..=FOLLOWS_MAX;
        assert!(
            [conflicts.slots.len(), conflicts.first_noted.len(), conflicts.due.len()]
                .iter()
                .all(|len| room.contains(len))
        );
        conflicts.clear();
        assert!(conflicts.slots.is_empty());
    }
}
