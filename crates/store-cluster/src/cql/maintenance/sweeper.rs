//! The sweep: counts changed lists, once soon and once when their minute is closed, removes wrong entries
//! after concurrent imports, and completes dead nodes' changes: follows that blocks forbid, and memberships
//! that were not written. One node at a time sweeps a shard.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kith_store::{Coordination, StoreError};

use super::{import_conflicts::ImportConflicts, recount_schedule::RecountSchedule};
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    open_minutes::{OpenMinutes, ReadIntervals},
    relation::follow::bucket::ListPart,
    shared_ticks::{TICK, until_next},
    stores::Cql,
};

/// The sweep pauses at most this long after a failure.
const PAUSE: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(8);
/// The time between two requests for the lease, from the node that has it and from the others.
const RENEW: Duration = Duration::from_millis(2_500);
/// A note's age at which its write has certainly ended, with or without effect, in microseconds.
const WRITE_ENDED: i64 = 6_000_000;
const AT_A_TIME: usize = 8;
/// After a failure, at most this many changes are completed once more.
const COMPLETED_AT_ONCE: usize = 1_000;
/// An import has written everything this long after it got its version, apart from clock differences.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

impl Cql {
    /// Starts the sweep, which counts lists and completes dead nodes' changes, while the stores are in use.
    pub(crate) fn sweep(self: &Arc<Self>, coordination: &Weak<dyn Coordination>) {
        let holder = format!("{:016x}", rand::random::<u64>());
        for shard in 0..i32::try_from(self.client.options.feed_shards).unwrap_or(i32::MAX) {
            let sweep = Sweep {
                shard,
                name: format!("relation_sweep_{shard}"),
                holder: holder.clone(),
                leased: None,
                window: None,
                due: RecountSchedule::default(),
                import_conflicts: ImportConflicts::new(self.client.options.clocks_apart + WRITTEN_WITHIN),
                open: OpenChanges::default(),
            };
            tokio::spawn(sweep.run(Arc::downgrade(self), Weak::clone(coordination)));
        }
    }
}

struct Sweep {
    shard: i32,
    name: String,
    holder: String,
    /// When the lease was last asked for, and whether it was given.
    leased: Option<(Instant, bool)>,
    window: Option<OpenMinutes>,
    due: RecountSchedule,
    import_conflicts: ImportConflicts,
    open: OpenChanges,
}

