//! How a node follows the log: it receives entries, repairs gaps, and trusts its memory only while it can
//! prove that it missed no change (ADR 0012; docs/operate/coherence.md, "When a node trusts its memory").

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};

use super::{ClusterNode, FrameOrder, LogPosition};
use crate::{
    Moment,
    api::clock::wall_clock_ms,
    remote::shared::{Confirmation, Frame, Frames, Message, News, ProbeAnswer, SharedError},
    testing::rules,
};

/// Maximum messages that are read before other due work is done. Outsiders who publish more than a node can
/// read must not prevent its probes.
const RECEIVED_IN_A_ROW: u32 = 64;

/// A probe in progress: when the next probe is due, the state when it was sent, and its answer.
type PendingProbe =
    Pin<Box<dyn Future<Output = (Instant, SentProbe, Result<ProbeAnswer, SharedError>)> + Send>>;
/// A read of the store's epoch: when the next read is due, and the epoch unless the store did not answer.
type PendingEpochCheck = Pin<Box<dyn Future<Output = (Instant, Option<u64>)> + Send>>;
/// A confirmation in progress.
type PendingConfirmation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The state of a node when it sent a probe.
#[derive(Clone, Copy, Debug)]
struct SentProbe {
    at: Moment,
    /// The last entry that it had applied.
    applied: u64,
}

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) enum FollowEnd {
    /// The server or the store did not answer.
    Unavailable,
    /// There is a higher epoch.
    Moved,
    /// The log is not the log that was followed, or the server does not belong to the epoch.
    Fork,
}

impl From<SharedError> for FollowEnd {
    fn from(_: SharedError) -> Self {
        Self::Unavailable
    }
}

/// A node that is subscribed to a log and has a position in it.
pub(in crate::remote) struct Follower<'a> {
    member: &'a ClusterNode,
    pub(in crate::remote) epoch: u64,
    pub(in crate::remote) server: String,
    /// The position in the log, whose entries are chained by their nonces.
    position: LogPosition,
    frames: Box<dyn Frames>,
    /// The latest probe whose log end is not applied yet: the number of that entry, and when the probe was
    /// sent.
    unapplied: Option<(u64, Moment)>,
    /// Strict writers that wait for a confirmation of this node.
    waiting: BTreeSet<u64>,
    confirming: Option<PendingConfirmation>,
    /// When memory is trusted again after trust was lost.
    trust_again_at: Option<Moment>,
}

impl<'a> Follower<'a> {
    pub(in crate::remote) fn new(
        member: &'a ClusterNode,
        epoch: u64,
        server: String,
        position: LogPosition,
        frames: Box<dyn Frames>,
    ) -> Self {
        let (waiting, confirming) = (BTreeSet::new(), None);
        Self {
            member,
            epoch,
            server,
            position,
            frames,
            unapplied: None,
            waiting,
            confirming,
            trust_again_at: None,
        }
    }

    /// Receives entries and sends probes until it cannot continue.
    pub(in crate::remote) async fn run(&mut self) -> FollowEnd {
        let (mut pending_probe, mut epoch_check) =
            (self.probe(Instant::now()), self.check_epoch(Instant::now()));
        let mut received = 0;
        loop {
            let step = tokio::select! {
                biased;
                news = self.frames.next(), if received < RECEIVED_IN_A_ROW => {
                    received += 1;
                    match news {
                        Some(news) => self.handle(news).await,
                        None => Err(FollowEnd::Unavailable),
                    }
                }
                (next, epoch) = &mut epoch_check => {
                    epoch_check = self.check_epoch(next);
                    let raised = epoch.is_some_and(|epoch| epoch > self.epoch) && rules::epoch_looked_up();
                    if raised { Err(FollowEnd::Moved) } else { Ok(()) }
                }
                () = confirmed(&mut self.confirming) => {
                    self.confirming = None;
                    Ok(())
                }
                (next, sent, probed) = &mut pending_probe => {
                    pending_probe = self.probe(next);
                    match probed {
                        Ok(probed) => self.handle_probe_answer(sent, &probed).await,
                        // Trust ends at its deadline if no later probe is answered.
                        Err(_) => {
                            self.member.stats.probes_failed.add(1);
                            Ok(())
                        }
                    }
                }
                // No other work was due.
                () = std::future::ready(()), if received >= RECEIVED_IN_A_ROW => {
                    received = 0;
                    Ok(())
                }
            };
            if let Err(end) = step {
                return end;
            }
            self.confirm();
        }
    }

    /// Subscribes again, and reads the missed entries.
    pub(super) async fn resume(&mut self) -> Result<(), FollowEnd> {
        self.frames = self.member.shared().subscribe(self.epoch, self.member.bus.id).await?;
        self.unapplied = None;
        self.repair().await
    }

