//! The sweep: counts what has changed, once soon and once when nothing can be added to it any more, strikes what imports that
//! crossed have left, and ends what nodes that died have: follows that blocks forbid, and members whose groups do not know it.
//! One node sweeps a shard at a time.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kith_store::{Coordination, Edge, MemberKey, StoreError};

use super::{
    count::Part,
    crossing::Crossings,
    due::Due,
    journal::{Note, Subject},
    session::Cql,
    window::{Pace, Window},
};

const TICK: Duration = Duration::from_millis(250);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);
/// How old the note of a change is when its write has ended, one way or the other, in microseconds.
const WRITE_ENDED: i64 = 6_000_000;
const AT_A_TIME: usize = 8;
/// What an import that was given a version has written by then, beside clocks that are apart.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

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
            crossings: Crossings::new(cql.options.clocks_apart + WRITTEN_WITHIN),
            blocks: BTreeMap::new(),
            members: BTreeSet::new(),
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
    crossings: Crossings,
    /// Blocks to be looked at, by the stamps of their notes, and whether it was noted that both logs know of the change.
    blocks: BTreeMap<i64, (Edge, bool)>,
    /// Members of whom it was noted that they change, and not yet that all of it was done, by the stamps of their notes.
    members: BTreeSet<(i64, MemberKey)>,
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
            self.crossings.clear();
            self.blocks.clear();
            self.members.clear();
            return Ok(());
        }
        if self.window.is_none() {
            let from = coordination.mark(&self.name).await?.and_then(|mark| minute_of(&mark));
            self.window = Some(Window::new(
                self.shard,
                from.unwrap_or_else(|| Window::first_open(cql)),
                Pace::COUNTING,
            ));
        }
        let Some(window) = &mut self.window else { return Ok(()) };
        let fresh = window.read(cql).await?;
        let closed = window.close();
        let from = window.from();
        for note in fresh {
            self.take(note);
        }
        self.count(cql).await?;
        self.crossings.part(cql).await?;
        self.enforce(cql).await?;
        self.mend(cql).await?;
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
        match (note.subject, note.version) {
            (Subject::Block(edge), version) => {
                self.blocks.insert(note.stamp, (edge, version.is_some()));
            }
            (Subject::Member(key), None) => {
                self.members.insert((note.stamp, key));
            }
            (Subject::Member(key), Some(_)) => {
                self.members.remove(&(note.stamp, key));
            }
            (Subject::Follow(_) | Subject::Count(_) | Subject::Roster(_), _) => {}
        }
        if let Some((edge, seat)) = note.brought_to() {
            self.crossings.add(edge, seat, Instant::now());
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
        let ended = cql.clock.micros() - WRITE_ENDED;
        while let Some((stamp, (edge, is_told))) =
            self.blocks.first_key_value().map(|(stamp, block)| (*stamp, *block))
        {
            if stamp > ended {
                return Ok(());
            }
            end(cql, edge, is_told).await?;
            self.blocks.remove(&stamp);
        }
        Ok(())
    }

    /// Ends the changes of members whose writes have ended, one way or the other, and of which no more is known.
    async fn mend(&mut self, cql: &Cql) -> Result<(), StoreError> {
        let ended = cql.clock.micros() - WRITE_ENDED;
        let due: Vec<_> = self.members.iter().take_while(|(stamp, _)| *stamp <= ended).copied().collect();
        cql.mend_memberships(due.iter().map(|(_, key)| *key).collect()).await?;
        for mended in due {
            self.members.remove(&mended);
        }
        Ok(())
    }
}

/// Does all of it once more for what was noted in minutes that nothing is added to any more.
async fn finish(cql: &Cql, closed: Vec<Note>) -> Result<(), StoreError> {
    let parts: HashSet<Part> = closed.iter().flat_map(Note::parts).collect();
    let mut counting =
        std::pin::pin!(stream::iter(parts).map(|part| cql.count_and_open(part)).buffer_unordered(AT_A_TIME));
    while let Some(counted) = counting.next().await {
        counted?;
    }
    let (blocks, members) = unended(&closed);
    for (edge, is_told) in blocks {
        end(cql, edge, is_told).await?;
    }
    cql.mend_memberships(members).await
}

/// Ends what may have been left undone of the change of a block, of which both logs know or not.
async fn end(cql: &Cql, edge: Edge, is_told: bool) -> Result<(), StoreError> {
    cql.enforce_block(edge).await?;
    if is_told { Ok(()) } else { cql.resume_log(edge).await }
}

/// The blocks that were noted, with whether it was noted that both logs know of them, and the members of whom it was not noted
/// that all was done.
fn unended(closed: &[Note]) -> (BTreeMap<Edge, bool>, Vec<MemberKey>) {
    let (mut blocks, mut begun, mut ended) = (BTreeMap::new(), HashSet::new(), HashSet::new());
    for note in closed {
        match (note.subject, note.version) {
            (Subject::Block(edge), version) => {
                *blocks.entry(edge).or_insert(true) &= version.is_some();
                continue;
            }
            (Subject::Member(key), None) => begun.insert((note.stamp, key)),
            (Subject::Member(key), Some(_)) => ended.insert((note.stamp, key)),
            (Subject::Follow(_) | Subject::Count(_) | Subject::Roster(_), _) => continue,
        };
    }
    (blocks, begun.difference(&ended).map(|(_, key)| *key).collect())
}

fn minute_of(mark: &[u8]) -> Option<i64> {
    mark.try_into().ok().map(i64::from_be_bytes)
}
