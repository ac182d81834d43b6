//! The conversations that a stream reads itself: how far it has everything from the inbox, and what was sent.

use std::{collections::HashMap, mem};

use kith_delivery::{Marks, Position};
use kith_store::{ConversationId, Seq};

use super::{
    named_logs::NamedLogs,
    waker::{FreshMessages, keep_newest},
};

/// The conversations that a stream reads itself.
#[derive(Debug, Default)]
pub(super) struct TrackedLogs {
    pub(super) all: HashMap<ConversationId, TrackedLog>,
    pub(super) named: NamedLogs,
    pub(super) new_ends: Vec<FreshMessages>,
    /// Whether these conversations' list must be read.
    pub(super) must_track: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TrackedLog {
    /// The inbox has everything up to this number, in entries up to this position.
    base: Seq,
    base_at: Position,
    /// The highest number that was sent since; 0: none.
    sent: Seq,
}

impl TrackedLogs {
    /// Creates it without conversations; the list must be read.
    pub(super) fn unknown() -> Self {
        Self { must_track: true, ..Self::default() }
    }

    /// Messages were sent to these conversations.
    pub(super) fn add_ends(&mut self, logs: &[FreshMessages]) {
        logs.iter().for_each(|fresh| keep_newest(&mut self.new_ends, fresh));
    }

    pub(super) const fn has_new_ends(&self) -> bool {
        !self.new_ends.is_empty()
    }

    /// The number up to which the conversation is sent, or will be by inbox entries.
    pub(super) fn end(&self, conversation: ConversationId) -> Seq {
        let tracked = self.all.get(&conversation).map(|log| log.base.max(log.sent));
        tracked.or_else(|| self.named.up_to(conversation)).unwrap_or(Seq::MAX)
    }

    /// The number up to which the conversation was sent since the stream reads it; 0: nothing was.
    pub(super) fn sent_up_to(&self, conversation: ConversationId) -> Seq {
        let tracked = self.all.get(&conversation).map(|log| log.sent);
        tracked.or_else(|| self.named.up_to(conversation)).unwrap_or(0)
    }

    pub(super) fn sent(&mut self, conversation: ConversationId, seq: Seq) {
        match self.all.get_mut(&conversation) {
            Some(log) => log.sent = seq.max(log.sent),
            None => self.named.raise(conversation, seq),
        }
    }

    pub(super) fn all_sent(&self) -> impl Iterator<Item = (ConversationId, Seq)> {
        self.all.iter().map(|(conversation, log)| (*conversation, log.sent)).filter(|(_, sent)| *sent > 0)
    }

    pub(super) fn add(&mut self, conversations: &[ConversationId], marks: &Marks) {
        for (conversation, mark) in conversations.iter().zip(&marks.marks) {
            let log = TrackedLog { base: *mark, base_at: marks.position, sent: 0 };
            self.all.insert(*conversation, log);
        }
    }

    /// Takes the ends of conversations for which the stream has all entries up to the base. `position`: the
    /// stream's position.
    pub(super) fn take_ready(&mut self, position: Position) -> Vec<FreshMessages> {
        let (ready, waiting) = mem::take(&mut self.new_ends)
            .into_iter()
            .filter(|fresh| self.end(fresh.sent.conversation) < fresh.sent.last)
            .partition(|fresh| {
                self.all.get(&fresh.sent.conversation).is_none_or(|log| log.base_at <= position)
            });
        self.new_ends = waiting;
        ready
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kith_delivery::SentMessages;
    use kith_store::Timestamp;
    use tokio::time::Instant;

    use super::*;

    fn fresh(conversation: ConversationId, last: Seq) -> FreshMessages {
        let sent = SentMessages { conversation, last, sent: Timestamp(0), entries: Vec::new() };
        FreshMessages { sent: Arc::new(sent), received_at: Instant::now() }
    }

    #[test]
    fn end_waits_for_the_entries_up_to_the_base() {
        let conversation: ConversationId = "g9".parse().unwrap();
        let mut logs = TrackedLogs::default();
        logs.add(
            &[conversation],
            &Marks { marks: vec![3], position: 5, conversations: 1, wakes: Vec::new() },
        );
        logs.add_ends(&[fresh(conversation, 4)]);
        assert!(logs.take_ready(4).is_empty(), "entries up to the base are missing");
        let ready = logs.take_ready(5);
        assert_eq!(ready.iter().map(|fresh| fresh.sent.last).collect::<Vec<_>>(), [4]);
        assert!(!logs.has_new_ends());
    }
}
