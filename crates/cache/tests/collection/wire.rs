//! A connection to the shared server in the hands of a test.

use std::{sync::Arc, time::Duration};

use kith_cache::remote::{
    Acquired, Cell, CellWrite, Cells, ChangeAnswer, Confirmation, FakeServer, FillResult, Frame, Frames,
    Header, Heartbeat, Log, LogEntry, Peer, ProbeAnswer, Registry, SharedError,
};
use parking_lot::Mutex;
use rand::{Rng as _, rngs::SmallRng};
use tokio::{sync::watch, time::sleep};

/// Where calls wait while it is closed.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<watch::Sender<bool>>, Arc<Mutex<usize>>);

impl Door {
    pub(crate) fn open() -> Self {
        Self(Arc::new(watch::Sender::new(true)), Arc::default())
    }

    pub(crate) fn set(&self, open: bool) {
        self.0.send_replace(open);
    }

    /// How many calls have arrived so far.
    pub(crate) fn arrivals(&self) -> usize {
        *self.1.lock()
    }

    async fn pass(&self) {
        *self.1.lock() += 1;
        self.0.subscribe().wait_for(|open| *open).await.unwrap();
    }
}

/// A connection to the server whose changes wait on their way there and whose reads wait on their way back;
/// where chance is given, all takes a while both ways.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) server: FakeServer,
    pub(crate) changes: Door,
    pub(crate) reads: Door,
    pub(crate) chance: Option<Arc<Mutex<SmallRng>>>,
}

impl Wire {
    async fn delay(&self) {
        if let Some(chance) = &self.chance {
            let time = chance.lock().random_range(0..3_000);
            sleep(Duration::from_micros(time)).await;
        }
    }

    /// The call is delayed on its way there and on its way back.
    async fn call<T>(&self, act: impl Future<Output = T>) -> T {
        self.delay().await;
        let answer = act.await;
        self.delay().await;
        answer
    }
}

#[async_trait::async_trait]
impl Cells for Wire {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        self.call(async {
            let answer = self.server.read(keys).await;
            self.reads.pass().await;
            answer
        })
        .await
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        self.server.heads(keys).await
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        self.call(self.server.acquire(keys, token)).await
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<FillResult>, SharedError> {
        self.call(self.server.fill(cells)).await
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        self.server.release(keys, token).await
    }
}

#[async_trait::async_trait]
impl Log for Wire {
    async fn change(
        &self,
        epoch: u64,
        writes: &[(String, CellWrite)],
        entry: LogEntry<'_>,
    ) -> Result<ChangeAnswer, SharedError> {
        self.changes.pass().await;
        self.call(self.server.change(epoch, writes, entry)).await
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        self.server.replay(epoch, from, most).await
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        self.server.subscribe(epoch, node).await
    }

    async fn confirm(&self, epoch: u64, to: &[u64], confirmed: Confirmation) -> Result<(), SharedError> {
        self.server.confirm(epoch, to, confirmed).await
    }
}

#[async_trait::async_trait]
impl Registry for Wire {
    async fn enter(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.server.enter(epoch, heartbeat).await
    }

    async fn probe(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.server.probe(epoch, heartbeat).await
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError> {
        self.server.peers(epoch).await
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        self.server.leave(epoch, node).await
    }

    fn accept(&self, server: &str) {
        self.server.accept(server);
    }
}
