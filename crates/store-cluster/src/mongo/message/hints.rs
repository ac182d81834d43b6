//! Hints: the tails of logs that this node knows.

use std::collections::HashMap;

use kith_store::ConversationId;
use parking_lot::Mutex;

/// At least this many recently used conversations are kept, and at most twice as many, some 50 bytes each.
const KEPT: usize = 50_000;

/// Keeps a document's number for each conversation, but neither its size, nor a permission to create the next
/// document.
///
/// A hint may have any age. The document may be full, or deleted, and others may follow it.
#[derive(Debug, Default)]
pub(in crate::mongo) struct Hints(Mutex<Generations>);

/// Conversations used since `recent` was last full, and those before.
#[derive(Debug, Default)]
struct Generations {
    recent: HashMap<ConversationId, i64>,
    earlier: HashMap<ConversationId, i64>,
}

impl Hints {
    /// The last known document, if any.
    pub(super) fn get(&self, conversation: ConversationId) -> Option<i64> {
        let mut generations = self.0.lock();
        if let Some(document) = generations.recent.get(&conversation) {
            return Some(*document);
        }
        let document = generations.earlier.remove(&conversation)?;
        generations.insert(conversation, document);
        Some(document)
    }

    /// Adds an existing document. A document before the known document is ignored.
    pub(super) fn set(&self, conversation: ConversationId, document: i64) {
        let mut generations = self.0.lock();
        let earlier = generations.earlier.remove(&conversation);
        let known = generations.recent.get(&conversation).copied().or(earlier);
        generations.insert(conversation, known.unwrap_or(document).max(document));
    }

    /// Removes a hint that did not help.
    pub(super) fn forget(&self, conversation: ConversationId) {
        let mut generations = self.0.lock();
        generations.recent.remove(&conversation);
        generations.earlier.remove(&conversation);
    }
}

impl Generations {
    fn insert(&mut self, conversation: ConversationId, document: i64) {
        if self.recent.len() >= KEPT && !self.recent.contains_key(&conversation) {
            self.earlier = std::mem::take(&mut self.recent);
        }
        self.recent.insert(conversation, document);
    }
}

#[cfg(test)]
mod tests {
    use kith_store::GroupId;

    use super::*;

    fn log(group: usize) -> ConversationId {
        ConversationId::Group(GroupId::new(i64::try_from(group).unwrap()).unwrap())
    }

    #[test]
    fn later_document_is_kept() {
        let hints = Hints::default();
        assert_eq!(hints.get(log(9)), None);
        for (document, known) in [(3, 3), (2, 3), (4, 4)] {
            hints.set(log(9), document);
            assert_eq!(hints.get(log(9)), Some(known));
        }
        hints.forget(log(9));
        assert_eq!(hints.get(log(9)), None);
        hints.set(log(9), 1);
        assert_eq!(hints.get(log(9)), Some(1));
    }

    #[test]
    fn hints_are_bounded_and_the_last_used_are_kept() {
        let hints = Hints::default();
        for group in 1..=5 * KEPT {
            hints.set(log(group), 7);
            assert_eq!(hints.get(log(1)), Some(7), "it is used all the time");
        }
        let generations = hints.0.lock();
        assert!(generations.recent.len() + generations.earlier.len() <= 2 * KEPT);
        drop(generations);
        assert!((4 * KEPT + 2..=5 * KEPT).all(|group| hints.get(log(group)) == Some(7)));
        assert_eq!(hints.get(log(2)), None);
    }

    #[test]
    fn earlier_generation_is_used_forgotten_raised() {
        let hints = Hints::default();
        for group in 1..=KEPT + 1 {
            hints.set(log(group), 7);
        }
        hints.set(log(1), 3);
        assert_eq!(hints.get(log(1)), Some(7), "an earlier document than is known");
        hints.forget(log(2));
        assert_eq!((hints.get(log(2)), hints.get(log(3))), (None, Some(7)));
    }
}
