//! One user's inbox, and what happens to it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kith_cache::remote::SharedError;
use kith_delivery::{
    Generation, InboxKeeper as _, InboxLimits, Mark, MarkOutcome, ReadFrom, ReadOutcome, RedisInboxes,
    SentMessages,
};
use kith_store::{ConversationId, GroupId, NodeName, Seq, Timestamp, UserId};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{
    mutants::Deviation,
    receiver::{Receiver, ReceiverState},
    run::Server,
};
use crate::model::stepped::{EpochOf, Epochs};

pub(super) const NODES: usize = 2;
const LOGS: i64 = 4;

/// One conversation's messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) id: ConversationId,
    pub(super) end: Seq,
    /// A fan-out for it was lost, and is known to be.
    pub(super) is_owed: bool,
}

/// A fan-out that is to be made, perhaps again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fan {
    pub(super) log: usize,
    last: Seq,
    node: usize,
}

/// A command that is with Redis, and has not arrived there.
#[derive(Clone, Debug)]
pub(super) enum DelayedCall {
    Open(usize),
    Close(usize),
    Mark(usize, Generation, Vec<Mark>, bool),
}

/// How a call to Redis ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOutcome {
    Made,
    Failed,
    /// It is not made yet; the caller gets no answer.
    Late,
    /// It is made; the caller gets no answer.
    Unanswered,
}

