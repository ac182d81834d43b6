//! Sequences and their store.

use std::{fmt, str::FromStr};

use async_trait::async_trait;

use crate::{Invalid, Seq, SeqRange, StoreError, Text};

/// The most characters in a sequence's name.
pub const SEQUENCE_NAME_CHARS_MAX: usize = 64;
/// The most names in one [`SequenceStore::max_seqs`] call.
pub const SEQUENCES_READ: usize = 100;
/// The largest number above which numbers can be reserved, 2^52. Sequence numbers are computed as doubles
/// where they are kept in Redis, and so stay below 2^53. Invariant: no node comes near that from here.
pub const ABOVE_MAX: Seq = 1 << 52;

/// A sequence's name: 1 to 64 of `A-Z a-z 0-9 _ - . :`. Made by parsing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceName(Text);

impl SequenceName {
    /// The name as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SequenceName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let fits = (1..=SEQUENCE_NAME_CHARS_MAX).contains(&text.len());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
        if fits && is_plain {
            Ok(Self(text.into()))
        } else {
            Err(Invalid::fixed("must be 1 to 64 of A-Z a-z 0-9 _ - . :"))
        }
    }
}

impl fmt::Display for SequenceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Storage for sequences: where each sequence's last block ends.
#[async_trait]
pub trait SequenceStore: Send + Sync + fmt::Debug + 'static {
    /// Takes a sequence's next `count` numbers: consecutive, above `above` (from 0 to [`ABOVE_MAX`]), and
    /// above all that were taken before, by any caller. One step: concurrent calls get different numbers.
    /// Durable before it returns.
    ///
    /// # Errors
    /// If the store cannot answer. Numbers may be lost then; no later call returns them.
    async fn take_seqs(&self, name: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError>;

    /// Reads the highest number that was taken in each of up to [`SEQUENCES_READ`] sequences, in the order of
    /// `names`; 0: none was. Takes none. Sees every call to [`Self::take_seqs`] that returned before this
    /// call began, also after a failover.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more names.
    async fn max_seqs(&self, names: &[SequenceName]) -> Result<Vec<Seq>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_stated_characters() {
        for name in ["a", "AZaz09_-.:", "room:9", &"x".repeat(64)] {
            assert_eq!(name.parse::<SequenceName>().unwrap().as_str(), name);
        }
        for name in ["", " ", "a b", "a{b}", "ä", "a/b", "$a", "a\0", "a\n", &"x".repeat(65)] {
            assert!(name.parse::<SequenceName>().is_err(), "{name:?}");
        }
    }
}
