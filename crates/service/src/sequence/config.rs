//! The configuration of sequences, with its defaults.

use kith_delivery::SequenceLimits;
use serde::{Deserialize, Serialize};

/// Limits of sequences.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequencesConfig {
    /// Numbers of a sequence that the store allocates at a time.
    #[serde(skip)]
    pub block: u32,
    /// Maximum block: blocks grow while one lasts less than 100 ms.
    #[serde(skip)]
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
}
