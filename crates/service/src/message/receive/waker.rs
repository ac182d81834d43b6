//! The events for which a receiver is woken.

use std::{mem, sync::Arc};

use kith_delivery::{Generation, Position, SentMessages};
use kith_store::Seq;
use parking_lot::Mutex;
use prost::bytes::Bytes;
use tokio::{sync::Notify, time::Instant};

use super::ReceiverLiveness;
use crate::notice::{AudienceTotals, TotalsListener};

/// Most signals that wait for one receiver; further ones are lost.
const SIGNALS_MAX: usize = 16;

/// An inbox entry, from a wake.
#[derive(Clone, Debug)]
pub(super) struct WokenEntry {
    pub(super) generation: Generation,
    pub(super) position: Position,
    /// `None`: the conversation is new to the inbox.
    pub(super) first: Option<Seq>,
    pub(super) fresh: FreshMessages,
}

/// An entry's order relative to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryOrder {
    /// The stream has it.
    Before,
    /// It is the next entry.
    Next,
    /// There are others before it, or it belongs to another inbox.
    Beyond,
}

/// Messages as they were sent, and when this node received them.
#[derive(Clone, Debug)]
pub(super) struct FreshMessages {
    pub(super) sent: Arc<SentMessages>,
    pub(super) received_at: Instant,
}

/// The work that waits for a receiver.
#[derive(Debug, Default)]
pub(super) struct ReceiverWork {
    /// The only entry since its last read.
    pub(super) entry: Option<WokenEntry>,
    /// There may be entries that no wake brought.
    pub(super) read: bool,
    /// The inbox has ended.
    pub(super) lost: bool,
    /// The inbox generation as this node renewed it.
    pub(super) generation: Option<Generation>,
    pub(super) signals: Vec<Bytes>,
    /// Conversations that the receiver reads without its inbox have messages up to these.
    pub(super) logs: Vec<FreshMessages>,
    /// Each audience's newest totals.
    pub(super) totals: Vec<AudienceTotals>,
}

/// Wakes one receiver. It holds no queue: for events while the receiver is busy, it only records that they
/// came.
#[derive(Debug, Default)]
pub(super) struct ReceiverWaker {
    work: Mutex<ReceiverWork>,
    updated: Notify,
    liveness: Arc<ReceiverLiveness>,
}

impl ReceiverWaker {
    pub(super) fn new(liveness: Arc<ReceiverLiveness>) -> Self {
        Self { liveness, ..Self::default() }
    }

    pub(super) fn liveness(&self) -> &ReceiverLiveness {
        &self.liveness
    }

    /// Waits until there is something to do.
    pub(super) async fn next_work(&self) -> ReceiverWork {
        loop {
            let work = mem::take(&mut *self.work.lock());
            if !work.is_empty() {
                return work;
            }
            self.updated.notified().await;
        }
    }

    /// An entry was written. A second entry is read from the inbox, together with the first.
    pub(super) fn add_entry(&self, entry: WokenEntry) {
        self.update(|work| match work.entry {
            None if !work.read => work.entry = Some(entry),
            None | Some(_) => (work.entry, work.read) = (None, true),
        });
    }

    pub(super) fn request_read(&self) {
        self.update(|work| (work.entry, work.read) = (None, true));
    }

    pub(super) fn inbox_lost(&self) {
        self.update(|work| work.lost = true);
    }

    pub(super) fn inbox_renewed(&self, generation: Generation) {
        self.update(|work| work.generation = Some(generation));
    }

    pub(super) fn add_signal(&self, signal: &Bytes) {
        self.update(|work| {
            if work.signals.len() < SIGNALS_MAX {
                work.signals.push(signal.clone());
            }
        });
    }

    /// A conversation has messages up to a number. The newest number in each conversation is kept.
    pub(super) fn add_log(&self, fresh: &FreshMessages) {
        self.update(|work| keep_newest(&mut work.logs, fresh));
    }

    fn update(&self, change: impl FnOnce(&mut ReceiverWork)) {
        change(&mut self.work.lock());
        self.updated.notify_one();
    }
}

impl TotalsListener for ReceiverWaker {
    fn changed(&self, totals: AudienceTotals) {
        self.update(|work| {
            work.totals.retain(|known| known.audience != totals.audience);
            work.totals.push(totals);
        });
    }
}

