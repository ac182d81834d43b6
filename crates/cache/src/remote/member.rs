//! How a node follows the log: hears, repairs, and trusts its memory only as long as it can prove that it
//! missed nothing (coherence, "Log, broadcast, chain" and "Trust is a deadline").

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Chain, Frame, Frames, Heard, Probed, Queue, Shared, SharedError, changes};
use crate::{Moment, Node, Random, guards};

/// Where the epoch is kept: the store, for the shared server may forget.
#[async_trait::async_trait]
pub trait Epochs: std::fmt::Debug + Send + Sync + 'static {
    /// The epoch, and which shared server it belongs to; empty: none so far.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn current(&self) -> Result<(u64, String), SharedError>;

    /// Raises the epoch to `seen + 1`, for this shared server, if it still is `seen`. Returns the epoch
    /// afterwards, whoever raised it.
    ///
    /// # Errors
    /// When the store does not answer; it may be raised.
    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError>;
}

/// How a node follows.
#[derive(Clone, Copy, Debug)]
pub struct Following {
    /// Time between two probes.
    pub probe_every: Duration,
    /// How long memory is trusted, from the sending of a probe that was answered and reached.
    pub trust: Duration,
    /// Entries that one step of a repair reads.
    pub replay_page: usize,
    /// Entries that a repair reads at most before it takes a new baseline.
    pub replay_max: u64,
    /// Longest pause between two tries to join.
    pub retry_max: Duration,
}

impl Default for Following {
    /// 250 ms, 1.5 s, 1,000, 50,000, 500 ms.
    fn default() -> Self {
        Self {
            probe_every: Duration::from_millis(250),
            trust: Duration::from_millis(1_500),
            replay_page: 1_000,
            replay_max: 50_000,
            retry_max: Duration::from_millis(500),
        }
    }
}

/// A node among others.
#[derive(Clone, Debug)]
pub struct Member {
    /// Whose memory follows.
    pub node: Node,
    /// Its number among the nodes.
    pub id: u64,
    /// The server that they share.
    pub shared: Arc<dyn Shared>,
    /// Where the epoch is kept.
    pub epochs: Arc<dyn Epochs>,
    /// What the node could not tell.
    pub queue: Arc<Queue>,
    /// Times and bounds.
    pub following: Following,
    /// Where the spread of retries comes from.
    pub random: Arc<dyn Random>,
}

/// Why following has to begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server or the store did not answer.
    Away,
    /// There is a higher epoch.
    Moved,
    /// The log is not the one that was followed, or the server not the one of the epoch.
    Fork,
}

impl From<SharedError> for End {
    fn from(_: SharedError) -> Self {
        Self::Away
    }
}

/// A probe under way: when the next one is due, what there was when it was sent, and its answer.
type Probing = Pin<Box<dyn Future<Output = (Instant, Sent, Result<Probed, SharedError>)> + Send>>;

/// A node when it sent a probe.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Moment,
    /// The last entry that it had applied.
    applied: u64,
}

/// A member that is subscribed and has a baseline.
struct Follower<'a> {
    member: &'a Member,
    epoch: u64,
    server: String,
    chain: Chain,
    frames: Box<dyn Frames>,
    /// The answer to a probe that is not reached yet: number, and the moment it was sent.
    unreached: Option<(u64, Moment)>,
}

impl Member {
    /// Follows until it is dropped. Trust ends by itself when it is.
    pub async fn follow(&self) {
        loop {
            let Err(end) = self.try_follow().await;
            tracing::debug!(?end, "follows no longer; beginning anew");
            sleep(self.following.retry_max.mul_f64(0.1 + 0.9 * self.random.unit())).await;
        }
    }

    async fn try_follow(&self) -> Result<std::convert::Infallible, End> {
        let mut follower = self.join().await?;
        loop {
            match follower.run().await {
                End::Away => follower = self.rejoin(follower).await?,
                End::Fork => {
                    self.epochs.raise(follower.epoch, &follower.server).await?;
                    return Err(End::Fork);
                }
                End::Moved => return Err(End::Moved),
            }
        }
    }

    /// Subscribes first and takes the baseline then: what is told between is heard.
    async fn join(&self) -> Result<Follower<'_>, End> {
        let (epoch, server) = self.epochs.current().await?;
        let frames = self.shared.subscribe(epoch).await?;
        let probed = self.shared.probe(epoch, self.id).await?;
        if probed.server != server {
            self.epochs.raise(epoch, &probed.server).await?;
            return Err(End::Moved);
        }
        if probed.epoch > epoch {
            // The store was put back behind what nodes have seen.
            self.epochs.raise(epoch, &server).await?;
            return Err(End::Moved);
        }
        let chain = Chain::at(probed.number, probed.nonce);
        let mut follower = Follower { member: self, epoch, server, chain, frames, unreached: None };
        follower.adopt(&probed);
        Ok(follower)
    }

    /// The connection was lost, the past is known: what was missed is read.
    async fn rejoin<'a>(&'a self, lost: Follower<'a>) -> Result<Follower<'a>, End> {
        let frames = self.shared.subscribe(lost.epoch).await?;
        let mut follower = Follower { frames, unreached: None, ..lost };
        follower.repair().await?;
        Ok(follower)
    }
}

