//! The notices that a reader has read in an audience.

use serde::{Deserialize, Serialize};

use super::Slot;

/// Bits in a word.
const WORD: u32 = 64;

/// A reader's bits: one for each slot in its audience, 64 in a word. Words without a bit are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u64)>")]
pub struct ReadBits(Vec<(u32, u64)>);

impl From<Vec<(u32, u64)>> for ReadBits {
    fn from(words: Vec<(u32, u64)>) -> Self {
        Self::new(words)
    }
}

impl ReadBits {
    /// Words by page, each page once, in any order. Those without a bit are left out.
    #[must_use]
    pub fn new(words: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut words: Vec<_> = words.into_iter().filter(|(_, word)| *word != 0).collect();
        words.sort_unstable_by_key(|(page, _)| *page);
        Self(words)
    }

    /// Whether the bit is set.
    #[must_use]
    pub fn has(&self, slot: Slot) -> bool {
        self.word(page_of(slot)) & bit_of(slot) != 0
    }

    /// Returns a page's word.
    #[must_use]
    pub fn word(&self, page: u32) -> u64 {
        self.0.binary_search_by_key(&page, |(page, _)| *page).map_or(0, |at| self.0[at].1)
    }

    /// Returns each page and its word, by rising page.
    pub fn words(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().copied()
    }

    /// The bits that are set, by rising number.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.words().flat_map(|(page, word)| {
            (0..WORD).filter(move |bit| word & (1 << bit) != 0).map(move |bit| page * WORD + bit)
        })
    }

    /// The bits with these set.
    #[must_use]
    pub fn with(&self, slots: &[Slot]) -> Self {
        let mut words = self.0.clone();
        for slot in slots {
            let page = page_of(*slot);
            let at = words.binary_search_by_key(&page, |(page, _)| *page).unwrap_or_else(|at| {
                words.insert(at, (page, 0));
                at
            });
            words[at].1 |= bit_of(*slot);
        }
        Self(words)
    }

    /// The bits with these cleared. Words without a bit are left out.
    #[must_use]
    pub fn without(&self, slots: &[Slot]) -> Self {
        let cleared = |(page, word): &(u32, u64)| {
            let of_page = slots.iter().filter(|slot| page_of(**slot) == *page);
            (*page, of_page.fold(*word, |word, slot| word & !bit_of(*slot)))
        };
        Self(self.0.iter().map(cleared).filter(|(_, word)| *word != 0).collect())
    }

    /// The bits without these pages.
    #[must_use]
    pub fn without_pages(&self, pages: &[u32]) -> Self {
        Self(self.0.iter().filter(|(page, _)| !pages.contains(page)).copied().collect())
    }

    /// Approximate size outside the record, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.0.capacity() * size_of::<(u32, u64)>()
    }
}

/// The page with the word that has this bit.
pub(super) const fn page_of(slot: Slot) -> u32 {
    slot / WORD
}

const fn bit_of(slot: Slot) -> u64 {
    1 << (slot % WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_many_pages_are_set_and_cleared() {
        let slots = [0, 63, 64, 700, 63];
        let bits = ReadBits::default().with(&slots);
        assert_eq!(bits.slots().collect::<Vec<_>>(), [0, 63, 64, 700]);
        assert!(bits.has(63) && !bits.has(62) && !bits.has(4_000_000_000));
        let fewer = bits.without(&[63, 64, 65]);
        assert_eq!(fewer.slots().collect::<Vec<_>>(), [0, 700]);
        assert_eq!(fewer.words().map(|(page, _)| page).collect::<Vec<_>>(), [0, 10]);
        assert_eq!(bits.without_pages(&[0, 3]).slots().collect::<Vec<_>>(), [64, 700]);
        assert_eq!(ReadBits::new([(10, 1 << 60), (0, 1)]), fewer);
    }
}