impl WokenEntry {
    /// Its order relative to a stream that has a generation's entries up to this one.
    pub(super) fn order(&self, generation: Generation, position: Position) -> EntryOrder {
        if self.generation != generation || self.position > position + 1 {
            return EntryOrder::Beyond;
        }
        if self.position > position { EntryOrder::Next } else { EntryOrder::Before }
    }
}

impl ReceiverWork {
    fn is_empty(&self) -> bool {
        let Self { entry, read, lost, generation, signals, logs, totals } = self;
        let has_lists = !(signals.is_empty() && logs.is_empty() && totals.is_empty());
        entry.is_none() && !read && !lost && generation.is_none() && !has_lists
    }
}

/// Adds a conversation's known end, unless a higher end is known.
pub(super) fn keep_newest(logs: &mut Vec<FreshMessages>, fresh: &FreshMessages) {
    let known = logs.iter_mut().find(|log| log.sent.conversation == fresh.sent.conversation);
    match known {
        Some(known) if known.sent.last < fresh.sent.last => *known = fresh.clone(),
        Some(_) => {}
        None => logs.push(fresh.clone()),
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{AudienceId, NoticeTotals, Timestamp};

    use super::*;

    fn fresh(conversation: &str, last: Seq) -> FreshMessages {
        let conversation = conversation.parse().unwrap();
        let sent = SentMessages { conversation, last, sent: Timestamp(0), entries: Vec::new() };
        FreshMessages { sent: Arc::new(sent), received_at: Instant::now() }
    }

    fn entry(position: Position) -> WokenEntry {
        let generation = Generation { epoch: 1, number: 1 };
        WokenEntry { generation, position, first: Some(1), fresh: fresh("g9", 1) }
    }

    #[test]
    fn only_the_next_entry_of_the_inbox_is_taken() {
        let (own, other) = (Generation { epoch: 1, number: 1 }, Generation { epoch: 1, number: 2 });
        let orders = [4, 5, 6, 7].map(|position| entry(position).order(own, 5));
        let expected = [EntryOrder::Before, EntryOrder::Before, EntryOrder::Next, EntryOrder::Beyond];
        assert_eq!(orders, expected);
        assert_eq!(entry(6).order(other, 5), EntryOrder::Beyond);
    }

    #[tokio::test]
    async fn one_entry_is_kept_and_more_are_read() {
        let waker = ReceiverWaker::default();
        waker.add_entry(entry(1));
        let work = waker.next_work().await;
        assert_eq!((work.entry.map(|entry| entry.position), work.read), (Some(1), false));
        (1..=3).for_each(|position| waker.add_entry(entry(position)));
        let work = waker.next_work().await;
        assert!(work.entry.is_none() && work.read);
        waker.add_entry(entry(4));
        waker.request_read();
        let work = waker.next_work().await;
        assert!(work.entry.is_none() && work.read, "it is among those that are read");
    }

    #[tokio::test]
    async fn signals_that_wait_are_bounded() {
        let waker = ReceiverWaker::default();
        (0..100).for_each(|_| waker.add_signal(&Bytes::from_static(b"x")));
        assert_eq!(waker.next_work().await.signals.len(), SIGNALS_MAX);
        assert!(futures::poll!(Box::pin(waker.next_work())).is_pending(), "it was taken");
    }

    #[tokio::test]
    async fn newest_totals_of_an_audience_are_kept() {
        let totals = |audience, unread| AudienceTotals {
            audience: AudienceId::new(audience).unwrap(),
            totals: NoticeTotals { unread, ..NoticeTotals::default() },
        };
        let waker = ReceiverWaker::default();
        for (audience, unread) in [(1, 5), (2, 1), (1, 4)] {
            waker.changed(totals(audience, unread));
        }
        assert_eq!(waker.next_work().await.totals, [totals(2, 1), totals(1, 4)]);
        assert!(futures::poll!(Box::pin(waker.next_work())).is_pending(), "it was taken");
    }

    #[tokio::test]
    async fn newest_end_of_a_conversation_is_kept() {
        let waker = ReceiverWaker::default();
        for (conversation, last) in [("g9", 5), ("g8", 1), ("g9", 7), ("g9", 6)] {
            waker.add_log(&fresh(conversation, last));
        }
        let logs = waker.next_work().await.logs;
        let kept: Vec<_> =
            logs.iter().map(|log| (log.sent.conversation.to_string(), log.sent.last)).collect();
        assert_eq!(kept, [("g9".to_owned(), 7), ("g8".to_owned(), 1)]);
    }
}
