//! List epochs. Each page's key contains the epoch, so a writer that drops the epoch invalidates all pages of
//! the list at once.

use std::sync::Arc;

use crate::{Key, LoadError, LoadOptions, Loaded, Loader, Version, load_each, remote::Codec};

/// Identifies a list's state, as of the changes that the nodes have received. Random and never reused: if it
/// is lost, a new epoch is created, and pages under the old epoch are never found again.
///
/// Unlike a [`Node`](crate::Node)'s epoch, which is a number that the whole cluster shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListEpoch(u64);

impl ListEpoch {
    /// Used for pages that are read past the tiers; no list has it.
    pub(super) const NONE: Self = Self(0);

    /// A new epoch. Does not use the node's random source, which tests may fix: a repeated epoch would bring
    /// old pages back.
    fn random() -> Self {
        Self(rand::random::<u64>().max(1))
    }

    /// The number, for texts.
    pub(super) const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Bytes of a copy besides the key, for policies.
    #[must_use]
    pub const fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// Creates epochs: the store has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochGenerator;

#[async_trait::async_trait]
impl<L: Key> Loader<L, ListEpoch> for EpochGenerator {
    async fn load(&self, _list: &L, _options: LoadOptions) -> Result<Loaded<ListEpoch>, LoadError> {
        Ok(Loaded::Found { value: Arc::new(ListEpoch::random()), version: Version::UNVERSIONED })
    }

    async fn load_many(
        &self,
        keys: &[L],
        options: LoadOptions,
    ) -> Result<Vec<(L, Loaded<ListEpoch>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

/// Encodes an epoch as eight bytes in big endian.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochCodec;

impl Codec<ListEpoch> for EpochCodec {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, epoch: &ListEpoch) -> Vec<u8> {
        epoch.0.to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ListEpoch> {
        let epoch = ListEpoch(u64::from_be_bytes(bytes.try_into().ok()?));
        (epoch != ListEpoch::NONE).then_some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_round_trips_and_other_bytes_are_refused() {
        let epoch = ListEpoch::random();
        assert_eq!(EpochCodec.decode(&EpochCodec.encode(&epoch)), Some(epoch));
        for bytes in [&[0; 8][..], &[], &[1; 7], &[1; 9]] {
            assert_eq!(EpochCodec.decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn no_two_epochs_are_alike() {
        let names: std::collections::HashSet<_> = (0..10_000).map(|_| ListEpoch::random()).collect();
        assert_eq!(names.len(), 10_000);
    }
}