impl Sweep {
    async fn run(mut self, cql: Weak<Cql>, coordination: Weak<dyn Coordination>) {
        loop {
            let (Some(cql), Some(coordination)) = (cql.upgrade(), coordination.upgrade()) else { return };
            if cql.client.is_closing() {
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
            until_next(pause).await;
        }
    }

    async fn tick(&mut self, cql: &Cql, coordination: &dyn Coordination) -> Result<(), StoreError> {
        cql.client.session()?;
        if !self.has_lease(coordination).await? {
            self.window = None;
            self.due.clear();
            self.import_conflicts.clear();
            self.open = OpenChanges::default();
            return Ok(());
        }
        if self.window.is_none() {
            let from = coordination.mark(&self.name).await?.and_then(|mark| minute_of(&mark));
            self.window = Some(OpenMinutes::new(
                self.shard,
                from.unwrap_or_else(|| OpenMinutes::first_open(cql)),
                ReadIntervals::SWEEP,
            ));
        }
        let Some(window) = &mut self.window else { return Ok(()) };
        for note in window.read(cql).await? {
            self.add(note);
        }
        self.count(cql).await?;
        self.import_conflicts.resolve(cql).await?;
        self.open.complete(cql, cql.client.clock.micros() - WRITE_ENDED).await?;
        self.close_minute(cql, coordination).await
    }

    /// Completes the first minute if nothing can be added to it any more.
    async fn close_minute(&mut self, cql: &Cql, coordination: &dyn Coordination) -> Result<(), StoreError> {
        let Some(window) = self.window.as_mut().filter(|window| window.can_close()) else { return Ok(()) };
        let has_notes = window.has_notes();
        if has_notes {
            complete_closed(cql, cql.notes(self.shard, window.from(), 0).await?).await?;
        }
        window.close();
        if has_notes {
            let from = window.from();
            coordination.set_mark(&self.name, &self.holder, &from.to_be_bytes()).await?;
        }
        Ok(())
    }

    async fn has_lease(&mut self, coordination: &dyn Coordination) -> Result<bool, StoreError> {
        if let Some((_, held)) = self.leased.filter(|(asked, _)| asked.elapsed() < RENEW) {
            return Ok(held);
        }
        let asked = Instant::now();
        self.leased = None;
        let held = coordination.lease(&self.name, &self.holder, LEASE).await?;
        self.leased = Some((asked, held));
        Ok(held)
    }

    fn add(&mut self, note: ChangeLogEntry) {
        self.open.add(&note);
        if let Some((edge, slot)) = note.imported_slot() {
            self.import_conflicts.add(edge, slot, Instant::now());
        }
        self.due.add(&note, Instant::now());
    }

    /// Counts the due parts.
    async fn count(&mut self, cql: &Cql) -> Result<(), StoreError> {
        let begun = Instant::now();
        let due = self.due.parts(begun);
        let mut counting =
            stream::iter(due).map(|part| async move { (part, cql.count_and_open(part).await) });
        let mut counting = std::pin::pin!(counting.by_ref().buffer_unordered(AT_A_TIME));
        while let Some((part, counted)) = counting.next().await {
            counted?;
            self.due.record_count(part, begun);
        }
        Ok(())
    }
}

/// The noted changes to blocks and members that may be incomplete, by their notes' stamps, and whether it was
/// noted that both logs have the block's event.
#[derive(Default)]
struct OpenChanges(BTreeMap<(i64, ChangeSubject), bool>);

impl OpenChanges {
    fn add(&mut self, note: &ChangeLogEntry) {
        let (key, is_final) = ((note.stamp, note.subject), note.version.is_some());
        match note.subject {
            ChangeSubject::Member(_) if is_final => self.0.remove(&key),
            ChangeSubject::Member(_) | ChangeSubject::Block(_) => self.0.insert(key, is_final),
            ChangeSubject::Follow(_) | ChangeSubject::Count(_) | ChangeSubject::Roster(_) => None,
        };
    }

    /// Completes the changes with notes up to this stamp, whose writes must have ended.
    async fn complete(&mut self, cql: &Cql, until: i64) -> Result<(), StoreError> {
        loop {
            let due = self.0.iter().map(|(key, is_logged)| (*key, *is_logged));
            let due: Vec<_> =
                due.take_while(|((stamp, _), _)| *stamp <= until).take(COMPLETED_AT_ONCE).collect();
            if due.is_empty() {
                return Ok(());
            }
            let (mut blocks, mut members) = (BTreeMap::new(), Vec::new());
            for ((_, subject), is_logged) in &due {
                match subject {
                    ChangeSubject::Block(edge) => *blocks.entry(*edge).or_insert(true) &= is_logged,
                    ChangeSubject::Member(key) => members.push(*key),
                    ChangeSubject::Follow(_) | ChangeSubject::Count(_) | ChangeSubject::Roster(_) => {}
                }
            }
            for (edge, is_logged) in blocks {
                cql.enforce_block(edge).await?;
                if !is_logged {
                    cql.resume_log(edge).await?;
                }
            }
            cql.repair_memberships(members).await?;
            for (key, _) in due {
                self.0.remove(&key);
            }
        }
    }
}

/// Does everything once more for the notes in closed minutes.
async fn complete_closed(cql: &Cql, closed: Vec<ChangeLogEntry>) -> Result<(), StoreError> {
    let parts: HashSet<ListPart> = closed.iter().flat_map(ChangeLogEntry::parts).collect();
    let mut counting =
        std::pin::pin!(stream::iter(parts).map(|part| cql.count_and_open(part)).buffer_unordered(AT_A_TIME));
    while let Some(counted) = counting.next().await {
        counted?;
    }
    let mut open = OpenChanges::default();
    closed.iter().for_each(|note| open.add(note));
    open.complete(cql, i64::MAX).await
}

fn minute_of(mark: &[u8]) -> Option<i64> {
    mark.try_into().ok().map(i64::from_be_bytes)
}
