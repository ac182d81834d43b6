//! The link between a node and the server: delays at random, and links that are cut, frozen or stalled.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kith_cache::remote::{
    Acquired, Cell, CellWrite, Cells, ChangeAnswer, Confirmation, FakeServer, FillResult, Frame, Frames,
    Header, Heartbeat, Log, LogEntry, Peer, ProbeAnswer, Registry, SharedError,
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    faults::Fault,
    frames::Subscription,
    holds::{Call, Direction},
    store::StoreClient,
};

/// How long a call may take.
const CALL_BOUND: Duration = Duration::from_millis(100);

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Refused at once.
    Closed,
    /// Answers do not arrive.
    Frozen,
    /// Answers arrive only when the link works again: a router held them back.
    Stalled,
}

/// A node's connection to the server.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    server: FakeServer,
    pub(crate) client: StoreClient,
    began: Instant,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    link: AtomicU8,
    /// How many of the next entries are lost unnoticed.
    entries_to_lose: AtomicU64,
    /// The server that the node follows.
    accepted: Mutex<Option<String>>,
    /// Counts the cuts, so that subscriptions end.
    cuts: watch::Sender<u64>,
    /// Calls so far, by kind.
    calls: Mutex<BTreeMap<Call, u64>>,
}

impl Wire {
    pub(crate) fn new(server: &FakeServer, client: &StoreClient, began: Instant) -> Self {
        Self { server: server.clone(), client: client.clone(), began, state: Arc::default() }
    }

    pub(crate) fn set(&self, link: Link) {
        self.state.link.store(link as u8, Ordering::Relaxed);
        if link == Link::Closed {
            self.state.cuts.send_modify(|cuts| *cuts += 1);
        }
    }

    /// The next entries are lost without a sign.
    pub(crate) fn lose_entries(&self, entries: u64) {
        self.state.entries_to_lose.store(entries, Ordering::Relaxed);
    }

    /// Whether the entry that comes now is lost.
    pub(crate) fn loses_entry(&self) -> bool {
        let left = |left: u64| left.checked_sub(1);
        let scripted =
            self.state.entries_to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok();
        scripted || self.client.faults.has(Fault::Lossy) && self.client.chance.one_in(25)
    }

    /// How many calls of a kind were made so far.
    pub(crate) fn calls(&self, call: Call) -> u64 {
        self.state.calls.lock().get(&call).copied().unwrap_or(0)
    }

    pub(crate) fn link(&self) -> Link {
        match self.state.link.load(Ordering::Relaxed) {
            0 => Link::Up,
            1 => Link::Closed,
            2 => Link::Frozen,
            _ => Link::Stalled,
        }
    }

    /// Waits while nothing comes through.
    pub(crate) async fn stalled(&self) {
        while self.link() == Link::Stalled {
            sleep(Duration::from_millis(10)).await;
        }
        self.client.phases.runs().await;
    }

    /// One direction of a call.
    async fn pass(&self, call: Call, direction: Direction) -> Result<(), SharedError> {
        self.client.pass(call, direction).await;
        self.stalled().await;
        match self.link() {
            Link::Up | Link::Stalled => Ok(()),
            Link::Closed => Err(SharedError::Unavailable),
            Link::Frozen => Self::late().await,
        }
    }

    async fn late<T>() -> Result<T, SharedError> {
        sleep(CALL_BOUND).await;
        Err(SharedError::Timeout)
    }

    /// The call is delayed on its way there and on its way back; it may be done twice, and the answer may be
    /// lost.
    async fn call<T, F: Future<Output = Result<T, SharedError>>>(
        &self,
        call: Call,
        act: impl Fn(FakeServer) -> F,
    ) -> Result<T, SharedError> {
        *self.state.calls.lock().entry(call).or_default() += 1;
        self.client.store.truth.note((self.client.node, call, self.began.elapsed()));
        self.pass(call, Direction::Request).await?;
        let answer = act(self.server.clone()).await;
        if self.client.faults.has(Fault::Answers) && self.client.chance.one_in(20) {
            // A driver that sends again what it has no answer to.
            if self.client.chance.one_in(3) {
                drop(act(self.server.clone()).await);
            } else {
                return Self::late().await;
            }
        }
        self.pass(call, Direction::Response).await?;
        answer
    }

    /// Whether what answers now is the server that the node accepted.
    fn accepted(&self) -> Result<(), SharedError> {
        let accepted = self.state.accepted.lock().as_deref() == Some(self.server.name().as_str());
        if accepted { Ok(()) } else { Err(SharedError::Unavailable) }
    }

    /// A call that only the accepted server may get.
    async fn checked<T, F: Future<Output = Result<T, SharedError>>>(
        &self,
        call: Call,
        act: impl Fn(FakeServer) -> F,
    ) -> Result<T, SharedError> {
        self.call(call, |server| async {
            self.accepted()?;
            act(server).await
        })
        .await
    }
}

#[async_trait]
impl Cells for Wire {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        self.checked(Call::Read, |server| async move {
            let cells = server.read(keys).await?;
            keys.iter()
                .zip(&cells)
                .for_each(|(key, cell)| self.client.store.truth.check_read(key, cell.as_ref()));
            Ok(cells)
        })
        .await
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        self.checked(Call::Heads, |server| async move { server.heads(keys).await }).await
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        self.checked(Call::Acquire, |server| async move { server.acquire(keys, token).await }).await
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<FillResult>, SharedError> {
        self.checked(Call::Fill, |server| async move { server.fill(cells).await }).await
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        self.checked(Call::Release, |server| async move { server.release(keys, token).await }).await
    }
}

#[async_trait]
impl Log for Wire {
    async fn change(
        &self,
        epoch: u64,
        writes: &[(String, CellWrite)],
        entry: LogEntry<'_>,
    ) -> Result<ChangeAnswer, SharedError> {
        self.checked(Call::Change, |server| async move {
            let changed = server.change(epoch, writes, entry).await?;
            self.client.store.truth.changed(epoch, writes, &changed);
            Ok(changed)
        })
        .await
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        self.call(Call::Replay, |server| async move { server.replay(epoch, from, most).await }).await
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        let cuts = self.state.cuts.subscribe();
        let subscribed =
            self.call(Call::Subscribe, |server| async move { server.subscribe(epoch, node).await });
        Ok(Box::new(Subscription::new(self, subscribed.await?, cuts)))
    }

    async fn confirm(&self, epoch: u64, to: &[u64], confirmed: Confirmation) -> Result<(), SharedError> {
        self.checked(Call::Confirm, |server| async move { server.confirm(epoch, to, confirmed).await }).await
    }
}

#[async_trait]
impl Registry for Wire {
    async fn enter(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.call(Call::Probe, |server| async move {
            let probed = server.enter(epoch, heartbeat).await?;
            self.client.store.truth.epoch_received(probed.epoch);
            Ok(probed)
        })
        .await
    }

    async fn probe(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.call(Call::Probe, |server| async move { server.probe(epoch, heartbeat).await }).await
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError> {
        self.call(Call::Registry, |server| async move { server.peers(epoch).await }).await
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        self.call(Call::Registry, |server| async move { server.leave(epoch, node).await }).await
    }

    fn accept(&self, server: &str) {
        *self.state.accepted.lock() = Some(server.to_owned());
    }
}
