//! Conversations whose last messages are not in all recipients' inboxes.

use std::{collections::HashMap, time::Duration};

use kith_store::{ConversationId, Seq};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::NotedSteps;
use crate::metric::{MESSAGES_UNDELIVERED, as_f64};

/// The most conversations. Messages in others are delivered with the next message in their conversation.
const MOST: usize = 10_000;
/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// Conversations that are retried at the same time.
pub(super) const RETRIED_AT_ONCE: usize = 16;

/// A conversation's undelivered messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UndeliveredMessages {
    /// The highest number.
    pub(super) last: Seq,
    /// The lowest number of a message whose recipients without a receiver are not entered; `None`: all are.
    pub(super) unannounced: Option<Seq>,
}

/// Each conversation's undelivered messages.
#[derive(Debug, Default)]
pub(super) struct PendingDeliveries {
    ends: Mutex<HashMap<ConversationId, PendingConversation>>,
    noted: Notify,
}

#[derive(Debug, Default)]
struct PendingConversation {
    due: UndeliveredMessages,
    steps: NotedSteps,
}

impl PendingDeliveries {
    /// Records that these messages are not delivered.
    pub(super) fn note(&self, conversation: ConversationId, due: UndeliveredMessages, steps: NotedSteps) {
        let mut ends = self.ends.lock();
        if ends.len() >= MOST && !ends.contains_key(&conversation) {
            tracing::warn!(
                "messages are delivered with the next one of their conversation: too many wait for their delivery"
            );
            return;
        }
        let end = ends.entry(conversation).or_default();
        end.due.add(due);
        end.steps.merge(steps);
        show(ends.len());
        self.noted.notify_one();
    }

    /// Records that these messages are delivered. Returns the steps that have ended by it.
    pub(super) fn done(&self, conversation: ConversationId, done: UndeliveredMessages) -> Option<NotedSteps> {
        let mut ends = self.ends.lock();
        ends.get(&conversation).filter(|end| end.due.is_within(done))?;
        let end = ends.remove(&conversation);
        show(ends.len());
        end.map(|end| end.steps)
    }

    /// Whether a note in the store counts for what is appended to the conversation now.
    pub(super) fn is_in_store(&self, conversation: ConversationId) -> bool {
        self.ends.lock().get(&conversation).is_some_and(|end| end.steps.counts_in_store())
    }

    pub(super) fn all(&self) -> Vec<(ConversationId, UndeliveredMessages)> {
        self.ends.lock().iter().map(|(conversation, end)| (*conversation, end.due)).collect()
    }

    /// Waits until there are some, and for the pause between two attempts.
    pub(super) async fn wait(&self) {
        while self.ends.lock().is_empty() {
            self.noted.notified().await;
        }
        sleep(PAUSE.mul_f64(rand::random_range(0.5..1.0))).await;
    }
}

impl UndeliveredMessages {
    fn add(&mut self, other: Self) {
        self.last = other.last.max(self.last);
        self.unannounced = [self.unannounced, other.unannounced].into_iter().flatten().min();
    }

    /// Whether everything here is delivered when `other` is.
    fn is_within(self, other: Self) -> bool {
        let is_announced =
            self.unannounced.is_none_or(|first| other.unannounced.is_some_and(|other| other <= first));
        self.last <= other.last && is_announced
    }
}

fn show(count: usize) {
    metrics::gauge!(MESSAGES_UNDELIVERED.name).set(as_f64(count));
}

#[cfg(test)]
mod tests {
    use super::{super::super::sample::group, *};

    const fn up_to(last: Seq) -> UndeliveredMessages {
        UndeliveredMessages { last, unannounced: None }
    }

    const fn from(first: Seq, last: Seq) -> UndeliveredMessages {
        UndeliveredMessages { last, unannounced: Some(first) }
    }

    #[test]
    fn newest_end_is_pending_until_it_is_delivered() {
        let pending = PendingDeliveries::default();
        pending.note(group(9), up_to(7), NotedSteps::default());
        pending.note(group(9), up_to(5), NotedSteps::default());
        assert_eq!(pending.all(), [(group(9), up_to(7))]);
        assert!(pending.done(group(9), up_to(6)).is_none());
        assert_eq!(pending.all(), [(group(9), up_to(7))], "an earlier message was delivered");
        assert!(pending.done(group(9), up_to(8)).is_some());
        assert_eq!(pending.all(), []);
    }

    #[test]
    fn unannounced_messages_stay_pending() {
        let pending = PendingDeliveries::default();
        pending.note(group(9), from(6, 7), NotedSteps::default());
        pending.note(group(9), from(4, 5), NotedSteps::default());
        assert_eq!(pending.all(), [(group(9), from(4, 7))]);
        assert!(pending.done(group(9), up_to(8)).is_none(), "a later message was delivered");
        assert!(pending.done(group(9), from(6, 8)).is_none(), "the first one is left");
        assert!(pending.done(group(9), from(4, 7)).is_some());
    }

    #[test]
    fn pending_deliveries_are_bounded() {
        let pending = PendingDeliveries::default();
        (1..=10_001).for_each(|id| pending.note(group(id), up_to(1), NotedSteps::default()));
        assert_eq!(pending.all().len(), MOST);
        pending.note(group(1), up_to(2), NotedSteps::default());
        assert!(pending.all().contains(&(group(1), up_to(2))), "one that is known is noted");
    }
}
