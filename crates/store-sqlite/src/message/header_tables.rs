//! Keeps the headers of each log's last messages in memory, so that a list with unread messages does not read
//! their rows again.
//!
//! An append leaves earlier headers as they are: a reader adds the new headers. A write that changes or
//! removes a message counts a change of its log after the commit and before the answer. A table belongs to
//! the count that was read before its rows were, so a read that began before a change can neither use nor
//! leave a table without it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kith_store::{ConversationId, Seq, StoredHeader, UserId};
use moka::sync::Cache;

use crate::row::size;

/// Bytes of all tables.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes of a table besides its headers, with its place in the cache.
const TABLE_BYTES: usize = 300;
/// Counts of changes. Logs share them: a change of another log costs a read of the rows.
const COUNTS: u64 = 1_024;

const SILENT: u8 = 1;
const RECALLED: u8 = 2;
const MENTION_ALL: u8 = 4;

/// The tables by their logs. Cheap to share.
#[derive(Debug)]
pub(crate) struct HeaderTables {
    tables: Cache<ConversationId, Arc<HeaderTable>>,
    changes: Box<[AtomicU64]>,
}

/// A count of changes, as it was before a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeCount(u64);

/// Headers of messages with consecutive numbers.
#[derive(Debug)]
pub(crate) struct HeaderTable {
    changes: ChangeCount,
    first: Seq,
    /// The senders' ids; 0 for a service.
    senders: Box<[i64]>,
    flags: Box<[u8]>,
    /// The mentions by rising message number.
    mentions: Box<[(Seq, UserId)]>,
}

/// Counts a change of a log when it is dropped: with the answer, or with the rest of a cancelled call.
#[derive(Debug)]
pub(crate) struct CountedChange {
    tables: Arc<HeaderTables>,
    log: ConversationId,
}

impl Drop for CountedChange {
    fn drop(&mut self) {
        self.tables.count_of(self.log).fetch_add(1, Ordering::SeqCst);
    }
}

impl Default for HeaderTables {
    fn default() -> Self {
        let weigher = |_: &ConversationId, table: &Arc<HeaderTable>| {
            u32::try_from(TABLE_BYTES + table.bytes()).unwrap_or(u32::MAX)
        };
        let tables = Cache::builder().max_capacity(BYTES_MAX).weigher(weigher).build();
        Self { tables, changes: (0..COUNTS).map(|_| AtomicU64::default()).collect() }
    }
}

impl HeaderTables {
    /// Returns the count of changes. Must be read before the log's rows.
    pub(crate) fn changes(&self, log: ConversationId) -> ChangeCount {
        ChangeCount(self.count_of(log).load(Ordering::SeqCst))
    }

    /// Returns a guard that counts a change. Must be dropped after the commit of a change or removal, and
    /// before its answer.
    pub(crate) fn changing(self: &Arc<Self>, log: ConversationId) -> CountedChange {
        CountedChange { tables: Arc::clone(self), log }
    }

    /// The table of a log that has not changed since `changes` was read.
    pub(crate) fn get(&self, log: ConversationId, changes: ChangeCount) -> Option<Arc<HeaderTable>> {
        self.tables.get(&log).filter(|table| table.changes == changes)
    }

    /// Keeps the headers that were read after `changes` was. Headers with gaps are not kept.
    pub(crate) fn put(&self, log: ConversationId, changes: ChangeCount, headers: &[StoredHeader]) {
        if let Some(table) = HeaderTable::of(changes, headers) {
            self.tables.insert(log, Arc::new(table));
        }
    }

    fn count_of(&self, log: ConversationId) -> &AtomicU64 {
        let number = match log {
            ConversationId::Direct(one, other) => one.get().wrapping_mul(31).wrapping_add(other.get()),
            ConversationId::Group(group) => group.get(),
            ConversationId::Offline(number) => number.into(),
        };
        let index = usize::try_from(number.unsigned_abs() % COUNTS).unwrap_or(0);
        &self.changes[index]
    }
}

impl HeaderTable {
    /// Creates a table; `None`: there are no headers, or they have gaps.
    fn of(changes: ChangeCount, headers: &[StoredHeader]) -> Option<Self> {
        let first = headers.first()?.seq;
        let is_whole = (first..).zip(headers).all(|(seq, header)| header.seq == seq);
        let mentions =
            headers.iter().flat_map(|header| header.mentions.iter().map(|user| (header.seq, *user)));
        is_whole.then(|| Self {
            changes,
            first,
            senders: headers.iter().map(|header| header.sender.map_or(0, UserId::get)).collect(),
            flags: headers.iter().map(flags).collect(),
            mentions: mentions.collect(),
        })
    }

    /// The number of the first message.
    pub(crate) const fn first(&self) -> Seq {
        self.first
    }

    /// The number of the last message.
    pub(crate) fn last(&self) -> Seq {
        self.first + size(self.flags.len()) - 1
    }

    /// The headers from a number on.
    pub(crate) fn from(&self, first: Seq) -> impl Iterator<Item = StoredHeader> {
        let all = (self.first..).zip(&self.senders).zip(&self.flags);
        let wanted = all.skip_while(move |((seq, _), _)| *seq < first);
        wanted.map(|((seq, sender), flags)| StoredHeader {
            seq,
            sender: UserId::new(*sender).ok(),
            silent: flags & SILENT != 0,
            recalled: flags & RECALLED != 0,
            mentions: self.mentions_of(seq),
            mention_all: flags & MENTION_ALL != 0,
        })
    }

    fn mentions_of(&self, seq: Seq) -> Vec<UserId> {
        let from = self.mentions.partition_point(|(of, _)| *of < seq);
        self.mentions[from..].iter().take_while(|(of, _)| *of == seq).map(|(_, user)| *user).collect()
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.senders) + size_of_val(&*self.flags) + size_of_val(&*self.mentions)
    }
}

fn flags(header: &StoredHeader) -> u8 {
    let flags = [(header.silent, SILENT), (header.recalled, RECALLED), (header.mention_all, MENTION_ALL)];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
}
