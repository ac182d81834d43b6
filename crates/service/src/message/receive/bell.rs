//! The events for which a receiver is woken.

use std::{mem, sync::Arc};

use kith_delivery::{Generation, Position, SentMessages};
use kith_store::Seq;
use parking_lot::Mutex;
use prost::bytes::Bytes;
use tokio::{sync::Notify, time::Instant};

use crate::notice::{AudienceTotals, TotalsListener};

/// Most signals that wait for one receiver; further ones are lost.
const SIGNALS_MAX: usize = 16;

/// An entry of the inbox, from a wake.
#[derive(Clone, Debug)]
pub(super) struct WokenEntry {
    pub(super) generation: Generation,
    pub(super) position: Position,
    /// `None`: the conversation is new to the inbox.
    pub(super) first: Option<Seq>,
    pub(super) fresh: Fresh,
}

/// The position of an entry relative to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryPlace {
    /// The stream has it.
    Before,
    /// It is the next one.
    Next,
    /// There are others before it, or it belongs to another inbox.
    Beyond,
}

/// Messages as they were sent, and when this node received them.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub(super) sent: Arc<SentMessages>,
    pub(super) heard: Instant,
}

/// The work of a receiver.
#[derive(Debug, Default)]
pub(super) struct ReceiverWork {
    /// The only entry since its last read.
    pub(super) entry: Option<WokenEntry>,
    /// There may be entries that no wake brought.
    pub(super) read: bool,
    /// The inbox has ended.
    pub(super) lost: bool,
    /// The generation of the inbox as this node renewed it.
    pub(super) generation: Option<Generation>,
    pub(super) signals: Vec<Bytes>,
    /// Conversations that the receiver reads without its inbox have messages up to these.
    pub(super) logs: Vec<Fresh>,
    /// The newest totals of each audience.
    pub(super) totals: Vec<AudienceTotals>,
}

/// Wakes one receiver. It holds no queue: for events while the receiver is busy, it only records that they came.
#[derive(Debug, Default)]
pub(super) struct Bell {
    news: Mutex<ReceiverWork>,
    rung: Notify,
}

impl Bell {
    /// Waits until there is something to do.
    pub(super) async fn news(&self) -> ReceiverWork {
        loop {
            let news = mem::take(&mut *self.news.lock());
            if !news.is_empty() {
                return news;
            }
            self.rung.notified().await;
        }
    }

    /// An entry was written. A second one is read from the inbox, together with the first.
    pub(super) fn entry(&self, entry: WokenEntry) {
        self.ring(|news| match news.entry {
            None if !news.read => news.entry = Some(entry),
            None | Some(_) => (news.entry, news.read) = (None, true),
        });
    }

    pub(super) fn read(&self) {
        self.ring(|news| (news.entry, news.read) = (None, true));
    }

    pub(super) fn lost(&self) {
        self.ring(|news| news.lost = true);
    }

    pub(super) fn renewed(&self, generation: Generation) {
        self.ring(|news| news.generation = Some(generation));
    }

    pub(super) fn signal(&self, signal: &Bytes) {
        self.ring(|news| {
            if news.signals.len() < SIGNALS_MAX {
                news.signals.push(signal.clone());
            }
        });
    }

    /// A conversation has messages up to a number. Of each conversation the newest is kept.
    pub(super) fn log(&self, fresh: &Fresh) {
        self.ring(|news| keep_newest(&mut news.logs, fresh));
    }

    fn ring(&self, change: impl FnOnce(&mut ReceiverWork)) {
        change(&mut self.news.lock());
        self.rung.notify_one();
    }
}

impl TotalsListener for Bell {
    fn changed(&self, totals: AudienceTotals) {
        self.ring(|news| {
            news.totals.retain(|known| known.audience != totals.audience);
            news.totals.push(totals);
        });
    }
}

