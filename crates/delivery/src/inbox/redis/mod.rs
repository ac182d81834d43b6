//! Inboxes in Redis. An inbox has two keys in one slot, a hash and a stream; each script is one step. The
//! comments of the scripts describe each step and its invariant.

mod confirmations;
mod names;
mod reply;
mod scripts;
mod wakes;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
};
use kith_store::{ConversationId, Epoch, NodeName, UserId};
use tokio::time::{Instant, sleep};

use self::{names::InboxNames, scripts::InboxScripts, wakes::RedisSubscription};
use super::{
    AbandonedReceivers, FanOutResult, Generation, InboxKeeper, Mark, MarkOutcome, Marks, NodeWake, Note,
    OpenedInbox, Position, ReadFrom, ReadOutcome, SentMessages, Wake, WakeSubscription, entry_text,
    fan_out_answers::FanOutAnswers, wake_form,
};
use crate::{
    EpochSource, InboxLimits,
    metrics::{GenerationReason, InboxCounts},
    redis::{
        arguments::{milliseconds, number},
        fenced::{FencedRunner, unavailable},
    },
};

/// The most inboxes that one script run writes: more would keep other calls waiting.
const INBOXES_A_RUN: usize = 32;
/// The pause between two looks at the epoch that the node follows.
const LOOK: Duration = Duration::from_millis(20);

/// Inboxes in Redis, in the epoch that the node follows. Only answers from that epoch's server count. A call
/// ends within its runner's command timeout.
pub struct RedisInboxes {
    runner: FencedRunner,
    names: InboxNames,
    scripts: InboxScripts,
    limits: InboxLimits,
    /// The highest epoch in which inboxes may be opened: no node writes to inboxes in an earlier epoch.
    settled_epoch: AtomicU64,
    counts: InboxCounts,
}

impl RedisInboxes {
    /// Creates it over a runner's connections, which may be shared. A subscription
    /// ([`InboxKeeper::subscribe`]) has its own connection.
    #[must_use]
    pub fn over(runner: Arc<ScriptRunner>, epochs: Arc<dyn EpochSource>, limits: InboxLimits) -> Self {
        let names = InboxNames::new(runner.tag(), runner.database(), runner.has_sharded_channels());
        let (scripts, settled_epoch, counts) = (InboxScripts::new(), AtomicU64::new(0), InboxCounts::new());
        Self { runner: FencedRunner::over(runner, epochs), names, scripts, limits, settled_epoch, counts }
    }

    /// Returns the inboxes with scripts that `edit` has changed.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_scripts(self, edit: impl Fn(&'static str) -> &'static str) -> Self {
        Self { scripts: InboxScripts::of(edit), ..self }
    }

    /// The keys of an inbox in an epoch: its hash and its stream.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn keys(&self, user: UserId, epoch: u64) -> Vec<String> {
        self.names.inbox(user, epoch)
    }

    /// Returns the epoch that the node follows, once no node writes to inboxes in an earlier epoch. Messages
    /// that were written there were in the store before. If a later epoch has begun, waits until the node
    /// follows it: several epochs may begin in a cluster's first seconds, while Redis answers.
    ///
    /// Without this, a receiver could read a log's end in the new epoch while the next message's fan-out goes
    /// to the inbox in the earlier epoch: the fan-out would succeed, and the receiver would not learn of the
    /// message.
    async fn await_settled_epoch(&self) -> Result<Epoch, SharedError> {
        let mut epoch = self.runner.followed_epoch()?;
        let until = Instant::now() + self.limits.follows_within;
        while self.settled_epoch.load(Ordering::Acquire) < epoch.number {
            let settled = self.runner.settled_epoch().await.ok_or(SharedError::Unavailable)?;
            if settled == epoch.number {
                self.settled_epoch.fetch_max(settled, Ordering::AcqRel);
            } else {
                epoch = self.await_followed_epoch(settled, until).await?;
            }
        }
        Ok(epoch)
    }

    /// Waits until the node follows this epoch or a later epoch.
    async fn await_followed_epoch(&self, number: u64, until: Instant) -> Result<Epoch, SharedError> {
        while Instant::now() < until {
            match self.runner.followed_epoch() {
                Ok(epoch) if epoch.number >= number => return Ok(epoch),
                Ok(_) | Err(_) => sleep(LOOK).await,
            }
        }
        Err(SharedError::Unavailable)
    }

    fn call<'a>(
        &self,
        script: &'a RedisScript,
        epoch: &Epoch,
        user: UserId,
        arguments: Vec<Bytes>,
    ) -> ScriptCall<'a> {
        ScriptCall::new(script, self.names.inbox(user, epoch.number), arguments)
    }

    /// Enters messages for each run's users, in one round trip. Returns the remaining users, in runs.
    async fn fan_some(
        &self,
        epoch: &Epoch,
        sent: &SentMessages,
        runs: &[Vec<UserId>],
        all: &mut FanOutAnswers,
    ) -> Vec<Vec<UserId>> {
        let calls: Vec<_> = runs.iter().map(|run| self.fan_call(epoch, sent, run)).collect();
        let mut left = Vec::new();
        for (run, answer) in runs.iter().zip(self.runner.run(epoch, &calls).await) {
            match answer.and_then(|answer| all.read(answer, epoch.number, run)) {
                Ok((handled, inboxes_left)) => {
                    let rest = &run[handled..];
                    // Each new run has about as many users as have `INBOXES_A_RUN` inboxes together.
                    let parts = inboxes_left.div_ceil(INBOXES_A_RUN).max(1);
                    left.extend(rest.chunks(rest.len().div_ceil(parts).max(1)).map(<[UserId]>::to_vec));
                }
                Err(why) => all.failed(why),
            }
        }
        left
    }

    /// Returns the script call that enters messages for one run's users.
    fn fan_call(&self, epoch: &Epoch, sent: &SentMessages, users: &[UserId]) -> ScriptCall<'_> {
        let keys = users.iter().flat_map(|user| self.names.inbox(*user, epoch.number)).collect();
        let conversation: Bytes = sent.conversation.to_string().into();
        let limits = [self.limits.entries, INBOXES_A_RUN].map(number);
        let arguments = [vec![conversation, number(sent.last)], limits.to_vec()].concat();
        ScriptCall::new(&self.scripts.fan, keys, arguments)
    }

    fn open_call(&self, epoch: &Epoch, node: &NodeName, user: UserId) -> ScriptCall<'_> {
        // The number is exact in Lua, and is never used again.
        let generation = (rand::random::<u64>() >> 16).max(1);
        let times = [self.limits.receiver_kept, self.limits.kept].map(milliseconds);
        let arguments = [vec![name(node)], times.to_vec(), vec![number(generation)]].concat();
        self.call(&self.scripts.open, epoch, user, arguments)
    }

    fn opened(&self, epoch: u64, answer: Result<Reply, SharedError>) -> Result<OpenedInbox, SharedError> {
        let opened = reply::opened(answer?)?;
        if let Some(why) = opened.made {
            self.counts.generation(why);
        }
        let generation = Generation { epoch, number: opened.last.generation };
        Ok(OpenedInbox { generation, position: opened.last.position, complete: opened.complete })
    }

    fn publish_call(&self, wake: &NodeWake) -> Option<ScriptCall<'_>> {
        let channel = vec![self.names.wake_channel(&wake.node, &wake.wake)];
        let publish = Bytes::from_static(self.runner.runner().publish_command().as_bytes());
        Some(ScriptCall::new(&self.scripts.publish, channel, [wake_form::encode(&wake.wake)?, publish]))
    }
}

