//! One inbox in memory: a bounded queue of entries, and a mark for each conversation. Only `Inbox::fan` adds
//! ranges, so a conversation's ranges are contiguous.

use std::{
    collections::{HashMap, VecDeque},
    mem::size_of,
};

use kith_cache::Moment;
use kith_store::{ConversationId, NodeName, Seq};

use crate::inbox::{Entry, Position, ReadOutcome};

/// One user's inbox.
///
/// Invariant: a conversation's entry begins behind its mark and sets it. So one conversation's entries are
/// contiguous.
pub(super) struct Inbox {
    pub(super) nodes: Nodes,
    pub(super) generation: u64,
    /// Every user conversation has a mark.
    pub(super) complete: bool,
    /// The last entries; the first was at position `trimmed + 1`.
    entries: VecDeque<Entry>,
    trimmed: Position,
    entries_max: usize,
    marks: HashMap<ConversationId, Seq>,
}

/// Nodes, each until its time is over.
#[derive(Default)]
pub(super) struct Nodes(Vec<(NodeName, Moment)>);

impl Inbox {
    pub(super) fn new(generation: u64, entries_max: usize) -> Self {
        let (nodes, entries, marks) = Default::default();
        Self { nodes, generation, complete: false, entries, trimmed: 0, entries_max, marks }
    }

    /// The last entry's position.
    pub(super) fn position(&self) -> Position {
        self.trimmed + position(self.entries.len())
    }

    /// How many conversations have a mark.
    pub(super) fn conversations(&self) -> u64 {
        position(self.marks.len())
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        while self.entries.len() > self.entries_max.max(1) {
            self.entries.pop_front();
            self.trimmed += 1;
        }
    }

    /// Enters a conversation's messages up to this number. Returns the position and the first number, see
    /// [`Entry::Range`]; `None`: nothing is new.
    pub(super) fn fan(&mut self, conversation: ConversationId, last: Seq) -> Option<(Position, Option<Seq>)> {
        let mark = self.marks.get(&conversation).copied();
        if mark.is_some_and(|mark| mark >= last) {
            return None;
        }
        let first = mark.map(|mark| mark + 1);
        self.add(Entry::Range { conversation, first, last });
        self.marks.insert(conversation, last);
        Some((self.position(), first))
    }

    /// Raises a conversation's mark to its end, and returns it. A raised mark is entered, for receivers that
    /// read on from earlier. The first mark is not, until all conversations have a mark.
    pub(super) fn mark(&mut self, conversation: ConversationId, end: Seq) -> Seq {
        let is_marked = self.marks.contains_key(&conversation);
        if is_marked || (self.complete && end > 0) {
            self.fan(conversation, end);
        }
        *self.marks.entry(conversation).or_insert(end)
    }

    /// The entries after a position.
    pub(super) fn read(&self, after: Position, most: usize) -> ReadOutcome {
        let Some(skipped) = after.checked_sub(self.trimmed) else { return ReadOutcome::Reset };
        if after > self.position() {
            return ReadOutcome::Reset;
        }
        let unread = self.entries.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX)).take(most);
        ReadOutcome::Entries((after + 1..).zip(unread.copied()).collect())
    }

    /// Its approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        let mark = 2 * size_of::<(ConversationId, Seq)>();
        size_of::<Self>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.marks.len() * mark
            + self.nodes.0.len() * 64
    }
}

impl Nodes {
    /// Adds a node, or renews it, and forgets those whose time is over.
    pub(super) fn add(&mut self, node: &NodeName, until: Moment, now: Moment) {
        self.0.retain(|(other, until)| other != node && *until > now);
        self.0.push((node.clone(), until));
    }

    pub(super) fn remove(&mut self, node: &NodeName) {
        self.0.retain(|(other, _)| other != node);
    }

    pub(super) fn live(&self, now: Moment) -> Vec<NodeName> {
        let live = self.0.iter().filter(|(_, until)| *until > now);
        live.map(|(node, _)| node.clone()).collect()
    }
}

fn position(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
