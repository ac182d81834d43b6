//! A bounded map with LRU eviction, for the sequences that a node uses. The caller decides which entries may
//! be evicted.

use std::collections::HashMap;

use kith_cache::Moment;
use kith_store::SequenceName;

/// A bounded map by sequence: when it is full, the most recently used sequences are kept.
#[derive(Debug)]
pub(super) struct LruMap<V> {
    most: usize,
    values: HashMap<SequenceName, (Moment, V)>,
}

impl<V> LruMap<V> {
    /// Creates it with this limit, at least 1.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), values: HashMap::new() }
    }

    /// A sequence's value, which counts as used now.
    pub(super) fn get(&mut self, name: &SequenceName, now: Moment) -> Option<&mut V> {
        let (used, value) = self.values.get_mut(name)?;
        *used = now;
        Some(value)
    }

    /// Adds a sequence. If the map is full, evicts, among the sequences that `may_evict` accepts, the half
    /// that was used least recently. False: it accepts none, and nothing was added.
    pub(super) fn insert(
        &mut self,
        name: SequenceName,
        now: Moment,
        value: V,
        may_evict: impl Fn(&V) -> bool,
    ) -> bool {
        if self.values.len() >= self.most && !self.make_room(may_evict) {
            return false;
        }
        self.values.insert(name, (now, value));
        true
    }

    /// A half at a time, so that an insertion costs little on average.
    fn make_room(&mut self, may_evict: impl Fn(&V) -> bool) -> bool {
        let idle = self.values.values().filter(|(_, value)| may_evict(value));
        let mut moments: Vec<Moment> = idle.map(|(used, _)| *used).collect();
        if moments.is_empty() {
            return false;
        }
        let index = (moments.len() - 1) / 2;
        let (_, middle, _) = moments.select_nth_unstable(index);
        let middle = *middle;
        self.values.retain(|_, (used, value)| *used > middle || !may_evict(value));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> SequenceName {
        format!("s{number}").parse().unwrap()
    }

    #[test]
    fn least_recently_used_are_evicted_at_limit() {
        let mut map = LruMap::new(4);
        for number in 0..4 {
            assert!(map.insert(name(number), Moment::new(number), number, |_| true));
        }
        assert_eq!(map.get(&name(0), Moment::new(9)), Some(&mut 0));
        assert!(map.insert(name(4), Moment::new(10), 4, |_| true));
        let now = Moment::new(11);
        let kept: Vec<bool> = (0..5).map(|number| map.get(&name(number), now).is_some()).collect();
        assert_eq!(kept, [true, false, false, true, true]);
    }

    #[test]
    fn protected_entries_are_not_evicted() {
        let mut map = LruMap::new(2);
        for number in 0..2 {
            map.insert(name(number), Moment::new(number), number, |_| true);
        }
        assert!(!map.insert(name(2), Moment::new(2), 2, |_| false));
        assert!(map.insert(name(2), Moment::new(2), 2, |value| *value == 1));
        assert!(map.get(&name(0), Moment::new(3)).is_some(), "though it was used before the other one");
        assert!(map.get(&name(1), Moment::new(3)).is_none());
    }
}
