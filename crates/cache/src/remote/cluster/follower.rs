//! How a node follows the log: it receives, repairs, and trusts its memory only while it can prove that it missed no
//! change (coherence, "Log, broadcast, chain" and "Trust is a deadline").

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    FrameOrder, LogPosition,
    node_membership::{ClusterNode, End},
};
use crate::{
    Moment,
    api::clock::wall_clock_ms,
    remote::shared::{Confirmed, Frame, Frames, Message, News, Probed, SharedError},
    testing::rules,
};

/// Number of messages that are read in a row before other due work has its turn: outsiders who publish more than a node
/// can read must not prevent its probes.
const HEARD_IN_A_ROW: u32 = 64;

/// A probe in progress: when the next one is due, the state when it was sent, and its answer.
type Probing = Pin<Box<dyn Future<Output = (Instant, Sent, Result<Probed, SharedError>)> + Send>>;
/// A read of the epoch in the store: when the next one is due, and the epoch unless the store did not answer.
type Looking = Pin<Box<dyn Future<Output = (Instant, Option<u64>)> + Send>>;
/// Confirmations in progress.
type Confirming = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The state of a node when it sent a probe.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Moment,
    /// The last entry that it had applied.
    applied: u64,
}

/// A member that is subscribed and has a baseline.
pub(in crate::remote) struct Follower<'a> {
    member: &'a ClusterNode,
    pub(in crate::remote) epoch: u64,
    pub(in crate::remote) server: String,
    chain: LogPosition,
    frames: Box<dyn Frames>,
    /// A probe whose end of the log is not applied yet: number, and the moment when it was sent.
    unreached: Option<(u64, Moment)>,
    /// Nodes that wait for a confirmation of this one.
    asked: BTreeSet<u64>,
    confirming: Option<Confirming>,
    /// When memory is trusted again after trust was lost.
    settled: Option<Moment>,
}

impl<'a> Follower<'a> {
    pub(in crate::remote) fn new(
        member: &'a ClusterNode,
        epoch: u64,
        server: String,
        chain: LogPosition,
        frames: Box<dyn Frames>,
    ) -> Self {
        let (asked, confirming) = (BTreeSet::new(), None);
        Self { member, epoch, server, chain, frames, unreached: None, asked, confirming, settled: None }
    }

    /// Receives and probes until it cannot continue.
    pub(in crate::remote) async fn run(&mut self) -> End {
        let (mut probing, mut looking) = (self.probe(Instant::now()), self.look(Instant::now()));
        let mut heard = 0;
        loop {
            let step = tokio::select! {
                biased;
                news = self.frames.next(), if heard < HEARD_IN_A_ROW => {
                    heard += 1;
                    match news {
                        Some(news) => self.hear(news).await,
                        None => Err(End::Away),
                    }
                }
                (next, epoch) = &mut looking => {
                    looking = self.look(next);
                    let raised = epoch.is_some_and(|epoch| epoch > self.epoch) && rules::epoch_looked_up();
                    if raised { Err(End::Moved) } else { Ok(()) }
                }
                () = confirmed(&mut self.confirming) => {
                    self.confirming = None;
                    Ok(())
                }
                (next, sent, probed) = &mut probing => {
                    probing = self.probe(next);
                    match probed {
                        Ok(probed) => self.probed(sent, &probed).await,
                        // Trust ends at its deadline if no later probe is answered.
                        Err(_) => {
                            self.member.tally.probes_failed.add(1);
                            Ok(())
                        }
                    }
                }
                // Nothing else was due.
                () = std::future::ready(()), if heard >= HEARD_IN_A_ROW => {
                    heard = 0;
                    Ok(())
                }
            };
            if let Err(end) = step {
                return end;
            }
            self.confirm();
        }
    }

    /// Subscribes again, and reads what was missed.
    pub(super) async fn resume(&mut self) -> Result<(), End> {
        self.frames = self.member.shared().subscribe(self.epoch, self.member.bus.id).await?;
        self.unreached = None;
        self.repair().await
    }

