//! How many reactions the messages in a document have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{KINDS_OF_MESSAGE_MAX, REACTION_KIND_BYTES_MAX, REACTIONS_MAX, ReactionKind, ReactionRefusal};
use crate::{DocumentKey, Seq, Version};

/// How many users react with a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// The kind that is counted.
    pub kind: ReactionKind,
    /// How many users, at least 1.
    pub count: u32,
}

/// The counts for one document's messages. Changes in one transaction with the rows that it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReactionSummary {
    /// The document whose messages are counted.
    pub key: DocumentKey,
    /// Rises with each change.
    pub version: Version,
    /// The kinds by message, in the order of their first reactions. Messages without reactions are left out.
    messages: BTreeMap<Seq, Vec<KindCount>>,
}

impl ReactionSummary {
    /// The summary of a document without reactions, which is not stored.
    #[must_use]
    pub const fn absent(key: DocumentKey) -> Self {
        Self::empty(key, Version::NONE)
    }

    /// The summary of a document without reactions.
    #[must_use]
    pub const fn empty(key: DocumentKey, version: Version) -> Self {
        Self { key, version, messages: BTreeMap::new() }
    }

    /// The kinds of a message, in the order of their first reactions.
    #[must_use]
    pub fn of(&self, seq: Seq) -> &[KindCount] {
        self.messages.get(&seq).map_or(&[], Vec::as_slice)
    }

    /// Approximate size in bytes, for the bounds that caches have.
    #[must_use]
    pub fn weight(&self) -> usize {
        let kinds: usize = self.messages.values().map(Vec::len).sum();
        size_of::<Self>()
            + self.messages.len() * 48
            + kinds * (size_of::<KindCount>() + REACTION_KIND_BYTES_MAX)
    }

    /// The counts as bytes: the form in stores.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.messages).unwrap_or_default()
    }

    /// Reverses [`Self::pack`]; `None`: invalid.
    #[must_use]
    pub fn unpack(key: DocumentKey, version: Version, bytes: &[u8]) -> Option<Self> {
        let (messages, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(Self { key, version, messages })
    }

    /// The summary after all reactions to these messages were removed, in the next version. `None`: they have
    /// none.
    #[must_use]
    pub fn without(&self, seqs: &[Seq]) -> Option<Self> {
        let mut after = Self { version: self.version.next(), ..self.clone() };
        seqs.iter().fold(false, |any, seq| any | after.messages.remove(seq).is_some()).then_some(after)
    }

    /// Counts a reaction.
    pub(super) fn add(&mut self, seq: Seq, kind: &ReactionKind) -> Result<(), ReactionRefusal> {
        let kinds = self.messages.entry(seq).or_default();
        if kinds.iter().map(|of| u64::from(of.count)).sum::<u64>() >= REACTIONS_MAX {
            return Err(ReactionRefusal::TooMany);
        }
        if let Some(of) = kinds.iter_mut().find(|of| of.kind == *kind) {
            of.count += 1;
            return Ok(());
        }
        if kinds.len() >= KINDS_OF_MESSAGE_MAX {
            return Err(ReactionRefusal::TooManyKinds);
        }
        kinds.push(KindCount { kind: kind.clone(), count: 1 });
        Ok(())
    }

    /// Counts a reaction no longer.
    pub(super) fn remove(&mut self, seq: Seq, kind: &ReactionKind) {
        let Some(kinds) = self.messages.get_mut(&seq) else { return };
        if let Some(of) = kinds.iter_mut().find(|of| of.kind == *kind) {
            of.count = of.count.saturating_sub(1);
        }
        kinds.retain(|of| of.count > 0);
        if kinds.is_empty() {
            self.messages.remove(&seq);
        }
    }
}
