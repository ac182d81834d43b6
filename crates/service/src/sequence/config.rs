//! The configuration of sequences, with its defaults.

use kith_delivery::SequenceLimits;
use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, above_zero, refuse};

/// A name that is not used for a day loses the rest of its block.
const BLOCK_MAX: u32 = 1_000_000;

/// Limits of sequences.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequencesConfig {
    /// Numbers of a sequence that the store allocates at a time. Above 0.
    pub block: u32,
    /// Maximum block: blocks grow while one lasts less than 100 ms. Above 0, not below `sequences.block`, at
    /// most 1000000.
    pub block_max: u32,
}

impl Default for SequencesConfig {
    fn default() -> Self {
        let SequenceLimits { block, block_max, .. } = SequenceLimits::default();
        Self { block, block_max }
    }
}

impl SequencesConfig {
    /// The limits of sequences as they are configured.
    #[must_use]
    pub fn limits(&self) -> SequenceLimits {
        SequenceLimits { block: self.block, block_max: self.block_max, ..SequenceLimits::default() }
    }

    /// Whether each value can be taken, and all of them together.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        above_zero(&[("sequences.block", self.block == 0)])?;
        if !(self.block..=BLOCK_MAX).contains(&self.block_max) {
            let text = format!(
                "is {}; it must be from sequences.block, {}, to {BLOCK_MAX}",
                self.block_max, self.block
            );
            return refuse("sequences.block_max", &text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bounded() {
        let refused =
            |block, block_max| SequencesConfig { block, block_max }.check().err().map(|wrong| wrong.key);
        assert_eq!(SequencesConfig::default().check().err().map(|wrong| wrong.key), None);
        assert_eq!(refused(1, 1), None);
        assert_eq!(refused(1_000_000, 1_000_000), None);
        assert_eq!(refused(0, 1), Some("sequences.block"));
        assert_eq!(refused(100, 99), Some("sequences.block_max"));
        assert_eq!(refused(1, 1_000_001), Some("sequences.block_max"));
    }
}
