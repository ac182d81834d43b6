//! What lies between a node and the server: delays by chance, and links that are cut or frozen.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kith_cache::remote::{
    Acquired, Alive, Cell, Cells, Changed, Confirmed, Entry, FakeServer, Filled, Frame, Frames, Header, Log,
    News, Order, Peer, Probed, Registry, SharedError,
};
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};

use crate::chance::Chance;

/// How long a call may take.
const BOUND: Duration = Duration::from_millis(100);

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Refused at once.
    Closed,
    /// Nothing comes back.
    Frozen,
    /// It comes, but only when the link is well again: the node was stopped, or a router held it back.
    Stalled,
}

/// A node's way to the server.
#[derive(Clone)]
pub(crate) struct Wire {
    server: FakeServer,
    chance: Chance,
    link: Arc<AtomicU8>,
    /// The server that the node follows.
    accepted: Arc<Mutex<Option<String>>>,
    /// Counts the cuts, so that subscriptions end.
    cuts: watch::Sender<u64>,
    /// Of a thousand frames so many are lost unnoticed.
    lossy: u64,
}

impl Wire {
    pub(crate) fn new(server: &FakeServer, chance: &Chance, lossy: u64) -> Self {
        let (server, chance) = (server.clone(), chance.clone());
        Self {
            server,
            chance,
            link: Arc::new(AtomicU8::new(0)),
            accepted: Arc::default(),
            cuts: watch::Sender::new(0),
            lossy,
        }
    }

    pub(crate) fn set(&self, link: Link) {
        self.link.store(link as u8, Ordering::Relaxed);
        if link == Link::Closed {
            self.cuts.send_modify(|cuts| *cuts += 1);
        }
    }

    fn link(&self) -> Link {
        match self.link.load(Ordering::Relaxed) {
            0 => Link::Up,
            1 => Link::Closed,
            2 => Link::Frozen,
            _ => Link::Stalled,
        }
    }

    /// One way of a call.
    async fn pass(&self) -> Result<(), SharedError> {
        sleep(self.chance.delay()).await;
        match self.link() {
            Link::Up => Ok(()),
            Link::Closed => Err(SharedError::Away),
            Link::Frozen => {
                sleep(BOUND).await;
                Err(SharedError::Timeout)
            }
            Link::Stalled => {
                while self.link() == Link::Stalled {
                    sleep(Duration::from_millis(10)).await;
                }
                Ok(())
            }
        }
    }

    /// There, done, and back; what was done may be done again, and the answer may be lost.
    async fn call<T, F: Future<Output = Result<T, SharedError>>>(
        &self,
        act: impl Fn(FakeServer) -> F,
    ) -> Result<T, SharedError> {
        self.pass().await?;
        let answer = act(self.server.clone()).await;
        if self.chance.one_in(200) {
            // A driver that sends again what it has no answer to.
            drop(act(self.server.clone()).await);
        }
        if self.chance.one_in(50) {
            sleep(BOUND).await;
            return Err(SharedError::Timeout);
        }
        self.pass().await?;
        answer
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("link", &self.link()).finish_non_exhaustive()
    }
}

impl Wire {
    /// Whether what answers now is the server that the node accepted.
    fn accepted(&self) -> Result<(), SharedError> {
        let accepted = self.accepted.lock().as_deref() == Some(self.server.name().as_str());
        if accepted { Ok(()) } else { Err(SharedError::Away) }
    }

    /// A call that only the accepted server may get.
    async fn checked<T, F: Future<Output = Result<T, SharedError>>>(
        &self,
        act: impl Fn(FakeServer) -> F,
    ) -> Result<T, SharedError> {
        self.call(|server| async {
            self.accepted()?;
            act(server).await
        })
        .await
    }
}

#[async_trait]
impl Cells for Wire {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        self.checked(|server| async move { server.read(keys).await }).await
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        self.checked(|server| async move { server.heads(keys).await }).await
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        self.checked(|server| async move { server.acquire(keys, token).await }).await
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<Filled>, SharedError> {
        self.checked(|server| async move { server.fill(cells).await }).await
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        self.checked(|server| async move { server.release(keys, token).await }).await
    }
}

#[async_trait]
impl Log for Wire {
    async fn change(
        &self,
        epoch: u64,
        orders: &[(String, Order)],
        entry: Entry<'_>,
    ) -> Result<Changed, SharedError> {
        self.checked(|server| async move { server.change(epoch, orders, entry).await }).await
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        self.call(|server| async move { server.replay(epoch, from, most).await }).await
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        let cuts = self.cuts.subscribe();
        let frames = self.call(|server| async move { server.subscribe(epoch, node).await }).await?;
        Ok(Box::new(Subscription { wire: self.clone(), frames, cuts }))
    }

    async fn confirm(&self, epoch: u64, to: u64, confirmed: Confirmed) -> Result<(), SharedError> {
        self.checked(|server| async move { server.confirm(epoch, to, confirmed).await }).await
    }
}

#[async_trait]
impl Registry for Wire {
    async fn probe(&self, epoch: u64, alive: &Alive) -> Result<Probed, SharedError> {
        self.call(|server| async move { server.probe(epoch, alive).await }).await
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError> {
        self.call(|server| async move { server.peers(epoch).await }).await
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        self.call(|server| async move { server.leave(epoch, node).await }).await
    }

    fn accept(&self, server: &str) {
        *self.accepted.lock() = Some(server.to_owned());
    }
}

/// Frames with delays, some of them lost.
#[derive(Debug)]
struct Subscription {
    wire: Wire,
    frames: Box<dyn Frames>,
    cuts: watch::Receiver<u64>,
}

#[async_trait]
impl Frames for Subscription {
    async fn next(&mut self) -> Option<News> {
        loop {
            let bytes = tokio::select! {
                biased;
                _cut = self.cuts.changed() => return None,
                bytes = self.frames.next() => bytes?,
            };
            while self.wire.link() == Link::Stalled {
                sleep(Duration::from_millis(10)).await;
            }
            if self.wire.link() == Link::Frozen || self.wire.chance.below(1_000) < self.wire.lossy {
                continue;
            }
            return Some(bytes);
        }
    }
}
