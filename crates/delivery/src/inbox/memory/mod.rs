//! A single node's inboxes, in its memory. The rules are the same as in Redis.

mod confirmations;
mod inbox;
mod inbox_table;
mod wakes;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use kith_cache::{Clock, Moment, remote::SharedError};
use kith_store::{ConversationId, NodeName, UserId};
use parking_lot::Mutex;

use self::{
    confirmations::Confirmations,
    inbox::{Inbox, Nodes},
    inbox_table::InboxTable,
    wakes::Channels,
};
use super::{
    AbandonedReceivers, Entry, FanOutResult, Generation, InboxKeeper, Mark, MarkOutcome, Marks, NodeWake,
    Note, OpenedInbox, ReadFrom, ReadOutcome, SentMessages, Wake, WakeSubscription, WokenUser,
    fan_out_answers::FanOutAnswers,
};
use crate::{
    InboxLimits,
    metrics::{GenerationReason, InboxCounts},
};

/// Inboxes in a node's memory, for a node that shares no Redis. They are gone when it ends. No call waits or
/// fails.
///
/// All inboxes together have at most [`InboxLimits::memory_bytes`], as estimated: the inbox that was opened
/// or renewed least recently goes first.
pub struct MemoryInboxes {
    state: Mutex<InboxesState>,
    channels: Arc<Channels>,
    clock: Arc<dyn Clock>,
    limits: InboxLimits,
    /// Random, so that an earlier process's positions do not count here.
    epoch: u64,
    counts: InboxCounts,
}

struct InboxesState {
    inboxes: InboxTable,
    readers: HashMap<ConversationId, Nodes>,
    confirmations: Confirmations,
    last_generation: u64,
}

impl MemoryInboxes {
    /// No user has an inbox.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: InboxLimits) -> Self {
        let (inboxes, readers, confirmations) =
            (InboxTable::new(limits), HashMap::new(), Confirmations::default());
        Self {
            state: Mutex::new(InboxesState { inboxes, readers, confirmations, last_generation: 0 }),
            channels: Arc::default(),
            clock,
            limits,
            epoch: rand::random::<u64>() >> 1,
            counts: InboxCounts::new(),
        }
    }

    /// Loses a user's inbox.
    #[cfg(feature = "conformance")]
    pub fn lose(&self, user: UserId) {
        self.state.lock().inboxes.remove(user);
    }

    fn generation(&self, number: u64) -> Generation {
        Generation { epoch: self.epoch, number }
    }

    /// This moment. Removes expired inboxes.
    fn expire_inboxes(&self, state: &mut InboxesState) -> Moment {
        let now = self.clock.now();
        state.inboxes.expire(now);
        now
    }

    /// Ends inboxes until all fit.
    fn evict_to_limit(&self, state: &mut InboxesState) {
        for _ in 0..state.inboxes.evict_to_limit() {
            self.counts.generation(GenerationReason::Room);
        }
    }

    fn open_one(&self, state: &mut InboxesState, now: Moment, node: &NodeName, user: UserId) -> OpenedInbox {
        let until = now.after(self.limits.receiver_kept);
        let InboxesState { inboxes, last_generation, .. } = state;
        let new_generation = || {
            self.counts.generation(GenerationReason::New);
            *last_generation += 1;
            *last_generation
        };
        inboxes.open(user, now, new_generation, |inbox| {
            inbox.nodes.add(node, until, now);
            let generation = self.generation(inbox.generation);
            OpenedInbox { generation, position: inbox.position(), complete: inbox.complete }
        })
    }

    /// The wakes for a user's nodes to read up to the last entry.
    fn entry_wakes(&self, state: &InboxesState, now: Moment, user: UserId) -> Vec<NodeWake> {
        let Some(inbox) = state.inboxes.get(user) else { return Vec::new() };
        let (generation, position) = (self.generation(inbox.generation), inbox.position());
        NodeWake::for_each(inbox.nodes.live(now), &Wake::Entries { user, generation, position })
    }
}

#[async_trait]
impl InboxKeeper for MemoryInboxes {
    async fn fan_out(&self, sent: &SentMessages, users: &[UserId]) -> FanOutResult {
        let mut answers = FanOutAnswers::default();
        let mut state = self.state.lock();
        let now = self.expire_inboxes(&mut state);
        for user in users {
            let entered = state.inboxes.change(*user, |inbox| {
                let entered = inbox.fan(sent.conversation, sent.last);
                (entered, inbox.nodes.live(now), inbox.generation)
            });
            match entered {
                Some((Some((position, first)), nodes, number)) => {
                    let generation = self.generation(number);
                    answers.entered(nodes, WokenUser { user: *user, generation, position, first });
                }
                Some((None, nodes, _)) => answers.unchanged(*user, !nodes.is_empty()),
                None => answers.unchanged(*user, false),
            }
        }
        self.evict_to_limit(&mut state);
        drop(state);
        self.counts.entries(answers.entries());
        answers.into_result(&sent.within(self.limits.wake_bytes))
    }

