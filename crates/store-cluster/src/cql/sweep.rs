//! The sweep: counts what has changed, once soon and once when nothing can be added to it any more, and cuts the follows
//! that blocks forbid, where their node has died before. One node sweeps a shard at a time.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kith_store::{Coordination, Edge, StoreError};

use super::{
    count::Part,
    due::Due,
    journal::{Note, Subject},
    session::Cql,
    window::Window,
};

const TICK: Duration = Duration::from_millis(250);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);
/// How old the note of a block is when its write has ended, one way or the other, in microseconds.
const BLOCK_ENDED: i64 = 6_000_000;
const AT_A_TIME: usize = 8;

/// Begins to sweep, as long as the stores are used.
pub(super) fn start(cql: &Arc<Cql>, coordination: &Weak<dyn Coordination>) {
    let holder = format!("{:016x}", rand::random::<u64>());
    for shard in 0..i32::try_from(cql.options.feed_shards).unwrap_or(i32::MAX) {
        let sweep = Sweep {
            shard,
            name: format!("relation_sweep_{shard}"),
            holder: holder.clone(),
            leased: None,
            window: None,
            due: Due::default(),
            blocks: BTreeMap::new(),
        };
        tokio::spawn(sweep.run(Arc::downgrade(cql), Weak::clone(coordination)));
    }
}

struct Sweep {
    shard: i32,
    name: String,
    holder: String,
    /// Since when the lease is held, and known to be.
    leased: Option<Instant>,
    window: Option<Window>,
    due: Due,
    /// Blocks to be looked at, by the stamps of their notes.
    blocks: BTreeMap<i64, Edge>,
}

impl Sweep {
    async fn run(mut self, cql: Weak<Cql>, coordination: Weak<dyn Coordination>) {
        loop {
            let (Some(cql), Some(coordination)) = (cql.upgrade(), coordination.upgrade()) else { return };
            if cql.is_closing() {
                coordination.release(&self.name, &self.holder).await.ok();
                return;
            }
            let pause = match self.tick(&cql, &*coordination).await {
                Ok(()) => TICK,
                Err(error) => {
                    tracing::debug!(shard = self.shard, %error, "the sweep of relations waits");
                    PAUSE
                }
            };
            drop((cql, coordination));
            tokio::time::sleep(pause).await;
        }
    }

    async fn tick(&mut self, cql: &Cql, coordination: &dyn Coordination) -> Result<(), StoreError> {
        cql.session()?;
        if !self.has_lease(coordination).await? {
            (self.window, self.leased) = (None, None);
            self.due.clear();
            self.blocks.clear();
            return Ok(());
        }
        if self.window.is_none() {
            let from = coordination.mark(&self.name).await?.and_then(|mark| minute_of(&mark));
            self.window = Some(Window::new(self.shard, from.unwrap_or_else(|| Window::first_open(cql))));
        }
        let Some(window) = &mut self.window else { return Ok(()) };
        let fresh = window.read(cql).await?;
        let closed = window.close();
        let from = window.from();
        for note in fresh {
            self.take(note);
        }
        self.count(cql).await?;
        self.enforce(cql).await?;
        if !closed.is_empty() {
            finish(cql, closed).await?;
            coordination.set_mark(&self.name, &self.holder, &from.to_be_bytes()).await?;
        }
        Ok(())
    }

    async fn has_lease(&mut self, coordination: &dyn Coordination) -> Result<bool, StoreError> {
        if self.leased.is_some_and(|since| since.elapsed() < RENEW) {
            return Ok(true);
        }
        let asked = Instant::now();
        let held = coordination.lease(&self.name, &self.holder, LEASE).await?;
        self.leased = held.then_some(asked);
        Ok(held)
    }

    fn take(&mut self, note: Note) {
        if note.subject == Subject::Block {
            self.blocks.insert(note.stamp, note.edge);
        }
        self.due.add(&note, Instant::now());
    }

    /// Counts the parts that have not been for a while.
    async fn count(&mut self, cql: &Cql) -> Result<(), StoreError> {
        let begun = Instant::now();
        let due = self.due.parts(begun);
        let mut counting =
            stream::iter(due).map(|part| async move { (part, cql.count_and_open(part).await) });
        let mut counting = std::pin::pin!(counting.by_ref().buffer_unordered(AT_A_TIME));
        while let Some((part, counted)) = counting.next().await {
            counted?;
            self.due.was_counted(part, begun);
        }
        Ok(())
    }

    /// Looks at the blocks whose writes have ended, one way or the other.
    async fn enforce(&mut self, cql: &Cql) -> Result<(), StoreError> {
        let ended = cql.clock.micros() - BLOCK_ENDED;
        while let Some((stamp, edge)) = self.blocks.first_key_value().map(|(stamp, edge)| (*stamp, *edge)) {
            if stamp > ended {
                return Ok(());
            }
            cql.enforce_block(edge).await?;
            self.blocks.remove(&stamp);
        }
        Ok(())
    }
}

/// Counts and enforces once more what was noted in minutes that nothing is added to any more.
async fn finish(cql: &Cql, closed: Vec<Note>) -> Result<(), StoreError> {
    let parts: HashSet<Part> = closed.iter().flat_map(Note::parts).collect();
    let blocks: HashSet<Edge> =
        closed.iter().filter(|note| note.subject == Subject::Block).map(|note| note.edge).collect();
    let mut counting =
        std::pin::pin!(stream::iter(parts).map(|part| cql.count_and_open(part)).buffer_unordered(AT_A_TIME));
    while let Some(counted) = counting.next().await {
        counted?;
    }
    for edge in blocks {
        cql.enforce_block(edge).await?;
    }
    Ok(())
}

fn minute_of(mark: &[u8]) -> Option<i64> {
    mark.try_into().ok().map(i64::from_be_bytes)
}
