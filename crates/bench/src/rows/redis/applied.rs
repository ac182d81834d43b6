//! The exact time at which a node has applied what it received. A task that waits for it would be woken
//! later.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::remote::{
    Acquired, Cell, CellWrite, Cells, ChangeAnswer, Confirmation, FillResult, Frame, Frames, Header,
    Heartbeat, Log, LogEntry, News, Peer, ProbeAnswer, Registry, SharedBackend, SharedError,
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The server that nodes share, as one node follows it.
#[derive(Debug)]
pub(super) struct TrackedShared {
    shared: Arc<dyn SharedBackend>,
    applied: Arc<Mutex<Instant>>,
}

/// The frames on one subscription.
#[derive(Debug)]
struct TrackedFrames {
    frames: Box<dyn Frames>,
    /// Whether the last returned news was an entry. The node has applied it when it asks for the next news.
    given: bool,
    applied: Arc<Mutex<Instant>>,
}

impl TrackedShared {
    pub(super) fn new(shared: &Arc<dyn SharedBackend>) -> Self {
        Self { shared: Arc::clone(shared), applied: Arc::new(Mutex::new(Instant::now())) }
    }

    /// When the node asked for news after the last entry: it had applied the entry then.
    pub(super) fn applied(&self) -> Instant {
        *self.applied.lock()
    }
}

#[async_trait]
impl Frames for TrackedFrames {
    async fn next(&mut self) -> Option<News> {
        if std::mem::take(&mut self.given) {
            *self.applied.lock() = Instant::now();
        }
        let news = self.frames.next().await;
        self.given = matches!(news, Some(News::Entry(_)));
        news
    }
}

#[async_trait]
impl Log for TrackedShared {
    async fn change(
        &self,
        epoch: u64,
        writes: &[(String, CellWrite)],
        entry: LogEntry<'_>,
    ) -> Result<ChangeAnswer, SharedError> {
        self.shared.change(epoch, writes, entry).await
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        self.shared.replay(epoch, from, most).await
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        let frames = self.shared.subscribe(epoch, node).await?;
        Ok(Box::new(TrackedFrames { frames, given: false, applied: Arc::clone(&self.applied) }))
    }

    async fn confirm(&self, epoch: u64, to: &[u64], confirmed: Confirmation) -> Result<(), SharedError> {
        self.shared.confirm(epoch, to, confirmed).await
    }
}

#[async_trait]
impl Cells for TrackedShared {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        self.shared.read(keys).await
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        self.shared.heads(keys).await
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        self.shared.acquire(keys, token).await
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<FillResult>, SharedError> {
        self.shared.fill(cells).await
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        self.shared.release(keys, token).await
    }
}

#[async_trait]
impl Registry for TrackedShared {
    async fn enter(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.shared.enter(epoch, heartbeat).await
    }

    async fn probe(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.shared.probe(epoch, heartbeat).await
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError> {
        self.shared.peers(epoch).await
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        self.shared.leave(epoch, node).await
    }

    fn accept(&self, server: &str) {
        self.shared.accept(server);
    }
}
