//! A random run: requests to the nodes, faults, and the invariants that the answers must keep.

use std::{sync::Arc, time::Duration};

use kith_cache::{Consistency, Token};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    chance::Chance,
    faults::{Fault, FaultSet},
    peer::Peer,
    truth::{BOUND, HEALTHY, Id, Kind, ORPHANED},
    world::World,
};

/// Operations of a run.
pub(crate) const STEPS: u64 = 200;
/// Records of each kind.
const KEYS: u64 = 3;
/// The hard timeout of a read and what it may wait for a token.
const READ_MAX: Duration = Duration::from_millis(2_030);
/// Repeated invalidations after a write that took effect late, and the time to publish them.
const LATE: Duration = Duration::from_secs(7);

/// How long nodes take to join while nothing is wrong.
const JOIN_TIME: Duration = Duration::from_millis(300);

type Verdict = Result<(), String>;

/// The state that a run needs.
struct Run {
    world: Arc<World>,
    /// Tokens of writes that were acknowledged, and what they promise.
    tokens: Mutex<Vec<(Token, Id, u64)>>,
}

/// The result that a run showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunResult {
    /// A number that every replay of the seed must give.
    pub(crate) trace: u64,
    /// How many cached reads a run without faults made, and how many were stale for longer than
    /// [`HEALTHY_P99`](crate::truth::HEALTHY_P99).
    pub(crate) healthy: (u64, u64),
}

pub(crate) async fn run(seed: u64) -> Result<RunResult, String> {
    let chance = Chance::new(seed);
    let faults = FaultSet::random(&chance);
    let world = World::new(chance, faults, 3 + seed % 3);
    let run = Arc::new(Run { world, tokens: Mutex::default() });
    let verdict = Box::pin(run.play()).await;
    let violation = run.world.store.truth.violation();
    verdict.and(violation.map_or(Ok(()), Err)).map_err(|why| format!("{why} ({faults:?})"))?;
    let truth = &run.world.store.truth;
    let healthy = if faults.is_healthy() { truth.judged() } else { (0, 0) };
    Ok(RunResult { trace: truth.trace(), healthy })
}

impl Run {
    async fn play(self: &Arc<Self>) -> Verdict {
        let mut calls = JoinSet::new();
        // Nodes have joined by then, if they can.
        sleep(JOIN_TIME).await;
        for step in 0..STEPS {
            sleep(Duration::from_micros(self.world.chance.below(40_000))).await;
            let ids = self.ids();
            if self.world.chance.one_in(20) {
                self.world.disturb(ids[0]);
            }
            let (run, peer) = (Arc::clone(self), self.world.some_peer());
            calls.spawn(async move {
                let phases = peer.phases.clone();
                // A node that dies gives no answer.
                let verdict = phases.live(run.call(&peer, &ids)).await.unwrap_or(Ok(()));
                verdict.map_err(|why| format!("step {step}, node {}: {why}", peer.id))
            });
            while let Some(call) = calls.try_join_next() {
                call.map_err(|error| error.to_string())??;
            }
        }
        self.world.calm();
        while let Some(call) = calls.join_next().await {
            call.map_err(|error| error.to_string())??;
        }
        self.end().await
    }

    /// A record, now and then two records of a kind, or the records that a relation's write changes.
    fn ids(&self) -> Vec<Id> {
        let chance = &self.world.chance;
        let kind = *chance.pick(&[Kind::Thing, Kind::Thing, Kind::List, Kind::Right]);
        let first = chance.below(KEYS);
        let other = (first + 1) % KEYS;
        let mut ids = vec![(kind, first)];
        if chance.one_in(6) {
            match kind {
                // A follow, and the lists of both users.
                Kind::Thing if chance.one_in(2) => ids.extend([(Kind::List, first), (Kind::List, other)]),
                // A block, which ends a follow.
                Kind::Right if chance.one_in(2) => ids.extend([(Kind::Thing, first), (Kind::List, other)]),
                _ => ids.push((kind, other)),
            }
        }
        ids
    }

    async fn call(&self, peer: &Arc<Peer>, ids: &[Id]) -> Verdict {
        let chance = &self.world.chance;
        match chance.below(40) {
            0..8 => self.write(peer, ids, !chance.one_in(4)).await,
            8..10 => self.strong(peer, ids[0]).await,
            10..14 => self.by_token(peer).await,
            14..20 => self.batch(peer, ids).await,
            _ => self.read(peer, ids[0]).await,
        }
    }

    /// A write; once it is acknowledged, its node reads nothing older, and of a strict kind no node does.
    async fn write(&self, peer: &Peer, ids: &[Id], exists: bool) -> Verdict {
        let truth = &self.world.store.truth;
        let Some((token, positions)) = peer.write(ids, exists).await else {
            return self.may_fail("a write");
        };
        truth.note((peer.id, ids, &positions, self.world.began.elapsed()));
        for (id, position) in ids.iter().zip(&positions) {
            truth.acknowledge(*id, *position);
            self.tokens.lock().push((token.clone(), *id, *position));
        }
        let (id, position) = (ids[0], positions[0]);
        let began = Instant::now();
        match peer.ask(id, &Consistency::Cached).await {
            Ok(answer) => {
                truth.at_least(id, answer, position, began).map_err(|why| format!("own write: {why}"))
            }
            Err(_) => self.may_fail("a read"),
        }
    }