#[async_trait]
impl InboxKeeper for RedisInboxes {
    async fn fan_out(&self, sent: &SentMessages, users: &[UserId]) -> FanOutResult {
        let mut all = FanOutAnswers::default();
        match self.runner.followed_epoch() {
            Ok(epoch) => {
                let mut runs = InboxNames::runs(users, self.runner.has_slots());
                while !runs.is_empty() {
                    runs = self.fan_some(&epoch, sent, &runs, &mut all).await;
                }
            }
            Err(why) => all.failed(why),
        }
        self.counts.entries(all.entries());
        (0..all.ended()).for_each(|_| self.counts.generation(GenerationReason::Stream));
        all.into_result(&sent.within(self.limits.wake_bytes))
    }

    async fn open(&self, node: &NodeName, users: &[UserId]) -> Vec<Result<OpenedInbox, SharedError>> {
        let Ok(epoch) = self.await_settled_epoch().await else { return unavailable(users.len()) };
        let calls: Vec<_> = users.iter().map(|user| self.open_call(&epoch, node, *user)).collect();
        let answers = self.runner.run(&epoch, &calls).await.into_iter();
        answers.map(|answer| self.opened(epoch.number, answer)).collect()
    }

    async fn close(&self, node: &NodeName, user: UserId) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let call = self.call(&self.scripts.close, &epoch, user, vec![name(node)]);
        reply::done(&self.runner.one(&epoch, call).await?)
    }

    async fn mark(
        &self,
        user: UserId,
        generation: Generation,
        marks: &[Mark],
        complete: bool,
    ) -> Result<MarkOutcome, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        if epoch.number != generation.epoch {
            return Ok(MarkOutcome::Reset);
        }
        let mut arguments = vec![number(generation.number), number(u8::from(complete))];
        arguments.push(number(self.limits.entries));
        arguments
            .extend(marks.iter().flat_map(|mark| [mark.conversation.to_string().into(), number(mark.end)]));
        let call = self.call(&self.scripts.mark, &epoch, user, arguments);
        let Some(marked) = reply::marked(self.runner.one(&epoch, call).await?, marks.len())? else {
            return Ok(MarkOutcome::Reset);
        };
        self.counts.entries(marked.written);
        let nodes = if marked.written > 0 { marked.nodes } else { Vec::new() };
        let wakes = entry_wakes(nodes, user, generation, marked.position);
        let (marks, position) = (marked.marks, marked.position);
        Ok(MarkOutcome::Marks(Marks { marks, position, conversations: marked.conversations, wakes }))
    }

    async fn read(&self, from: &[ReadFrom], most: usize) -> Vec<Result<ReadOutcome, SharedError>> {
        let Ok(epoch) = self.runner.followed_epoch() else { return unavailable(from.len()) };
        let call = |from: &ReadFrom| {
            let arguments = vec![number(from.generation.number), number(from.after), number(most.max(1))];
            self.call(&self.scripts.read, &epoch, from.user, arguments)
        };
        // A generation from another epoch is not in these keys, and its number does not occur again.
        let calls: Vec<_> = from.iter().map(call).collect();
        let answers = self.runner.run(&epoch, &calls).await.into_iter().zip(from);
        answers
            .map(|(answer, from)| {
                if from.generation.epoch == epoch.number {
                    reply::read_outcome(answer?, from.after)
                } else {
                    Ok(ReadOutcome::Reset)
                }
            })
            .collect()
    }

    async fn note(&self, user: UserId, note: Note) -> Result<Vec<NodeWake>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let arguments = vec![number(self.limits.entries), entry_text::note(note).into()];
        let call = self.call(&self.scripts.note, &epoch, user, arguments);
        let Some(noted) = reply::noted(self.runner.one(&epoch, call).await?)? else { return Ok(Vec::new()) };
        let Some(entry) = noted.entry else {
            self.counts.generation(GenerationReason::Stream);
            return Ok(NodeWake::for_each(noted.nodes, &Wake::Lost { user }));
        };
        self.counts.entries(1);
        let generation = Generation { epoch: epoch.number, number: entry.generation };
        Ok(entry_wakes(noted.nodes, user, generation, entry.position))
    }

    async fn receiving(&self, users: &[UserId]) -> Result<BTreeMap<UserId, Vec<NodeName>>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let runs = InboxNames::runs(users, self.runner.has_slots());
        let runs: Vec<_> = runs.iter().flat_map(|run| run.chunks(self.limits.users_at_once)).collect();
        let call = |run: &&[UserId]| {
            let keys = run.iter().map(|user| self.names.hash(*user, epoch.number)).collect();
            ScriptCall::new(&self.scripts.receiving, keys, Vec::<Bytes>::new())
        };
        let calls: Vec<_> = runs.iter().map(call).collect();
        let answers = self.runner.run(&epoch, &calls).await;
        let mut all = BTreeMap::new();
        for (run, answer) in runs.into_iter().zip(answers) {
            all.extend(reply::receiving(answer?, run)?);
        }
        Ok(all)
    }

    async fn publish(&self, wakes: &[NodeWake]) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let calls: Vec<_> = wakes.iter().filter_map(|wake| self.publish_call(wake)).collect();
        let answers = self.runner.run(&epoch, &calls).await;
        self.counts.wakes(answers.iter().filter(|answer| answer.is_ok()).count());
        answers.into_iter().try_for_each(|answer| reply::done(&answer?))
    }

    fn subscribe(&self, node: &NodeName) -> Box<dyn WakeSubscription> {
        Box::new(RedisSubscription::new(Arc::clone(self.runner.runner()), self.names.wake_channels(node)))
    }

    async fn confirm(&self, node: &NodeName, confirmed: &[ReadFrom]) -> Result<(), SharedError> {
        self.write_confirmed(node, confirmed).await
    }

    async fn forget(
        &self,
        node: &NodeName,
        users: &[UserId],
        silent_for: Duration,
    ) -> Result<(), SharedError> {
        self.remove_confirmed(node, users, silent_for).await
    }

    async fn abandoned(
        &self,
        silent_for: Duration,
        most: usize,
    ) -> Result<Vec<AbandonedReceivers>, SharedError> {
        self.silent_nodes(silent_for, most).await
    }

    async fn register(&self, node: &NodeName, conversations: &[ConversationId]) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let call = |conversation: &ConversationId| {
            let arguments = [name(node), milliseconds(self.limits.receiver_kept)];
            let keys = self.names.readers(*conversation, epoch.number);
            ScriptCall::new(&self.scripts.register, keys, arguments)
        };
        let calls: Vec<_> = conversations.iter().map(call).collect();
        self.runner.run(&epoch, &calls).await.into_iter().try_for_each(|answer| reply::done(&answer?))
    }

    async fn registered(&self, conversation: ConversationId) -> Result<Vec<NodeName>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let (keys, none) = (self.names.readers(conversation, epoch.number), Vec::<Bytes>::new());
        let call = ScriptCall::new(&self.scripts.registered, keys, none);
        reply::nodes(self.runner.one(&epoch, call).await?)
    }
}

impl fmt::Debug for RedisInboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisInboxes").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Returns the wakes for receivers that must read up to a position.
fn entry_wakes(
    nodes: Vec<NodeName>,
    user: UserId,
    generation: Generation,
    position: Position,
) -> Vec<NodeWake> {
    NodeWake::for_each(nodes, &Wake::Entries { user, generation, position })
}

fn name(node: &NodeName) -> Bytes {
    node.as_str().to_owned().into()
}