impl WokenEntry {
    /// Its position relative to a stream that has the entries of a generation up to this one.
    pub(super) fn place(&self, generation: Generation, position: Position) -> EntryPlace {
        if self.generation != generation || self.position > position + 1 {
            return EntryPlace::Beyond;
        }
        if self.position > position { EntryPlace::Next } else { EntryPlace::Before }
    }
}

impl ReceiverWork {
    fn is_empty(&self) -> bool {
        let Self { entry, read, lost, generation, signals, logs, totals } = self;
        let has_lists = !(signals.is_empty() && logs.is_empty() && totals.is_empty());
        entry.is_none() && !read && !lost && generation.is_none() && !has_lists
    }
}

/// Adds the known end of a conversation, unless a higher one is known.
pub(super) fn keep_newest(logs: &mut Vec<Fresh>, fresh: &Fresh) {
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

    fn fresh(conversation: &str, last: Seq) -> Fresh {
        let conversation = conversation.parse().unwrap();
        let sent = SentMessages { conversation, last, sent: Timestamp(0), entries: Vec::new() };
        Fresh { sent: Arc::new(sent), heard: Instant::now() }
    }

    fn entry(position: Position) -> WokenEntry {
        let generation = Generation { epoch: 1, number: 1 };
        WokenEntry { generation, position, first: Some(1), fresh: fresh("g9", 1) }
    }

    #[test]
    fn only_the_next_entry_of_the_inbox_is_taken() {
        let (own, other) = (Generation { epoch: 1, number: 1 }, Generation { epoch: 1, number: 2 });
        let places = [4, 5, 6, 7].map(|position| entry(position).place(own, 5));
        let expected = [EntryPlace::Before, EntryPlace::Before, EntryPlace::Next, EntryPlace::Beyond];
        assert_eq!(places, expected);
        assert_eq!(entry(6).place(other, 5), EntryPlace::Beyond);
    }

    #[tokio::test]
    async fn one_entry_is_kept_and_more_are_read() {
        let bell = Bell::default();
        bell.entry(entry(1));
        let news = bell.news().await;
        assert_eq!((news.entry.map(|entry| entry.position), news.read), (Some(1), false));
        (1..=3).for_each(|position| bell.entry(entry(position)));
        let news = bell.news().await;
        assert!(news.entry.is_none() && news.read);
        bell.entry(entry(4));
        bell.read();
        let news = bell.news().await;
        assert!(news.entry.is_none() && news.read, "it is among those that are read");
    }

    #[tokio::test]
    async fn signals_that_wait_are_bounded() {
        let bell = Bell::default();
        (0..100).for_each(|_| bell.signal(&Bytes::from_static(b"x")));
        assert_eq!(bell.news().await.signals.len(), SIGNALS_MAX);
        assert!(futures::poll!(Box::pin(bell.news())).is_pending(), "it was taken");
    }

    #[tokio::test]
    async fn newest_totals_of_an_audience_are_kept() {
        let totals = |audience, unread| AudienceTotals {
            audience: AudienceId::new(audience).unwrap(),
            totals: NoticeTotals { unread, ..NoticeTotals::default() },
        };
        let bell = Bell::default();
        for (audience, unread) in [(1, 5), (2, 1), (1, 4)] {
            bell.changed(totals(audience, unread));
        }
        assert_eq!(bell.news().await.totals, [totals(2, 1), totals(1, 4)]);
        assert!(futures::poll!(Box::pin(bell.news())).is_pending(), "it was taken");
    }

    #[tokio::test]
    async fn newest_end_of_a_conversation_is_kept() {
        let bell = Bell::default();
        for (conversation, last) in [("g9", 5), ("g8", 1), ("g9", 7), ("g9", 6)] {
            bell.log(&fresh(conversation, last));
        }
        let logs = bell.news().await.logs;
        let kept: Vec<_> =
            logs.iter().map(|log| (log.sent.conversation.to_string(), log.sent.last)).collect();
        assert_eq!(kept, [("g9".to_owned(), 7), ("g8".to_owned(), 1)]);
    }
}