    async fn read(&self, peer: &Peer, id: Id) -> Verdict {
        let truth = &self.world.store.truth;
        let began = Instant::now();
        let applied = truth.applied(id, peer.node.epoch(), peer.node.applied());
        let latest_read = peer.latest_read(id);
        let answer = peer.ask(id, &Consistency::Cached).await;
        truth.note((peer.id, id, answer.as_ref().ok(), self.world.began.elapsed()));
        if began.elapsed() > READ_MAX && !self.world.faults.has(Fault::Stops) {
            return Err(format!("a read takes {:?}", began.elapsed()));
        }
        let Ok(answer) = answer else { return self.may_fail("a read") };
        truth.at_least(id, answer, applied, began).map_err(|why| format!("applied: {why}"))?;
        truth.at_least(id, answer, latest_read, began).map_err(|why| format!("went back: {why}"))?;
        peer.record_read(id, answer);
        truth.judge(id, answer, began, self.bound())
    }

    async fn batch(&self, peer: &Peer, ids: &[Id]) -> Verdict {
        let truth = &self.world.store.truth;
        let (kind, began) = (ids[0].0, Instant::now());
        let keys: Vec<u64> = (0..KEYS).chain([ids[0].1]).collect();
        let answers = peer.cache(kind).get_many(&keys, &Consistency::Cached).await;
        for (key, answer) in keys.into_iter().zip(answers) {
            let Ok(answer) = answer else { return self.may_fail("a batch") };
            let answer = answer.map(|entry| peer.position((kind, key), &entry));
            truth.judge((kind, key), answer, began, self.bound()).map_err(|why| format!("batch: {why}"))?;
        }
        Ok(())
    }

    async fn strong(&self, peer: &Peer, id: Id) -> Verdict {
        let truth = &self.world.store.truth;
        let (began, newest) = (Instant::now(), truth.newest(id).map_or(0, |(_, position)| position));
        let Ok(answer) = peer.ask(id, &Consistency::Strong).await else {
            return self.may_fail("a strong read");
        };
        peer.record_read(id, answer);
        truth.at_least(id, answer, newest, began).map_err(|why| format!("strong: {why}"))
    }

    /// A read with the token of a write, on any node.
    async fn by_token(&self, peer: &Peer) -> Verdict {
        let promised = {
            let tokens = self.tokens.lock();
            let recent = tokens.len().min(6);
            if recent == 0 {
                return Ok(());
            }
            tokens[tokens.len() - 1 - usize::try_from(self.world.chance.below(recent as u64)).unwrap()]
                .clone()
        };
        let (token, id, position) = promised;
        let began = Instant::now();
        let read = peer.ask(id, &Consistency::AtLeast(vec![token.clone()])).await;
        let Ok(answer) = read else { return self.may_fail("a read with a token") };
        let truth = &self.world.store.truth;
        truth.at_least(id, answer, position, began).map_err(|why| format!("{:?}: {why}", token.positions()))
    }

    fn bound(&self) -> Duration {
        if self.world.faults.is_healthy() { HEALTHY } else { BOUND }
    }

    fn may_fail(&self, what: &str) -> Verdict {
        if self.world.faults.is_healthy() {
            Err(format!("{what} fails though nothing is wrong"))
        } else {
            Ok(())
        }
    }

    /// All faults have ended: every change has been published, every node is correct after the bound, and
    /// healthy from then on.
    async fn end(&self) -> Verdict {
        let (world, faults) = (&self.world, self.world.faults);
        let truth = &world.store.truth;
        let mut well = Instant::now() + BOUND;
        if faults.has(Fault::Unknown) {
            well = well.max(world.store.late_writes_until() + LATE + BOUND);
        }
        // Changes that dead writers, or those that waited for a late effect, did not publish.
        let orphans = faults.has(Fault::Crashes);
        if orphans && !faults.has(Fault::NoFeed) {
            well += ORPHANED - BOUND;
        }
        sleep_until(well).await;
        if !orphans || !faults.has(Fault::NoFeed) {
            truth.unpublished().map_or(Ok(()), |missing| Err(format!("{missing:?} was not published")))?;
        }
        if !faults.raises() && world.store.epoch() != 1 {
            return Err(format!("the epoch is raised to {} without a reason", world.store.epoch()));
        }
        truth.end_tolerance();
        self.all_right(HEALTHY).await?;
        for kind in Kind::ALL {
            // An answer may still be lost now and then.
            let mut written = None;
            for _ in 0..10 {
                written = match written {
                    None => world.some_peer().put((kind, 0)).await,
                    written => written,
                };
            }
            written.ok_or_else(|| format!("{kind:?} takes no write at the end"))?;
        }
        // Writes that were not acknowledged may still be applied.
        let late_writes_until =
            if faults.has(Fault::Unknown) { world.store.late_writes_until() + LATE } else { Instant::now() };
        sleep_until(late_writes_until.max(Instant::now()) + HEALTHY).await;
        self.all_right(Duration::ZERO).await
    }

    /// Whether every node reads everything at least as new as what was published that long ago.
    async fn all_right(&self, bound: Duration) -> Verdict {
        let truth = &self.world.store.truth;
        for peer in self.world.peers() {
            for id in Kind::ALL.into_iter().flat_map(|kind| (0..KEYS).map(move |key| (kind, key))) {
                let began = Instant::now();
                let mut answer = peer.ask(id, &Consistency::Cached).await;
                // A call may fail now and then, and is repeated.
                for _ in 0..10 {
                    if answer.is_err() && !self.world.faults.is_healthy() {
                        answer = peer.ask(id, &Consistency::Cached).await;
                    }
                }
                let answer =
                    answer.map_err(|error| format!("at the end node {} fails: {error:?}", peer.id))?;
                let judged = truth.judge(id, answer, began, bound);
                judged.map_err(|why| format!("at the end node {}: {why}", peer.id))?;
            }
        }
        Ok(())
    }
}
