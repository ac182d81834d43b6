//! Copies with bounded weight.

use std::{collections::HashMap, hash::Hash};

/// An entry's weight besides its content.
const BASE: usize = 8;

/// Copies with bounded weight: when there are too many, the least recently used are dropped. The last used
/// copy stays, whatever its weight: list pages read it again and again.
#[derive(Debug)]
pub(super) struct WeightedCopies<K, V> {
    entries: HashMap<K, KeptCopy<V>>,
    max: usize,
    weight: usize,
    uses: u64,
}

#[derive(Debug)]
struct KeptCopy<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Copy + Eq + Hash, V: Clone + Default> WeightedCopies<K, V> {
    /// Creates it with this largest weight.
    pub(super) fn new(max: usize) -> Self {
        Self { entries: HashMap::new(), max, weight: 0, uses: 0 }
    }

    /// The copy for this key, a new one if there is none.
    pub(super) fn get(&mut self, key: K) -> V {
        self.uses += 1;
        let Self { entries, weight, uses, .. } = self;
        let entry = entries.entry(key).or_insert_with(|| {
            *weight += BASE;
            KeptCopy { value: V::default(), weight: BASE, used: 0 }
        });
        entry.used = *uses;
        let value = entry.value.clone();
        self.make_room();
        value
    }

    /// Replaces a copy by another.
    pub(super) fn put(&mut self, key: K, value: V) {
        self.remove(key);
        self.uses += 1;
        self.weight += BASE;
        self.entries.insert(key, KeptCopy { value, weight: BASE, used: self.uses });
        self.make_room();
    }

    /// Sets the weight of a copy's content, and drops others until there is room.
    pub(super) fn set_weight(&mut self, key: K, content: usize) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let weight = BASE + content;
        self.weight = self.weight - entry.weight + weight;
        entry.weight = weight;
        self.make_room();
    }

    /// The recorded weight of a copy's content; 0: there is no copy.
    pub(super) fn content(&self, key: K) -> usize {
        self.entries.get(&key).map_or(0, |entry| entry.weight - BASE)
    }

    /// Drops a key's copy.
    pub(super) fn remove(&mut self, key: K) {
        if let Some(entry) = self.entries.remove(&key) {
            self.weight -= entry.weight;
        }
    }

    /// Drops an eighth at once if there are too many, so that not every new copy walks over all.
    fn make_room(&mut self) {
        if self.weight <= self.max {
            return;
        }
        let mut oldest: Vec<(u64, K)> = self.entries.iter().map(|(key, entry)| (entry.used, *key)).collect();
        oldest.sort_unstable_by_key(|(used, _)| *used);
        oldest.pop();
        for (_, key) in oldest {
            if self.weight <= self.max - self.max / 8 {
                return;
            }
            self.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_stays_until_it_is_removed() {
        let mut kept: WeightedCopies<u8, String> = WeightedCopies::new(100);
        assert_eq!(kept.get(1), "");
        kept.put(1, "a".to_owned());
        kept.set_weight(1, 5);
        assert_eq!((kept.get(1), kept.content(1)), ("a".to_owned(), 5));
        kept.remove(1);
        assert_eq!((kept.get(1), kept.content(1)), (String::new(), 0));
        kept.set_weight(2, 500);
        assert_eq!(kept.weight, BASE, "there is no copy with the key");
    }

    #[test]
    fn copies_that_were_used_longest_ago_are_dropped() {
        let mut kept: WeightedCopies<u8, u8> = WeightedCopies::new(80);
        for key in 1..=4 {
            kept.put(key, key);
            kept.set_weight(key, 10);
        }
        assert_eq!(kept.get(1), 1);
        kept.put(5, 5);
        kept.set_weight(5, 10);
        let found: Vec<u8> = (1..=5).filter(|key| kept.entries.contains_key(key)).collect();
        assert_eq!((found, kept.weight), (vec![1, 4, 5], 54));
    }

    #[test]
    fn copy_that_is_too_large_is_kept_alone() {
        let mut kept: WeightedCopies<u8, u8> = WeightedCopies::new(80);
        kept.put(1, 1);
        kept.put(2, 2);
        kept.set_weight(2, 100);
        assert_eq!((kept.get(2), kept.entries.len()), (2, 1));
        kept.put(3, 3);
        assert_eq!((kept.entries.len(), kept.weight), (1, BASE), "until another one is used");
    }

    #[test]
    fn empty_copies_weigh_too() {
        let mut kept: WeightedCopies<u16, u8> = WeightedCopies::new(80);
        for key in 0..1_000 {
            kept.get(key);
            kept.set_weight(key, 0);
        }
        assert!(kept.entries.len() <= 10, "{}", kept.entries.len());
    }
}
