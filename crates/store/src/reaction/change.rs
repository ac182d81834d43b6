//! Decides, for all backends, what changes of reactions do.

use std::collections::{BTreeMap, BTreeSet};

use super::{KINDS_OF_USER_MAX, Reaction, ReactionKey, ReactionSummary};
use crate::{Seq, Timestamp, UserId};

/// A reaction that is made or withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReactionChange {
    /// It is made at its time, unless it exists.
    Add(Reaction),
    /// It is withdrawn, if it exists.
    Remove(ReactionKey),
}

/// Why a reaction is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReactionRefusal {
    /// There is no message with this number, or its content was removed.
    NoMessage,
    /// The user reacts with [`KINDS_OF_USER_MAX`] kinds already.
    TooManyOfUser,
    /// The message has [`KINDS_OF_MESSAGE_MAX`](super::KINDS_OF_MESSAGE_MAX) kinds already.
    TooManyKinds,
    /// The message has [`REACTIONS_MAX`](super::REACTIONS_MAX) reactions already.
    TooMany,
}

/// What decides about changes in one document.
#[derive(Clone, Debug)]
pub struct ReactionState {
    /// The document's summary.
    pub summary: ReactionSummary,
    /// All reactions of each user to each message that a change names; further ones do no harm.
    pub own: BTreeMap<ReactionKey, Timestamp>,
    /// The messages that exist and have their content.
    pub open: BTreeSet<Seq>,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub struct DecidedReactions {
    /// The document's summary; its version is that before if nothing changes.
    pub summary: ReactionSummary,
    /// The rows to add.
    pub added: Vec<Reaction>,
    /// The rows to remove.
    pub removed: Vec<ReactionKey>,
    /// For each change, whether it changed anything, in their order.
    pub results: Vec<Result<bool, ReactionRefusal>>,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct ChangedReactions {
    /// The document's summary now.
    pub summary: ReactionSummary,
    /// See [`DecidedReactions::results`].
    pub results: Vec<Result<bool, ReactionRefusal>>,
}

impl ReactionChange {
    /// Identifies the reaction that it makes or withdraws.
    #[must_use]
    pub const fn key(&self) -> &ReactionKey {
        match self {
            Self::Add(reaction) => &reaction.key,
            Self::Remove(key) => key,
        }
    }

    /// The message and the user.
    #[must_use]
    pub const fn pair(&self) -> (Seq, UserId) {
        let key = self.key();
        (key.seq, key.user)
    }
}

impl ReactionState {
    /// Decides changes to the document's messages, one after the other.
    #[must_use]
    pub fn decide(mut self, changes: &[ReactionChange]) -> DecidedReactions {
        let before = self.own.clone();
        let results = changes.iter().map(|change| self.apply(change)).collect();
        let is_new = |(key, _): &(&ReactionKey, &Timestamp)| !before.contains_key(key);
        let added = self.own.iter().filter(is_new);
        let added: Vec<_> = added.map(|(key, at)| Reaction { key: key.clone(), at: *at }).collect();
        let removed: Vec<_> = before.keys().filter(|key| !self.own.contains_key(key)).cloned().collect();
        let mut summary = self.summary;
        if !(added.is_empty() && removed.is_empty()) {
            summary.version = summary.version.next();
        }
        DecidedReactions { summary, added, removed, results }
    }

    fn apply(&mut self, change: &ReactionChange) -> Result<bool, ReactionRefusal> {
        match change {
            ReactionChange::Add(reaction) => self.add(reaction),
            ReactionChange::Remove(key) => {
                let existed = self.own.remove(key).is_some();
                if existed {
                    self.summary.remove(key.seq, &key.kind);
                }
                Ok(existed)
            }
        }
    }

    fn add(&mut self, Reaction { key, at }: &Reaction) -> Result<bool, ReactionRefusal> {
        if !self.open.contains(&key.seq) {
            return Err(ReactionRefusal::NoMessage);
        }
        if self.own.contains_key(key) {
            return Ok(false);
        }
        let is_own = |own: &&ReactionKey| own.seq == key.seq && own.user == key.user;
        if self.own.keys().filter(is_own).count() >= KINDS_OF_USER_MAX {
            return Err(ReactionRefusal::TooManyOfUser);
        }
        self.summary.add(key.seq, &key.kind)?;
        self.own.insert(key.clone(), *at);
        Ok(true)
    }
}

impl DecidedReactions {
    /// Whether anything is to be written.
    #[must_use]
    pub const fn changes(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty())
    }

    /// What callers get after it was written.
    #[must_use]
    pub fn written(self) -> ChangedReactions {
        ChangedReactions { summary: self.summary, results: self.results }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    fn key(user: i64, kind: &str) -> ReactionKey {
        ReactionKey { seq: 5, user: UserId::new(user).unwrap(), kind: kind.parse().unwrap() }
    }

    fn add(user: i64, kind: &str) -> ReactionChange {
        ReactionChange::Add(Reaction { key: key(user, kind), at: Timestamp(user) })
    }

    fn state() -> ReactionState {
        let summary = ReactionSummary::absent("g9/0".parse().unwrap());
        ReactionState { summary, own: BTreeMap::new(), open: [5].into() }
    }

    fn counts(summary: &ReactionSummary) -> Vec<(&str, u32)> {
        summary.of(5).iter().map(|of| (of.kind.as_str(), of.count)).collect()
    }

    #[test]
    fn changes_are_decided_in_their_order() {
        let changes =
            [add(7, "b"), add(8, "a"), add(8, "b"), add(7, "b"), ReactionChange::Remove(key(8, "a"))];
        let decided = state().decide(&changes);
        assert_eq!(decided.results, [Ok(true), Ok(true), Ok(true), Ok(false), Ok(true)]);
        assert_eq!(counts(&decided.summary), [("b", 2)]);
        assert_eq!((decided.added.len(), decided.removed.len()), (2, 0), "a came and went");
        assert_eq!(decided.summary.version, Version::FIRST);
        let own = decided.added.into_iter().map(|added| (added.key, added.at)).collect();
        let again = ReactionState { summary: decided.summary, own, open: [].into() };
        let gone = again.decide(&[ReactionChange::Remove(key(7, "b")), ReactionChange::Remove(key(7, "x"))]);
        assert_eq!((gone.removed, gone.results), (vec![key(7, "b")], vec![Ok(true), Ok(false)]));
        assert_eq!(counts(&gone.summary), [("b", 1)]);
    }

    #[test]
    fn unchanged_summary_keeps_its_version() {
        let decided = state().decide(&[ReactionChange::Remove(key(7, "a"))]);
        assert!(!decided.changes());
        assert_eq!(decided.summary.version, Version::NONE);
    }

    #[test]
    fn kinds_of_user_and_message_are_limited() {
        let of_one: Vec<_> = (0..=20).map(|kind| add(7, &format!("k{kind}"))).collect();
        let decided = state().decide(&of_one);
        assert_eq!(decided.results.iter().filter(|result| **result == Ok(true)).count(), 20);
        assert_eq!(decided.results[20], Err(ReactionRefusal::TooManyOfUser));
        let of_many: Vec<_> = (1..=65).map(|user| add(user, &format!("k{user}"))).collect();
        let decided = state().decide(&of_many);
        assert_eq!(decided.results[64], Err(ReactionRefusal::TooManyKinds));
        assert_eq!(decided.summary.of(5).len(), 64);
    }

    #[test]
    fn reactions_to_a_message_are_limited() {
        let all: Vec<_> = (1..=10_001).map(|user| add(user, "a")).collect();
        let decided = state().decide(&all);
        assert_eq!(decided.results[9_999..], [Ok(true), Err(ReactionRefusal::TooMany)]);
        assert_eq!(counts(&decided.summary), [("a", 10_000)]);
    }

    #[test]
    fn closed_messages_take_none() {
        let closed = ReactionState { open: [6].into(), ..state() };
        assert_eq!(closed.decide(&[add(7, "a")]).results, [Err(ReactionRefusal::NoMessage)]);
    }

    #[test]
    fn summary_comes_back_from_its_bytes() {
        let summary = state().decide(&[add(7, "👍"), add(8, "a")]).summary;
        let unpacked = ReactionSummary::unpack(summary.key, summary.version, &summary.pack());
        assert_eq!(unpacked.as_ref(), Some(&summary));
        assert_eq!(ReactionSummary::unpack(summary.key, summary.version, &summary.pack()[1..]), None);
        let without = summary.without(&[5, 6]).unwrap();
        assert!(without.of(5).is_empty() && without.version > summary.version);
        assert_eq!(without.without(&[5]), None);
    }
}
