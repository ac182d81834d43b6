//! Sequences and their store.

use std::{fmt, str::FromStr};

use async_trait::async_trait;

use crate::{Invalid, Seq, SeqRange, StoreError, Text};

/// Most characters of the name of a sequence.
pub const SEQUENCE_NAME_CHARS_MAX: usize = 64;
/// Most names of one [`SequenceStore::max_seqs`].
pub const SEQUENCES_READ: usize = 100;
/// Largest number above which numbers can be reserved, 2^52. Numbers of sequences are computed as doubles where they are kept in
/// Redis, and so stay below 2^53. Invariant: no node comes near that from here.
pub const ABOVE_MAX: Seq = 1 << 52;

/// The name of a sequence: 1 to 64 of `A-Z a-z 0-9 _ - . :`. Made by parsing.
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

/// Storage of sequences: the end of the last block of each.
#[async_trait]
pub trait SequenceStore: Send + Sync + fmt::Debug + 'static {
    /// Takes the next `count` numbers of a sequence: consecutive, above `above` (from 0 to [`ABOVE_MAX`]), and above all that were
    /// taken before, by any caller. One step: concurrent calls get different numbers. Durable before it returns.
    ///
    /// # Errors
    /// If the store cannot answer. Numbers may be lost then; no later call returns them.
    async fn take_seqs(&self, name: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError>;

    /// Reads the highest number that was taken of each of up to [`SEQUENCES_READ`] sequences, in the order of `names`; 0: none was.
    /// Takes none. Sees every call of [`Self::take_seqs`] that returned before this one began, also after a failover.
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
