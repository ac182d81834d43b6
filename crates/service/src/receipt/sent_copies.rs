//! Short-lived copies of message senders on this node.

use std::time::Duration;

use kith_store::{ConversationId, SentMessage, Seq, UserId};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::weighted_copies::WeightedCopies;

/// A number never changes its sender, but a database may be restored to an earlier state.
const AGE: Duration = Duration::from_secs(10);
/// Some 12,000 messages.
const WEIGHT_MAX: usize = 100_000;

/// The senders of the recently read messages, without events. Knows no caller's rights.
#[derive(Debug)]
pub(super) struct SentCopies(Mutex<WeightedCopies<(ConversationId, Seq), Option<CopiedSender>>>);

#[derive(Clone, Copy, Debug)]
struct CopiedSender {
    sender: Option<UserId>,
    since: Instant,
}

impl SentCopies {
    /// Creates it empty.
    pub(super) fn new() -> Self {
        Self(Mutex::new(WeightedCopies::new(WEIGHT_MAX)))
    }

    /// All these messages, by rising number; `None`: a message is unknown.
    pub(super) fn all(&self, conversation: ConversationId, seqs: &[Seq]) -> Option<Vec<SentMessage>> {
        let mut kept = self.0.lock();
        let known = |seq: &Seq| {
            let copied = kept.get((conversation, *seq)).filter(|copied| copied.since.elapsed() < AGE)?;
            Some(SentMessage { seq: *seq, sender: copied.sender })
        };
        let mut messages = seqs.iter().map(known).collect::<Option<Vec<_>>>()?;
        drop(kept);
        messages.sort_unstable_by_key(|message| message.seq);
        messages.dedup();
        Some(messages)
    }

    /// Keeps messages that were read after `since`.
    pub(super) fn note(&self, conversation: ConversationId, messages: &[SentMessage], since: Instant) {
        let mut kept = self.0.lock();
        for SentMessage { seq, sender } in messages.iter().copied() {
            kept.put((conversation, seq), Some(CopiedSender { sender, since }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> ConversationId {
        "g9".parse().unwrap()
    }

    fn message(seq: Seq) -> SentMessage {
        SentMessage { seq, sender: UserId::new(seq + 100).ok() }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_are_known_for_10_s() {
        let (copies, since) = (SentCopies::new(), Instant::now());
        copies.note(group(), &[message(5), message(7)], since);
        assert_eq!(copies.all(group(), &[7, 5, 7]), Some(vec![message(5), message(7)]));
        assert_eq!(copies.all(group(), &[5, 6]), None);
        assert_eq!(copies.all("g8".parse().unwrap(), &[5]), None);
        tokio::time::advance(AGE).await;
        assert_eq!(copies.all(group(), &[5]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_were_used_longest_ago_are_dropped() {
        let (copies, since) = (SentCopies::new(), Instant::now());
        for seq in 1..=20_000 {
            copies.note(group(), &[message(seq)], since);
        }
        assert_eq!(
            (copies.all(group(), &[1]), copies.all(group(), &[20_000])),
            (None, Some(vec![message(20_000)]))
        );
    }
}