    /// Reads the missed entries from the log, in order, and applies them.
    async fn repair(&mut self) -> Result<(), FollowEnd> {
        let first = self.position.number();
        loop {
            let size = self.member.config.replay_page;
            let page = self.member.shared().replay(self.epoch, self.position.number(), size).await?;
            match self.position.continues(page.first()) {
                Some(true) => {}
                Some(false) if rules::chain_before() => return Err(FollowEnd::Fork),
                Some(false) => {}
                None => return self.rebase().await,
            }
            for frame in &page {
                match self.order_of(frame) {
                    FrameOrder::Next => {
                        self.member.stats.replayed.add(1);
                        let message = self.member.bus.mac.verify(frame.nonce, &frame.message);
                        self.apply(frame, message.and_then(Message::decode));
                    }
                    FrameOrder::Repeated => {}
                    FrameOrder::Gap | FrameOrder::Fork => return Err(FollowEnd::Fork),
                }
            }
            if page.len() < size {
                return Ok(());
            }
            if self.position.number() - first > self.member.config.replay_max {
                return self.rebase().await;
            }
        }
    }

    /// Takes the probed end of the log as a new baseline, and empties memory.
    pub(in crate::remote) fn adopt(&mut self, probed: &ProbeAnswer) {
        self.position = LogPosition::at(probed.number, probed.nonce);
        self.unapplied = None;
        self.member.stats.baselines.add(1);
        self.member.stats.record_log_end(probed.number);
        self.member.node.adopt(self.epoch, probed.number);
    }

    /// Takes a new baseline if too many entries were missed, or the log was trimmed beyond the position.
    async fn rebase(&mut self) -> Result<(), FollowEnd> {
        let probed = self.member.shared().probe(self.epoch, &self.member.heartbeat(self.epoch)).await?;
        if self.has_lost_epoch(&probed) {
            return Err(FollowEnd::Fork);
        }
        self.adopt(&probed);
        Ok(())
    }

    /// Sends a probe at this time.
    fn probe(&self, at: Instant) -> PendingProbe {
        let (member, epoch) = (self.member.clone(), self.epoch);
        Box::pin(async move {
            sleep_until(at).await;
            let next = Instant::now() + member.config.probe_every;
            let heartbeat = member.heartbeat(epoch);
            let sent = SentProbe { at: member.node.now(), applied: heartbeat.applied };
            let probed = timeout(member.config.trust, member.shared().probe(epoch, &heartbeat)).await;
            (next, sent, probed.unwrap_or(Err(SharedError::Timeout)))
        })
    }

    /// Reads the epoch in the store `epoch_check_every` after this time. The node that raised the epoch may
    /// have died before it wrote the epoch to the shared server.
    fn check_epoch(&self, from: Instant) -> PendingEpochCheck {
        let (epochs, every) = (Arc::clone(&self.member.bus.epochs), self.member.config.epoch_check_every);
        Box::pin(async move {
            sleep_until(from + every).await;
            let current = timeout(every, epochs.current()).await;
            (Instant::now(), current.ok().and_then(Result::ok).map(|(epoch, _)| epoch))
        })
    }

    async fn handle(&mut self, news: News) -> Result<(), FollowEnd> {
        match news {
            News::Entry(bytes) => return self.handle_entry(&bytes).await,
            News::LeaseEnded(address) => self.member.bus.sharing.lease_waiters.wake(&address),
            News::Confirmed(confirmed) => self.member.bus.confirmations.record(confirmed),
        }
        Ok(())
    }

    async fn handle_entry(&mut self, bytes: &[u8]) -> Result<(), FollowEnd> {
        // Other programs may write to the channel. If an entry is dropped here, the next one shows a gap.
        let frame = Frame::from_bytes(bytes);
        let message =
            frame.as_ref().and_then(|frame| self.member.bus.mac.verify(frame.nonce, &frame.message));
        let Some(frame) = frame.as_ref().filter(|_| message.is_some() || !rules::mac_checked()) else {
            self.member.stats.forged.add(1);
            return Ok(());
        };
        match self.order_of(frame) {
            FrameOrder::Next => {
                let message = message.and_then(Message::decode);
                self.record_delay(message.as_ref());
                self.apply(frame, message);
            }
            FrameOrder::Repeated => {}
            FrameOrder::Gap => {
                self.member.stats.gaps.add(1);
                self.repair().await?;
            }
            // Any program may send a message. Only the log is proof of a fork.
            FrameOrder::Fork if rules::fork_by_log() => self.repair().await?,
            FrameOrder::Fork => return Err(FollowEnd::Fork),
        }
        Ok(())
    }

    fn record_delay(&self, message: Option<&Message<'_>>) {
        if let Some(message) = message {
            let late = wall_clock_ms().saturating_sub(message.sent_ms);
            self.member.stats.propagation.record(Duration::from_millis(late));
        }
    }