pub(super) struct World<'a> {
    server: &'a Server,
    pub(super) rng: StdRng,
    pub(super) user: UserId,
    pub(super) epochs: Arc<Epochs>,
    pub(super) nodes: Vec<(NodeName, Arc<RedisInboxes>)>,
    pub(super) logs: Vec<Log>,
    pub(super) fans: Vec<Fan>,
    pub(super) late: Vec<DelayedCall>,
    pub(super) receivers: Vec<Receiver>,
    fails: bool,
    /// Redis loses nothing, and the epoch stays: no receiver is reset.
    pub(super) is_calm: bool,
    pub(super) trace: Vec<String>,
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl<'a> World<'a> {
    pub(super) fn new(server: &'a Server, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let is_always_settled = server.deviation == Deviation::Unsettled;
        let epochs = Epochs::new(server.redis.name.clone(), NODES, false);
        let epochs = Arc::new(Epochs { is_always_settled, ..epochs });
        let log = |id| {
            let id = ConversationId::Group(GroupId::new(id).unwrap());
            Log { id, end: 0, is_owed: false }
        };
        // With all receivers on one node, no receiver that moves later gives marks that repair the others.
        let nodes = [0, 0, rng.random_range(0..NODES)];
        let mut world = Self {
            server,
            user: UserId::new(rng.random_range(1..i64::MAX)).unwrap(),
            nodes: Vec::new(),
            logs: (1..=LOGS).map(log).collect(),
            fans: Vec::new(),
            late: Vec::new(),
            receivers: nodes.map(|node| Receiver::new(node, server.deviation)).into(),
            fails: rng.random_bool(0.5),
            is_calm: rng.random_bool(0.4),
            trace: Vec::new(),
            counts: BTreeMap::new(),
            epochs,
            rng,
        };
        world.nodes = (0..NODES).map(|node| world.node(node)).collect();
        world
    }

    pub(super) async fn step(&mut self) -> Result<(), String> {
        match self.rng.random_range(0..100) {
            0..15 => self.append(),
            15..33 => self.fan().await,
            33..84 => {
                let receiver = self.rng.random_range(0..self.receivers.len());
                return self.go_on(receiver).await;
            }
            84..87 => self.disconnect().await,
            87..89 => self.renew().await,
            89..92 => self.make_late().await,
            92 => self.repeat_owed().await,
            93..95 if !self.is_calm => self.lose().await,
            95..97 if !self.is_calm => self.raise(),
            _ => self.move_node(),
        }
        Ok(())
    }

    pub(super) fn note(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// One step by a receiver.
    pub(super) async fn go_on(&mut self, at: usize) -> Result<(), String> {
        let before = format!("{at}: {:?}", self.receivers[at].state);
        self.trace.push(before);
        match self.receivers[at].state.clone() {
            ReceiverState::Disconnected => self.open(at).await,
            ReceiverState::Listing(_) => {
                let ends = self.logs.iter().filter(|log| log.end > 0).map(|log| (log.id, log.end));
                let ends = ends.collect();
                self.receivers[at].listed(ends);
            }
            ReceiverState::Marking(_) => return self.mark(at).await,
            ReceiverState::Live(_) if self.rng.random_bool(0.5) && !self.receivers[at].wakes.is_empty() => {
                if self.receivers[at].woken()? {
                    self.note("woken");
                }
            }
            ReceiverState::Live(_) => return self.read(at).await,
        }
        Ok(())
    }

    /// The janitor repeats the fan-outs that are known to be lost.
    pub(super) async fn repeat_owed(&mut self) {
        let node = self.rng.random_range(0..NODES);
        for log in 0..self.logs.len() {
            if std::mem::take(&mut self.logs[log].is_owed) {
                let failed = self.fan_out(log, self.logs[log].end, node).await;
                assert_eq!(failed, None, "Redis answers");
            }
        }
    }

    /// Enters what a node has for the receivers, as far as the wakes arrive.
    pub(super) async fn fan_out(&mut self, log: usize, last: Seq, node: usize) -> Option<SharedError> {
        let sent =
            SentMessages { conversation: self.logs[log].id, last, sent: Timestamp(1), entries: Vec::new() };
        let keeper = Arc::clone(&self.nodes[node].1);
        let fanned = keeper.fan_out(&sent, &[self.user]).await;
        for wake in fanned.wakes {
            for receiver in &mut self.receivers {
                if self.nodes[receiver.node].0 == wake.node && self.rng.random_bool(0.8) {
                    receiver.wakes.push_back(wake.wake.clone());
                }
            }
        }
        fanned.failed
    }

    pub(super) async fn make(&mut self, late: DelayedCall) {
        match late {
            DelayedCall::Open(node) => {
                let (name, keeper) = &self.nodes[node];
                drop(keeper.open(name, &[self.user]).await);
            }
            DelayedCall::Close(node) => {
                let (name, keeper) = &self.nodes[node];
                keeper.close(name, self.user).await.ok();
            }
            DelayedCall::Mark(node, generation, marks, complete) => {
                self.nodes[node].1.mark(self.user, generation, &marks, complete).await.ok();
            }
        }
    }

    /// A node that has just started.
    fn node(&self, node: usize) -> (NodeName, Arc<RedisInboxes>) {
        let epochs = Arc::new(EpochOf { epochs: Arc::clone(&self.epochs), node });
        let runner = Arc::clone(&self.server.redis.runner);
        // No node moves while another one waits.
        let limits = InboxLimits { follows_within: Duration::ZERO, ..InboxLimits::default() };
        let keeper = RedisInboxes::over(runner, epochs, limits);
        let keeper = keeper.with_scripts(|text| self.server.scripts.edit(text));
        (format!("n{node}").parse().unwrap(), Arc::new(keeper))
    }

    fn outcome(&mut self) -> CallOutcome {
        if !self.fails {
            return CallOutcome::Made;
        }
        match self.rng.random_range(0..100) {
            0..4 => CallOutcome::Failed,
            4..8 => CallOutcome::Late,
            8..12 => CallOutcome::Unanswered,
            _ => CallOutcome::Made,
        }
    }

    /// Whether a receiver's call is answered. If it is not, the receiver ends.
    async fn is_answered(&mut self, at: usize, late: Option<DelayedCall>) -> bool {
        let outcome = self.outcome();
        if outcome == CallOutcome::Made {
            return true;
        }
        self.trace.push(format!("{at}: {outcome:?}"));
        match (outcome, late) {
            (CallOutcome::Late, Some(late)) => self.late.push(late),
            (CallOutcome::Unanswered, Some(late)) => self.make(late).await,
            _ => {}
        }
        self.receivers[at].leave();
        false
    }

    fn append(&mut self) {
        let log = self.rng.random_range(0..self.logs.len());
        let (count, node) = (self.rng.random_range(1..=2), self.rng.random_range(0..NODES));
        self.logs[log].end += count;
        let last = self.logs[log].end;
        self.trace.push(format!("{} ends at {last}", self.logs[log].id));
        self.fans.push(Fan { log, last, node });
    }

    async fn fan(&mut self) {
        if self.fans.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.fans.len());
        let Fan { log, last, node } = self.fans[index];
        self.trace.push(format!("fan-out of {} {last} by node {node}", self.logs[log].id));
        if self.rng.random_bool(0.1) {
            self.trace.push("which is lost".to_owned());
            self.logs[log].is_owed = true;
            self.fans.swap_remove(index);
            return;
        }
        let failed = self.fan_out(log, last, node).await;
        assert_eq!(failed, None, "Redis answers");
        // Some are made again.
        if self.rng.random_bool(0.8) {
            self.fans.swap_remove(index);
        }
    }

    async fn open(&mut self, at: usize) {
        let node = self.receivers[at].node;
        if !self.is_answered(at, Some(DelayedCall::Open(node))).await {
            return;
        }
        let (name, keeper) = &self.nodes[node];
        let opened = keeper.open(name, &[self.user]).await.remove(0);
        // The epoch has not settled.
        let Ok(opened) = opened else { return self.note("unsettled") };
        let continues = self.receivers[at].opened(opened);
        self.note(if continues { "continued" } else { "caught up" });
    }

    async fn mark(&mut self, at: usize) -> Result<(), String> {
        let count = self.rng.random_range(1..=2);
        let ReceiverState::Marking(catch_up) = &mut self.receivers[at].state else { return Ok(()) };
        let given: Vec<Mark> = catch_up.left.drain(..count.min(catch_up.left.len())).collect();
        let (generation, complete) = (catch_up.opened.generation, catch_up.left.is_empty());
        let node = self.receivers[at].node;
        let late = DelayedCall::Mark(node, generation, given.clone(), complete);
        if !self.is_answered(at, Some(late)).await {
            return Ok(());
        }
        let keeper = Arc::clone(&self.nodes[node].1);
        match keeper.mark(self.user, generation, &given, complete).await.unwrap() {
            MarkOutcome::Reset => {
                self.note("reset by marks");
                self.receivers[at].reset();
                self.may_be_reset()?;
            }
            MarkOutcome::Marks(marks) => {
                if let Some(mark) = self.mark_above(&given, &marks.marks) {
                    return Err(mark);
                }
                if self.receivers[at].marked(&given, &marks)? {
                    self.note("listed again");
                }
            }
        }
        Ok(())
    }

    /// A mark for which there is no message.
    fn mark_above(&self, given: &[Mark], marks: &[Seq]) -> Option<String> {
        let end = |id| self.logs.iter().find(|log| log.id == id).map_or(0, |log| log.end);
        let mut above = given.iter().zip(marks).filter(|(given, mark)| **mark > end(given.conversation));
        above.next().map(|(given, mark)| format!("mark {mark} of {}", given.conversation))
    }

    async fn read(&mut self, at: usize) -> Result<(), String> {
        let ReceiverState::Live(live) = &self.receivers[at].state else { return Ok(()) };
        let from = ReadFrom { user: self.user, generation: live.generation, after: live.after };
        if !self.is_answered(at, None).await {
            return Ok(());
        }
        let most = self.rng.random_range(1..=4);
        let keeper = Arc::clone(&self.nodes[self.receivers[at].node].1);
        let reading = keeper.read(&[from], most).await.remove(0).unwrap();
        self.trace.push(format!("{at}: {reading:?}"));
        if reading == ReadOutcome::Reset {
            self.note("reset");
            self.may_be_reset()?;
        } else {
            self.note("read");
        }
        self.receivers[at].has_read(reading)
    }

    fn may_be_reset(&self) -> Result<(), String> {
        if self.is_calm { Err("a receiver is reset, and nothing was lost".to_owned()) } else { Ok(()) }
    }

    /// A client goes away; its node may say so.
    async fn disconnect(&mut self) {
        let at = self.rng.random_range(0..self.receivers.len());
        self.trace.push(format!("{at} goes away"));
        self.receivers[at].leave();
        let node = self.receivers[at].node;
        let is_disconnected = |receiver: &Receiver| matches!(receiver.state, ReceiverState::Disconnected);
        if self.receivers.iter().all(|other| other.node != node || is_disconnected(other)) {
            self.make(DelayedCall::Close(node)).await;
        }
    }

    /// A receiver's node opens the inbox again.
    async fn renew(&mut self) {
        let at = self.rng.random_range(0..self.receivers.len());
        let (name, keeper) = &self.nodes[self.receivers[at].node];
        if let Ok(opened) = keeper.open(name, &[self.user]).await.remove(0) {
            self.trace.push(format!("{at} is renewed: {opened:?}"));
            self.receivers[at].renewed(opened);
        }
    }

    async fn make_late(&mut self) {
        if !self.late.is_empty() {
            let index = self.rng.random_range(0..self.late.len());
            let late = self.late.swap_remove(index);
            self.trace.push(format!("late: {late:?}"));
            self.make(late).await;
        }
    }

    /// Redis loses a key, or trims the stream.
    pub(super) async fn lose(&mut self) {
        let scripts = [
            ("hash", "return redis.call('DEL', KEYS[1])"),
            ("stream", "return redis.call('DEL', KEYS[2])"),
            ("both", "return redis.call('DEL', KEYS[1], KEYS[2])"),
            ("entries", "return redis.call('XTRIM', KEYS[2], 'MAXLEN', 2)"),
        ];
        let (what, script) = *scripts.choose(&mut self.rng).unwrap();
        self.trace.push(format!("lost: {what}"));
        let keys = self.nodes[0].1.keys(self.user, self.epochs.present());
        self.server.redis.eval(script, keys, []).await;
    }

    fn raise(&mut self) {
        if self.epochs.are_one() {
            self.epochs.raise(false);
            self.trace.push(format!("epoch {}", self.epochs.present()));
        }
    }

    fn move_node(&mut self) {
        let node = self.rng.random_range(0..NODES);
        self.epochs.move_node(node);
        self.trace.push(format!("node {node} follows epoch {}", self.epochs.present()));
    }
}
