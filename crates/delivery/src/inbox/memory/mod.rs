//! Inboxes of a single node, in its memory. The rules are those of Redis.

mod inbox;
mod shelf;
mod wakes;

use std::{collections::HashMap, fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::{Clock, Moment, remote::SharedError};
use kith_store::{ConversationId, NodeName, UserId};
use parking_lot::Mutex;

use self::{
    inbox::{Inbox, Nodes},
    shelf::Shelf,
    wakes::Channels,
};
use super::{
    Entry, FanOut, FannedOut, Generation, InboxKeeper, Mark, Marked, Marks, NodeWake, Note, Opened, ReadFrom,
    Reading, Wake, Wakes, Woken, gathered::Gathered,
};
use crate::{
    InboxLimits,
    metrics::{InboxCounts, Why},
};

/// Inboxes in the memory of a node, for one that shares no Redis. They are gone when it ends. No call waits or fails.
///
/// All inboxes together have at most [`InboxLimits::memory_bytes`], as estimated: the one that was opened or renewed least recently
/// goes first.
pub struct MemoryInboxes {
    state: Mutex<InboxesState>,
    channels: Arc<Channels>,
    clock: Arc<dyn Clock>,
    limits: InboxLimits,
    /// Random, so that no position of an earlier process is one of this.
    epoch: u64,
    counts: InboxCounts,
}

struct InboxesState {
    shelf: Shelf,
    readers: HashMap<ConversationId, Nodes>,
    last_generation: u64,
}

impl MemoryInboxes {
    /// No user has an inbox.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: InboxLimits) -> Self {
        let shelf = Shelf::new(limits);
        Self {
            state: Mutex::new(InboxesState { shelf, readers: HashMap::new(), last_generation: 0 }),
            channels: Arc::default(),
            clock,
            limits,
            epoch: rand::random::<u64>() >> 1,
            counts: InboxCounts::new(),
        }
    }

    /// Loses the inbox of a user.
    #[cfg(feature = "conformance")]
    pub fn lose(&self, user: UserId) {
        self.state.lock().shelf.remove(user);
    }

    fn generation(&self, number: u64) -> Generation {
        Generation { epoch: self.epoch, number }
    }

    /// This moment. Removes expired inboxes.
    fn enter(&self, state: &mut InboxesState) -> Moment {
        let now = self.clock.now();
        state.shelf.expire(now);
        now
    }

    /// Ends inboxes until all fit.
    fn fit(&self, state: &mut InboxesState) {
        for _ in 0..state.shelf.fit() {
            self.counts.generation(Why::Room);
        }
    }

    fn open_one(&self, state: &mut InboxesState, now: Moment, node: &NodeName, user: UserId) -> Opened {
        let until = now.after(self.limits.receiver_kept);
        let InboxesState { shelf, last_generation, .. } = state;
        let new_generation = || {
            self.counts.generation(Why::New);
            *last_generation += 1;
            *last_generation
        };
        shelf.open(user, now, new_generation, |inbox| {
            inbox.nodes.add(node, until, now);
            let generation = self.generation(inbox.generation);
            Opened { generation, position: inbox.position(), complete: inbox.complete }
        })
    }

    /// The wakes for the nodes of a user to read up to the last entry.
    fn entered(&self, state: &InboxesState, now: Moment, user: UserId) -> Vec<NodeWake> {
        let Some(inbox) = state.shelf.get(user) else { return Vec::new() };
        let (generation, position) = (self.generation(inbox.generation), inbox.position());
        NodeWake::for_each(inbox.nodes.live(now), &Wake::Entries { user, generation, position })
    }
}

#[async_trait]
impl InboxKeeper for MemoryInboxes {
    async fn fan_out(&self, fan_out: &FanOut<'_>) -> FannedOut {
        let (mut gathered, sent) = (Gathered::default(), &fan_out.sent);
        let mut state = self.state.lock();
        let now = self.enter(&mut state);
        for user in fan_out.users {
            let entered = state.shelf.change(*user, |inbox| {
                let entered = inbox.fan(sent.conversation, sent.last);
                (entered, inbox.nodes.live(now), inbox.generation)
            });
            match entered {
                Some((Some((position, first)), nodes, number)) => {
                    let generation = self.generation(number);
                    gathered.entered(nodes, Woken { user: *user, generation, position, first });
                }
                Some((None, nodes, _)) => gathered.unchanged(*user, !nodes.is_empty()),
                None => gathered.unchanged(*user, false),
            }
        }
        self.fit(&mut state);
        drop(state);
        self.counts.entries(gathered.entries());
        gathered.fanned_out(&sent.within(self.limits.wake_bytes))
    }