    /// Reads what was missed from the log, in order.
    async fn repair(&mut self) -> Result<(), End> {
        let began = self.chain.number();
        loop {
            let most = self.member.following.replay_page;
            let page = self.member.shared().replay(self.epoch, self.chain.number(), most).await?;
            match self.chain.continues(page.first()) {
                Some(true) => {}
                Some(false) if rules::chain_before() => return Err(End::Fork),
                Some(false) => {}
                None => return self.rebase().await,
            }
            for frame in &page {
                match self.heard(frame) {
                    FrameOrder::Next => {
                        self.member.tally.replayed.add(1);
                        let message = self.member.bus.seal.open(frame.nonce, &frame.message);
                        self.apply(frame, message.and_then(Message::decode));
                    }
                    FrameOrder::Twice => {}
                    FrameOrder::Gap | FrameOrder::Fork => return Err(End::Fork),
                }
            }
            if page.len() < most {
                return Ok(());
            }
            if self.chain.number() - began > self.member.following.replay_max {
                return self.rebase().await;
            }
        }
    }

    /// Takes a new baseline: memory is emptied.
    pub(in crate::remote) fn adopt(&mut self, probed: &Probed) {
        self.chain = LogPosition::at(probed.number, probed.nonce);
        self.unreached = None;
        self.member.tally.baselines.add(1);
        self.member.tally.has_seen(probed.number);
        self.member.node.adopt(self.epoch, probed.number);
    }

    /// Too many entries were missed to read them all.
    async fn rebase(&mut self) -> Result<(), End> {
        let probed = self.member.shared().probe(self.epoch, &self.member.alive(self.epoch)).await?;
        if self.forgotten(&probed) {
            return Err(End::Fork);
        }
        self.adopt(&probed);
        Ok(())
    }

    /// A probe at this time, and when the next one is due.
    fn probe(&self, at: Instant) -> Probing {
        let (member, epoch) = (self.member.clone(), self.epoch);
        Box::pin(async move {
            sleep_until(at).await;
            let next = Instant::now() + member.following.probe_every;
            let alive = member.alive(epoch);
            let sent = Sent { at: member.node.now(), applied: alive.applied };
            let probed = timeout(member.following.trust, member.shared().probe(epoch, &alive)).await;
            (next, sent, probed.unwrap_or(Err(SharedError::Timeout)))
        })
    }

    /// Reads the epoch in the store a while after this time: the node that raised it may have died before it wrote it
    /// to the shared server.
    fn look(&self, from: Instant) -> Looking {
        let (epochs, every) = (Arc::clone(&self.member.bus.epochs), self.member.following.look_every);
        Box::pin(async move {
            sleep_until(from + every).await;
            let current = timeout(every, epochs.current()).await;
            (Instant::now(), current.ok().and_then(Result::ok).map(|(epoch, _)| epoch))
        })
    }

    async fn hear(&mut self, news: News) -> Result<(), End> {
        match news {
            News::Entry(bytes) => return self.hear_entry(&bytes).await,
            News::Filled(address) => self.member.bus.sharing.wakes.wake(&address),
            News::Confirmed(confirmed) => self.member.bus.confirmations.heard(confirmed),
        }
        Ok(())
    }

    async fn hear_entry(&mut self, bytes: &[u8]) -> Result<(), End> {
        // Other programs may write to the channel; a lost entry shows as a gap.
        let frame = Frame::heard(bytes);
        let message = frame.as_ref().and_then(|frame| self.member.bus.seal.open(frame.nonce, &frame.message));
        let Some(frame) = frame.as_ref().filter(|_| message.is_some() || !rules::sealed()) else {
            self.member.tally.forged.add(1);
            return Ok(());
        };
        match self.heard(frame) {
            FrameOrder::Next => {
                let message = message.and_then(Message::decode);
                self.measure(message.as_ref());
                self.apply(frame, message);
            }
            FrameOrder::Twice => {}
            FrameOrder::Gap => {
                self.member.tally.gaps.add(1);
                self.repair().await?;
            }
            // Only the log distinguishes a fork from a repeated message.
            FrameOrder::Fork if rules::fork_by_log() => self.repair().await?,
            FrameOrder::Fork => return Err(End::Fork),
        }
        Ok(())
    }

    fn measure(&self, message: Option<&Message<'_>>) {
        if let Some(message) = message {
            let late = wall_clock_ms().saturating_sub(message.sent_ms);
            self.member.tally.propagation.record(Duration::from_millis(late));
        }
    }

