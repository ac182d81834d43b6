//! Appends by this node that are in the store and could not be added to their conversation's window.

use std::collections::HashMap;

use kith_cache::UNSEEN_KEPT;
use kith_store::{ConversationId, Seq};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The most conversations that are remembered. For others a read on this node may be as old as on another
/// node.
const MOST: usize = 10_000;

/// Log ends that windows may not know.
#[derive(Debug, Default)]
pub(super) struct UnseenEnds(Mutex<HashMap<ConversationId, UnseenEnd>>);

#[derive(Clone, Copy, Debug)]
struct UnseenEnd {
    end: Seq,
    at: Instant,
}

impl UnseenEnds {
    /// A number up to which the log is known to have messages; 0: nothing is noted.
    pub(super) fn end(&self, conversation: ConversationId) -> Seq {
        let ends = self.0.lock();
        let noted = ends.get(&conversation).filter(|noted| noted.at.elapsed() < UNSEEN_KEPT);
        noted.map_or(0, |noted| noted.end)
    }

    /// The window may not have this message.
    pub(super) fn note(&self, conversation: ConversationId, seq: Seq) {
        let mut ends = self.0.lock();
        if ends.len() >= MOST {
            ends.retain(|_, noted| noted.at.elapsed() < UNSEEN_KEPT);
        }
        if ends.len() < MOST || ends.contains_key(&conversation) {
            let end = ends.get(&conversation).map_or(seq, |noted| noted.end.max(seq));
            ends.insert(conversation, UnseenEnd { end, at: Instant::now() });
        }
    }

    /// The window has this message.
    pub(super) fn forget(&self, conversation: ConversationId, seq: Seq) {
        let mut ends = self.0.lock();
        if ends.get(&conversation).is_some_and(|noted| noted.end <= seq) {
            ends.remove(&conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::sample::group, *};

    #[tokio::test(start_paused = true)]
    async fn noted_end_is_known_until_the_window_has_it() {
        let unseen = UnseenEnds::default();
        unseen.note(group(9), 7);
        unseen.note(group(9), 5);
        assert_eq!((unseen.end(group(9)), unseen.end(group(8))), (7, 0));
        unseen.forget(group(9), 6);
        assert_eq!(unseen.end(group(9)), 7, "a message before it was added");
        unseen.forget(group(9), 7);
        assert_eq!(unseen.end(group(9)), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn noted_ends_are_bounded() {
        let unseen = UnseenEnds::default();
        (1..=10_001).for_each(|id| unseen.note(group(id), 1));
        assert_eq!((unseen.end(group(10_000)), unseen.end(group(10_001))), (1, 0));
        unseen.note(group(1), 2);
        assert_eq!(unseen.end(group(1)), 2, "one that is known is noted");
        tokio::time::advance(UNSEEN_KEPT).await;
        assert_eq!(unseen.end(group(1)), 0);
        unseen.note(group(10_001), 1);
        assert_eq!(unseen.end(group(10_001)), 1);
    }
}