    async fn open(&self, node: &NodeName, users: &[UserId]) -> Vec<Result<Opened, SharedError>> {
        let mut state = self.state.lock();
        let now = self.enter(&mut state);
        let opened = users.iter().map(|user| Ok(self.open_one(&mut state, now, node, *user))).collect();
        self.fit(&mut state);
        opened
    }

    async fn close(&self, node: &NodeName, user: UserId) -> Result<(), SharedError> {
        self.state.lock().shelf.change(user, |inbox| inbox.nodes.remove(node));
        Ok(())
    }

    async fn mark(
        &self,
        user: UserId,
        generation: Generation,
        marks: &[Mark],
        complete: bool,
    ) -> Result<Marked, SharedError> {
        let mut state = self.state.lock();
        let now = self.enter(&mut state);
        let is_same = |inbox: &Inbox| self.generation(inbox.generation) == generation;
        if !state.shelf.get(user).is_some_and(is_same) {
            return Ok(Marked::Reset);
        }
        let marked = state.shelf.change(user, |inbox| {
            let before = inbox.position();
            let marks = marks.iter().map(|mark| inbox.mark(mark.conversation, mark.end)).collect();
            inbox.complete |= complete;
            let (position, conversations) = (inbox.position(), inbox.conversations());
            (Marks { marks, position, conversations, wakes: Vec::new() }, position - before)
        });
        let Some((marks, written)) = marked else { return Ok(Marked::Reset) };
        self.counts.entries(written);
        let wakes = if written > 0 { self.entered(&state, now, user) } else { Vec::new() };
        self.fit(&mut state);
        Ok(Marked::Marks(Marks { wakes, ..marks }))
    }

    async fn read(&self, from: &[ReadFrom], most: usize) -> Vec<Result<Reading, SharedError>> {
        let mut state = self.state.lock();
        self.enter(&mut state);
        let read = |from: &ReadFrom| {
            let inbox = state.shelf.get(from.user);
            let inbox = inbox.filter(|inbox| self.generation(inbox.generation) == from.generation);
            inbox.map_or(Reading::Reset, |inbox| inbox.read(from.after, most.max(1)))
        };
        from.iter().map(|from| Ok(read(from))).collect()
    }

    async fn note(&self, user: UserId, note: Note) -> Result<Vec<NodeWake>, SharedError> {
        let mut state = self.state.lock();
        let now = self.enter(&mut state);
        if state.shelf.change(user, |inbox| inbox.add(Entry::Note(note))).is_none() {
            return Ok(Vec::new());
        }
        self.counts.entries(1);
        let wakes = self.entered(&state, now, user);
        self.fit(&mut state);
        Ok(wakes)
    }

    async fn signal(&self, user: UserId, signal: Bytes) -> Result<Vec<NodeWake>, SharedError> {
        let mut state = self.state.lock();
        let now = self.enter(&mut state);
        let nodes = state.shelf.get(user).map(|inbox| inbox.nodes.live(now)).unwrap_or_default();
        Ok(NodeWake::for_each(nodes, &Wake::Signal { user, signal }))
    }

    async fn publish(&self, wakes: &[NodeWake]) -> Result<(), SharedError> {
        wakes.iter().for_each(|wake| self.channels.publish(wake));
        self.counts.wakes(wakes.len());
        Ok(())
    }

    fn wakes(&self, node: &NodeName) -> Box<dyn Wakes> {
        Box::new(self.channels.subscribe(node, self.limits.wakes_waiting))
    }

    async fn register(&self, node: &NodeName, conversations: &[ConversationId]) -> Result<(), SharedError> {
        let (mut state, now) = (self.state.lock(), self.clock.now());
        let until = now.after(self.limits.receiver_kept);
        for conversation in conversations {
            state.readers.entry(*conversation).or_default().add(node, until, now);
        }
        state.readers.retain(|_, nodes| !nodes.live(now).is_empty());
        Ok(())
    }

    async fn registered(&self, conversation: ConversationId) -> Result<Vec<NodeName>, SharedError> {
        let (state, now) = (self.state.lock(), self.clock.now());
        Ok(state.readers.get(&conversation).map(|nodes| nodes.live(now)).unwrap_or_default())
    }
}

impl fmt::Debug for MemoryInboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryInboxes").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
