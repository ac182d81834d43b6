//! Keeps the headers of each log's last messages and its last message in memory, so that a list does not read
//! their rows again.
//!
//! A write counts itself in its log after the commit and before the answer. A table belongs to the counts
//! that were read before its rows were, so a read that began before a write can neither use nor leave a table
//! without it. An append leaves earlier headers as they are: a reader adds the new headers. A write that
//! changes or removes a message has a separate count, after which nothing in the table is used.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kith_store::{ConversationId, DOCUMENT, LogHead, Message, Seq, StoredHeader, UserId};
use moka::sync::Cache;

use crate::row::size;

/// Bytes of all tables.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes of a table besides its headers, with its place in the cache.
const TABLE_BYTES: usize = 300;
/// Counts of changes. Logs share them: a change of another log costs a read of the rows.
const CHANGE_COUNTS: u64 = 1_024;
/// Append counts. Logs share them: an append to another log costs a read of the last row.
const APPEND_COUNTS: u64 = 65_536;

const SILENT: u8 = 1;
const RECALLED: u8 = 2;
const MENTION_ALL: u8 = 4;

/// The tables by their logs. Cheap to share.
#[derive(Debug)]
pub(crate) struct HeaderTables {
    tables: Cache<ConversationId, Arc<HeaderTable>>,
    changes: Box<[AtomicU64]>,
    appends: Box<[AtomicU64]>,
}

/// A log's counts, as they were before a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogCounts {
    changes: u64,
    appends: u64,
}

/// A log's last message, and headers with consecutive message numbers up to it.
#[derive(Debug)]
pub(crate) struct HeaderTable {
    counts: LogCounts,
    last: Message,
    first: Seq,
    /// The senders' ids; 0 for a service.
    senders: Box<[i64]>,
    flags: Box<[u8]>,
    /// The mentions by rising message number.
    mentions: Box<[(Seq, UserId)]>,
}

/// Counts a write to a log when it is dropped: with the answer, or after a cancelled call.
#[derive(Debug)]
pub(crate) struct CountedWrite {
    tables: Arc<HeaderTables>,
    log: ConversationId,
    kind: WriteKind,
}

#[derive(Clone, Copy, Debug)]
enum WriteKind {
    Append,
    /// Changes or removes messages, and may append an event.
    Change,
}

impl Drop for CountedWrite {
    fn drop(&mut self) {
        self.tables.count_of(self.log, self.kind).fetch_add(1, Ordering::SeqCst);
    }
}

impl Default for HeaderTables {
    fn default() -> Self {
        let weigher = |_: &ConversationId, table: &Arc<HeaderTable>| {
            u32::try_from(TABLE_BYTES + table.bytes()).unwrap_or(u32::MAX)
        };
        let tables = Cache::builder().max_capacity(BYTES_MAX).weigher(weigher).build();
        let counts = |count| (0..count).map(|_| AtomicU64::default()).collect();
        Self { tables, changes: counts(CHANGE_COUNTS), appends: counts(APPEND_COUNTS) }
    }
}

impl HeaderTables {
    /// Returns the log's counts. Must be read before its rows.
    pub(crate) fn counts(&self, log: ConversationId) -> LogCounts {
        let count = |kind| self.count_of(log, kind).load(Ordering::SeqCst);
        LogCounts { changes: count(WriteKind::Change), appends: count(WriteKind::Append) }
    }

    /// Returns a guard that counts a change. Must be dropped after the commit of a change or removal, and
    /// before its answer.
    pub(crate) fn changing(self: &Arc<Self>, log: ConversationId) -> CountedWrite {
        CountedWrite { tables: Arc::clone(self), log, kind: WriteKind::Change }
    }

    /// Like [`Self::changing`], for an append.
    pub(crate) fn appending(self: &Arc<Self>, log: ConversationId) -> CountedWrite {
        CountedWrite { tables: Arc::clone(self), log, kind: WriteKind::Append }
    }

    /// The log's head with the headers above a number; `None`: its rows must be read.
    pub(crate) fn head(&self, log: ConversationId, above: Seq) -> Option<LogHead> {
        let counts = self.counts(log);
        let table = self.tables.get(&log).filter(|table| table.counts == counts)?;
        let first = above.saturating_add(1).max(table.last() - DOCUMENT + 1).max(1);
        let headers = if first <= table.last() { table.from(first).collect() } else { Vec::new() };
        (headers.is_empty() || table.first <= first)
            .then(|| LogHead { last: Some(table.last.clone()), headers })
    }

    /// A log's table in which nothing was changed or removed since the counts were read.
    pub(crate) fn get(&self, log: ConversationId, counts: LogCounts) -> Option<Arc<HeaderTable>> {
        self.tables.get(&log).filter(|table| table.counts.changes == counts.changes)
    }

    /// Keeps a log's last message and the headers up to it, which were read after the counts were. Headers
    /// with gaps are not kept.
    pub(crate) fn put(
        &self,
        log: ConversationId,
        counts: LogCounts,
        headers: &[StoredHeader],
        last: &Message,
    ) {
        if let Some(table) = HeaderTable::of(counts, headers, last) {
            self.tables.insert(log, Arc::new(table));
        }
    }

    fn count_of(&self, log: ConversationId, kind: WriteKind) -> &AtomicU64 {
        let number = match log {
            ConversationId::Direct(one, other) => one.get().wrapping_mul(31).wrapping_add(other.get()),
            ConversationId::Group(group) => group.get(),
            ConversationId::Offline(number) => number.into(),
        };
        let (counts, count) = match kind {
            WriteKind::Append => (&self.appends, APPEND_COUNTS),
            WriteKind::Change => (&self.changes, CHANGE_COUNTS),
        };
        let index = usize::try_from(number.unsigned_abs() % count).unwrap_or(0);
        &counts[index]
    }
}

impl HeaderTable {
    /// Creates a table; `None`: there are no headers, or they have gaps.
    fn of(counts: LogCounts, headers: &[StoredHeader], last: &Message) -> Option<Self> {
        let first = headers.first()?.seq;
        let is_whole = (first..).zip(headers).all(|(seq, header)| header.seq == seq)
            && headers.last().is_some_and(|header| header.seq == last.seq);
        let mentions =
            headers.iter().flat_map(|header| header.mentions.iter().map(|user| (header.seq, *user)));
        is_whole.then(|| Self {
            counts,
            last: last.clone(),
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
        let headers = size_of_val(&*self.senders) + size_of_val(&*self.flags) + size_of_val(&*self.mentions);
        headers + self.last.weight()
    }
}

fn flags(header: &StoredHeader) -> u8 {
    let flags = [(header.silent, SILENT), (header.recalled, RECALLED), (header.mention_all, MENTION_ALL)];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
}