    fn order_of(&self, frame: &Frame) -> FrameOrder {
        match self.position.classify(frame) {
            FrameOrder::Fork if !rules::chain_before() => {
                if frame.number > self.position.number() {
                    FrameOrder::Next
                } else {
                    FrameOrder::Repeated
                }
            }
            FrameOrder::Gap if !rules::chain_gap() && frame.number > self.position.number() => {
                FrameOrder::Next
            }
            order => order,
        }
    }

    /// Handles the answer of the server to a probe.
    async fn handle_probe_answer(&mut self, sent: SentProbe, probed: &ProbeAnswer) -> Result<(), FollowEnd> {
        if self.member.bus.sharing.queue.barrier() > self.epoch && rules::overflow_raises() {
            return Err(FollowEnd::Moved);
        }
        if probed.epoch > self.epoch && rules::probe_epoch() {
            return Err(FollowEnd::Moved);
        }
        if probed.server != self.server && rules::probe_server() {
            self.server.clone_from(&probed.server);
            return Err(FollowEnd::Fork);
        }
        if self.has_lost_epoch(probed) {
            return Err(FollowEnd::Fork);
        }
        if probed.number < sent.applied && rules::probe_behind() {
            // The log lacks an entry that this node had applied when it sent the probe.
            return Err(FollowEnd::Fork);
        }
        self.member.stats.record_log_end(probed.number);
        if self.unapplied.is_some_and(|(number, _)| number > self.position.number()) {
            self.repair().await?;
        }
        match self.position.knows(probed.number, probed.nonce) {
            Some(true) => self.trust(sent.at),
            Some(false) if rules::chain_before() => return Err(FollowEnd::Fork),
            Some(false) => self.trust(sent.at),
            None if probed.number > self.position.number() => self.unapplied = Some((probed.number, sent.at)),
            None => self.repair().await?,
        }
        Ok(())
    }

    /// Whether the server has lost the epoch, which this node sent to it when it entered the epoch.
    fn has_lost_epoch(&self, probed: &ProbeAnswer) -> bool {
        probed.epoch < self.epoch && rules::probe_forgotten()
    }

    /// Applies a frame. `message` is `None` if a newer product version or an outsider wrote the frame. Then
    /// it is unknown what changed, and memory is emptied.
    fn apply(&mut self, frame: &Frame, message: Option<Message<'_>>) {
        let member = self.member;
        match message {
            Some(message) => {
                for change in &message.changes {
                    member.node.apply_change(change);
                    member.recent.record(self.epoch, change);
                }
                if message.strict && message.origin != member.bus.id {
                    self.waiting.insert(message.origin);
                }
            }
            None => {
                member.stats.forged.add(1);
                if rules::unread_flushes() {
                    member.node.flush();
                }
            }
        }
        member.stats.applied.add(1);
        self.position.advance(frame);
        member.node.reach(frame.number);
        if let Some((number, sent)) = self.unapplied
            && number <= frame.number
        {
            self.unapplied = None;
            self.trust(sent);
        }
    }

    /// Trusts memory again, counted from the time when the probe was sent. After trust was lost, memory is
    /// not trusted for `settle_time`: other nodes may have lost trust, too, and may still have changes to
    /// publish.
    fn trust(&mut self, sent: Moment) {
        let now = self.member.node.now();
        if self.member.node.has_lapsed(now) && rules::settles_first() {
            let trust_again_at =
                *self.trust_again_at.get_or_insert_with(|| now.after(self.member.config.settle_time));
            if now < trust_again_at {
                return;
            }
        }
        self.trust_again_at = None;
        let from = if rules::trust_from_sending() { sent } else { now };
        self.member.node.trust_until(from.after(self.member.config.trust));
    }

    /// Begins to confirm to the nodes that wait, in one call, unless a confirmation is in progress. Nodes
    /// that begin to wait meanwhile get the next confirmation.
    fn confirm(&mut self) {
        if self.confirming.is_some() || self.waiting.is_empty() {
            return;
        }
        let (shared, epoch) = (Arc::clone(self.member.shared()), self.epoch);
        let confirmed = Confirmation { node: self.member.bus.id, number: self.position.number() };
        let waiting: Vec<u64> = std::mem::take(&mut self.waiting).into_iter().collect();
        self.confirming = Some(Box::pin(async move {
            // A writer that receives no confirmation waits until this node can no longer trust its memory.
            let _sent = shared.confirm(epoch, &waiting, confirmed).await;
        }));
    }
}

/// Waits for the end of the confirmation in progress. Never returns if there is none.
async fn confirmed(confirming: &mut Option<PendingConfirmation>) {
    match confirming {
        Some(confirming) => confirming.await,
        None => std::future::pending().await,
    }
}