    fn heard(&self, frame: &Frame) -> FrameOrder {
        match self.chain.hear(frame) {
            FrameOrder::Fork if !rules::chain_before() => {
                if frame.number > self.chain.number() {
                    FrameOrder::Next
                } else {
                    FrameOrder::Twice
                }
            }
            FrameOrder::Gap if !rules::chain_gap() && frame.number > self.chain.number() => FrameOrder::Next,
            heard => heard,
        }
    }

    /// Handles the answer of the server to a probe.
    async fn probed(&mut self, sent: Sent, probed: &Probed) -> Result<(), End> {
        if self.member.bus.sharing.queue.barrier() > self.epoch && rules::overflow_raises() {
            return Err(End::Moved);
        }
        if probed.epoch > self.epoch && rules::probe_epoch() {
            return Err(End::Moved);
        }
        if probed.server != self.server && rules::probe_server() {
            self.server.clone_from(&probed.server);
            return Err(End::Fork);
        }
        if self.forgotten(probed) {
            return Err(End::Fork);
        }
        if probed.number < sent.applied && rules::probe_behind() {
            // The log lacks an entry that this node had applied when it sent the probe.
            return Err(End::Fork);
        }
        self.member.tally.has_seen(probed.number);
        if self.unreached.is_some_and(|(number, _)| number > self.chain.number()) {
            self.repair().await?;
        }
        match self.chain.knows(probed.number, probed.nonce) {
            Some(true) => self.trust(sent.at),
            Some(false) if rules::chain_before() => return Err(End::Fork),
            Some(false) => self.trust(sent.at),
            None if probed.number > self.chain.number() => self.unreached = Some((probed.number, sent.at)),
            None => self.repair().await?,
        }
        Ok(())
    }

    /// Whether the server has lost the epoch that this node sent when it entered it.
    fn forgotten(&self, probed: &Probed) -> bool {
        probed.epoch < self.epoch && rules::probe_forgotten()
    }

    /// Applies the frame. `None`: it was written by a newer version of the product, or by an outsider; what changed is
    /// not known here.
    fn apply(&mut self, frame: &Frame, message: Option<Message<'_>>) {
        let member = self.member;
        match message {
            Some(message) => {
                for told in &message.changes {
                    member.node.hear(told);
                    member.recent.heard(self.epoch, told);
                }
                if message.strict && message.origin != member.bus.id {
                    self.asked.insert(message.origin);
                }
            }
            None => {
                member.tally.forged.add(1);
                if rules::unread_flushes() {
                    member.node.flush();
                }
            }
        }
        member.tally.applied.add(1);
        self.chain.applied(frame);
        member.node.reach(frame.number);
        if let Some((number, sent)) = self.unreached
            && number <= frame.number
        {
            self.unreached = None;
            self.trust(sent);
        }
    }

    /// After a time without trust other nodes may have lost it, too, and may still have changes to publish: they get a
    /// moment before memory is trusted again.
    fn trust(&mut self, sent: Moment) {
        let now = self.member.node.now();
        if self.member.node.has_lapsed(now) && rules::settles_first() {
            let settled = *self.settled.get_or_insert_with(|| now.after(self.member.following.settle));
            if now < settled {
                return;
            }
        }
        self.settled = None;
        let from = if rules::trust_from_sending() { sent } else { now };
        self.member.node.trust_until(from.after(self.member.following.trust));
    }

    /// Begins to confirm to the nodes that wait, unless confirmations are in progress: then further requests are part
    /// of the next ones.
    fn confirm(&mut self) {
        if self.confirming.is_some() || self.asked.is_empty() {
            return;
        }
        let (shared, epoch) = (Arc::clone(self.member.shared()), self.epoch);
        let confirmed = Confirmed { node: self.member.bus.id, number: self.chain.number() };
        let asked = std::mem::take(&mut self.asked);
        self.confirming = Some(Box::pin(async move {
            let confirmations = asked.iter().map(|origin| shared.confirm(epoch, *origin, confirmed));
            // A node that receives no confirmation waits until this node can no longer trust its memory.
            drop(join_all(confirmations).await);
        }));
    }
}

/// The end of the confirmations in progress; never, if there are none.
async fn confirmed(confirming: &mut Option<Confirming>) {
    match confirming {
        Some(confirming) => confirming.await,
        None => std::future::pending().await,
    }
}