impl Follower<'_> {
    async fn run(&mut self) -> End {
        let mut probing = self.probe(Instant::now());
        loop {
            let step = tokio::select! {
                biased;
                heard = self.frames.next() => match heard {
                    Some(bytes) => self.hear(&bytes).await,
                    None => Err(End::Away),
                },
                (next, sent, probed) = &mut probing => {
                    probing = self.probe(next);
                    match probed {
                        Ok(probed) => self.probed(sent, &probed).await,
                        // Trust ends at its deadline if no later one is answered.
                        Err(_) => Ok(()),
                    }
                }
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// A probe at this time, and when the next one is due.
    fn probe(&self, at: Instant) -> Probing {
        let (member, epoch) = (self.member.clone(), self.epoch);
        Box::pin(async move {
            sleep_until(at).await;
            let next = Instant::now() + member.following.probe_every;
            let sent = Sent { at: member.node.now(), applied: member.node.applied() };
            let probed = timeout(member.following.trust, member.shared.probe(epoch, member.id)).await;
            (next, sent, probed.unwrap_or(Err(SharedError::Timeout)))
        })
    }

    async fn hear(&mut self, bytes: &[u8]) -> Result<(), End> {
        // Others may write to the channel; what is missing for it shows as a gap.
        let Some(frame) = Frame::heard(bytes) else { return Ok(()) };
        match self.heard(&frame) {
            Heard::Next => self.apply(&frame),
            Heard::Twice => {}
            Heard::Gap => self.repair().await?,
            Heard::Fork => return Err(End::Fork),
        }
        Ok(())
    }

    fn heard(&self, frame: &Frame) -> Heard {
        match self.chain.hear(frame) {
            Heard::Fork if !guards::chain_before() && frame.number > self.chain.number() => Heard::Next,
            Heard::Gap if !guards::chain_gap() && frame.number > self.chain.number() => Heard::Next,
            heard => heard,
        }
    }

    /// The answer of the server to what this node sent at that moment.
    async fn probed(&mut self, sent: Sent, probed: &Probed) -> Result<(), End> {
        if self.member.queue.barrier() > self.epoch && guards::overflow_raises() {
            return Err(End::Moved);
        }
        if probed.epoch > self.epoch && guards::probe_epoch() {
            return Err(End::Moved);
        }
        if probed.server != self.server && guards::probe_server() {
            self.server.clone_from(&probed.server);
            return Err(End::Fork);
        }
        if probed.number < sent.applied && guards::probe_behind() {
            // The log lacks what this node had applied when it asked.
            return Err(End::Fork);
        }
        if self.unreached.is_some_and(|(number, _)| number > self.chain.number()) {
            self.repair().await?;
        }
        match self.chain.knows(probed.number, probed.nonce) {
            Some(true) => self.trust(sent.at),
            Some(false) => return Err(End::Fork),
            None if probed.number > self.chain.number() => self.unreached = Some((probed.number, sent.at)),
            None => self.repair().await?,
        }
        Ok(())
    }

    /// Reads what was missed from the log, in order.
    async fn repair(&mut self) -> Result<(), End> {
        let began = self.chain.number();
        loop {
            let most = self.member.following.replay_page;
            let page = self.member.shared.replay(self.epoch, self.chain.number(), most).await?;
            match self.chain.continues(page.first()) {
                Some(true) => {}
                Some(false) => return Err(End::Fork),
                None => return self.rebase().await,
            }
            for frame in &page {
                match self.chain.hear(frame) {
                    Heard::Next => self.apply(frame),
                    Heard::Twice => {}
                    Heard::Gap | Heard::Fork => return Err(End::Fork),
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

    /// Too much was missed to read it all: memory is emptied, and the past begins here.
    async fn rebase(&mut self) -> Result<(), End> {
        let probed = self.member.shared.probe(self.epoch, self.member.id).await?;
        self.adopt(&probed);
        Ok(())
    }

    fn adopt(&mut self, probed: &Probed) {
        self.chain = Chain::at(probed.number, probed.nonce);
        self.unreached = None;
        self.member.node.adopt(self.epoch, probed.number);
    }

    fn apply(&mut self, frame: &Frame) {
        match changes(&frame.message) {
            Some(told) => told.iter().for_each(|told| self.member.node.hear(told)),
            // Written by a newer version of the product: what changed is not known here.
            None => self.member.node.flush(),
        }
        self.chain.applied(frame);
        self.member.node.reach(frame.number);
        if let Some((number, sent)) = self.unreached
            && number <= frame.number
        {
            self.unreached = None;
            self.trust(sent);
        }
    }

    fn trust(&self, sent: Moment) {
        let from = if guards::trust_from_sending() { sent } else { self.member.node.now() };
        self.member.node.trust_until(from.after(self.member.following.trust));
    }
}
