//! Makes numbers that look random and follow only from a seed.

/// Implements `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Makes a generator; the same seed gives the same numbers.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`, which is above 0. Its bias is below `bound / 2^64`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u128::try_from(bound).unwrap_or(1);
        usize::try_from((u128::from(self.next()) * bound) >> 64).unwrap_or(0)
    }

    /// Returns a number in `low..=high`.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Returns a random element from `choices`, which is not empty.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Returns true in this percentage of cases.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
