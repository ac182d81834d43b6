//! Conversations whose last messages are not in all inboxes of their recipients.

use std::{collections::HashMap, time::Duration};

use kith_store::{ConversationId, Seq};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::Begun;
use crate::metric::MESSAGES_UNDELIVERED;

/// Most conversations. The messages of others are delivered with the next message of their conversation.
const MOST: usize = 10_000;
/// Pause before the next try.
const PAUSE: Duration = Duration::from_millis(500);
/// Conversations that are tried at one time.
pub(super) const REPEATED_AT_ONCE: usize = 16;

/// Of each conversation the highest number that could not be delivered.
#[derive(Debug, Default)]
pub(super) struct Pending {
    ends: Mutex<HashMap<ConversationId, End>>,
    noted: Notify,
}

#[derive(Debug, Default)]
struct End {
    last: Seq,
    begun: Begun,
}

impl Pending {
    /// The messages up to this number are not delivered.
    pub(super) fn note(&self, conversation: ConversationId, last: Seq, begun: Begun) {
        let mut ends = self.ends.lock();
        if ends.len() >= MOST && !ends.contains_key(&conversation) {
            tracing::warn!(
                "messages are delivered with the next one of their conversation: too many wait for their delivery"
            );
            return;
        }
        let end = ends.entry(conversation).or_default();
        end.last = last.max(end.last);
        end.begun.and(begun);
        show(ends.len());
        self.noted.notify_one();
    }

    /// The messages up to this number are delivered. Returns the steps that have ended with that.
    pub(super) fn done(&self, conversation: ConversationId, last: Seq) -> Option<Begun> {
        let mut ends = self.ends.lock();
        ends.get(&conversation).filter(|end| end.last <= last)?;
        let end = ends.remove(&conversation);
        show(ends.len());
        end.map(|end| end.begun)
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<(ConversationId, Seq)> {
        self.ends.lock().iter().map(|(conversation, end)| (*conversation, end.last)).collect()
    }

    /// Waits until there are some, and for the pause between two tries.
    pub(super) async fn wait(&self) {
        while self.ends.lock().is_empty() {
            self.noted.notified().await;
        }
        sleep(PAUSE.mul_f64(rand::random_range(0.5..1.0))).await;
    }
}

fn show(count: usize) {
    metrics::gauge!(MESSAGES_UNDELIVERED.name).set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
}

#[cfg(test)]
mod tests {
    use super::{super::super::sample::group, *};

    #[test]
    fn newest_end_is_pending_until_it_is_delivered() {
        let pending = Pending::default();
        pending.note(group(9), 7, Begun::default());
        pending.note(group(9), 5, Begun::default());
        assert_eq!(pending.all(), [(group(9), 7)]);
        assert!(pending.done(group(9), 6).is_none());
        assert_eq!(pending.all(), [(group(9), 7)], "an earlier message was delivered");
        assert!(pending.done(group(9), 8).is_some());
        assert_eq!(pending.all(), []);
    }

    #[test]
    fn pending_deliveries_are_bounded() {
        let pending = Pending::default();
        (1..=10_001).for_each(|id| pending.note(group(id), 1, Begun::default()));
        assert_eq!(pending.all().len(), MOST);
        pending.note(group(1), 2, Begun::default());
        assert!(pending.all().contains(&(group(1), 2)), "one that is known is noted");
    }
}