    async fn open(&self, node: &NodeName, users: &[UserId]) -> Vec<Result<OpenedInbox, SharedError>> {
        let mut state = self.state.lock();
        let now = self.expire_inboxes(&mut state);
        let opened = users.iter().map(|user| Ok(self.open_one(&mut state, now, node, *user))).collect();
        self.evict_to_limit(&mut state);
        opened
    }

    async fn close(&self, node: &NodeName, user: UserId) -> Result<(), SharedError> {
        self.state.lock().inboxes.change(user, |inbox| inbox.nodes.remove(node));
        Ok(())
    }

    async fn mark(
        &self,
        user: UserId,
        generation: Generation,
        marks: &[Mark],
        complete: bool,
    ) -> Result<MarkOutcome, SharedError> {
        let mut state = self.state.lock();
        let now = self.expire_inboxes(&mut state);
        let is_same = |inbox: &Inbox| self.generation(inbox.generation) == generation;
        if !state.inboxes.get(user).is_some_and(is_same) {
            return Ok(MarkOutcome::Reset);
        }
        let marked = state.inboxes.change(user, |inbox| {
            let before = inbox.position();
            let marks = marks.iter().map(|mark| inbox.mark(mark.conversation, mark.end)).collect();
            inbox.complete |= complete;
            let (position, conversations) = (inbox.position(), inbox.conversations());
            (Marks { marks, position, conversations, wakes: Vec::new() }, position - before)
        });
        let Some((marks, written)) = marked else { return Ok(MarkOutcome::Reset) };
        self.counts.entries(written);
        let wakes = if written > 0 { self.entry_wakes(&state, now, user) } else { Vec::new() };
        self.evict_to_limit(&mut state);
        Ok(MarkOutcome::Marks(Marks { wakes, ..marks }))
    }

    async fn read(&self, from: &[ReadFrom], most: usize) -> Vec<Result<ReadOutcome, SharedError>> {
        let mut state = self.state.lock();
        self.expire_inboxes(&mut state);
        let read = |from: &ReadFrom| {
            let inbox = state.inboxes.get(from.user);
            let inbox = inbox.filter(|inbox| self.generation(inbox.generation) == from.generation);
            inbox.map_or(ReadOutcome::Reset, |inbox| inbox.read(from.after, most.max(1)))
        };
        from.iter().map(|from| Ok(read(from))).collect()
    }

    async fn note(&self, user: UserId, note: Note) -> Result<Vec<NodeWake>, SharedError> {
        let mut state = self.state.lock();
        let now = self.expire_inboxes(&mut state);
        if state.inboxes.change(user, |inbox| inbox.add(Entry::Note(note))).is_none() {
            return Ok(Vec::new());
        }
        self.counts.entries(1);
        let wakes = self.entry_wakes(&state, now, user);
        self.evict_to_limit(&mut state);
        Ok(wakes)
    }

    async fn receiving(&self, users: &[UserId]) -> Result<BTreeMap<UserId, Vec<NodeName>>, SharedError> {
        let mut state = self.state.lock();
        let now = self.expire_inboxes(&mut state);
        let nodes = |user: &UserId| Some((*user, state.inboxes.get(*user)?.nodes.live(now)));
        Ok(users.iter().filter_map(nodes).filter(|(_, nodes)| !nodes.is_empty()).collect())
    }

    async fn publish(&self, wakes: &[NodeWake]) -> Result<(), SharedError> {
        wakes.iter().for_each(|wake| self.channels.publish(wake));
        self.counts.wakes(wakes.len());
        Ok(())
    }

    fn subscribe(&self, node: &NodeName) -> Box<dyn WakeSubscription> {
        Box::new(self.channels.subscribe(node, self.limits.wakes_waiting))
    }

    async fn confirm(&self, node: &NodeName, confirmed: &[ReadFrom]) -> Result<(), SharedError> {
        self.state.lock().confirmations.confirm(node, confirmed, self.clock.now());
        Ok(())
    }

    async fn forget(
        &self,
        node: &NodeName,
        users: &[UserId],
        silent_for: Duration,
    ) -> Result<(), SharedError> {
        self.state.lock().confirmations.forget(node, users, silent_for, self.clock.now());
        Ok(())
    }

    async fn abandoned(
        &self,
        silent_for: Duration,
        most: usize,
    ) -> Result<Vec<AbandonedReceivers>, SharedError> {
        let (renewed, now) = (self.limits.receiver_kept, self.clock.now());
        Ok(self.state.lock().confirmations.abandoned(silent_for, most, renewed, now))
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
