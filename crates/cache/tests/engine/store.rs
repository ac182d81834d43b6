//! The store that all nodes use, and each node's access to it: the acknowledged states are the truth. Answers
//! late.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::{
    Loaded, Version,
    remote::{Epochs, SharedError},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{
    chance::Chance,
    faults::{Fault, FaultSet},
    feed::Stream,
    holds::{Call, Direction, Holds},
    phase::Phases,
    truth::{Id, Kind, Truth},
};

/// Where versions come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Versions continue from the previous version, also when the record was deleted.
    #[default]
    Stub,
    /// The first version again: a deleted record seems never to have existed.
    Forgotten,
}

/// The state that the store holds in addition to the records.
#[derive(Debug)]
struct StoreState {
    epoch: (u64, String),
    versions: Versions,
    /// The next load of this record gives a state this many positions back.
    lags: Option<(Id, usize)>,
    /// A state of the record that the primary alone has, and its version.
    primary_only: Option<(Id, u64, u64)>,
    /// The next write's version, by a node's clock.
    clock: Option<u64>,
    /// Until when writes without a waiting writer may still be applied.
    late_writes_until: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) truth: Truth,
    held: Arc<Mutex<StoreState>>,
    pub(crate) stream: Stream,
}

/// The result that a write had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The version of each record and its position.
    Applied(Vec<(u64, u64)>),
    Failed,
    Unknown,
}

impl Store {
    pub(crate) fn new(truth: &Truth) -> Self {
        let held = StoreState {
            epoch: (1, "0".to_owned()),
            versions: Versions::Stub,
            lags: None,
            primary_only: None,
            clock: None,
            late_writes_until: Instant::now(),
        };
        Self { truth: truth.clone(), held: Arc::new(Mutex::new(held)), stream: Stream::default() }
    }

    pub(crate) fn versions(&self, versions: Versions) {
        self.held.lock().versions = versions;
    }

    /// The next load of the record is answered by a member that lags so many states.
    pub(crate) fn lag(&self, id: Id, back: usize) {
        self.held.lock().lags = Some((id, back));
    }

    /// From now on loads give this state of the record, which only the primary has; `None`: it is gone with
    /// the primary.
    pub(crate) fn set_primary_only(&self, state: Option<(Id, u64, u64)>) {
        self.held.lock().primary_only = state;
    }

    /// The next write takes its version from a clock.
    pub(crate) fn clock(&self, version: u64) {
        self.held.lock().clock = Some(version);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.held.lock().epoch.0
    }

    /// Raises the epoch by hand. Returns it.
    pub(crate) fn raise(&self) -> u64 {
        let mut held = self.held.lock();
        held.epoch.0 += 1;
        held.epoch.0
    }

    /// Until when writes for which no writer waits may still be applied.
    pub(crate) fn late_writes_until(&self) -> Instant {
        self.held.lock().late_writes_until
    }

    /// Applies a write. Returns version and position.
    pub(crate) fn apply_write(&self, id: Id, exists: bool) -> (u64, u64) {
        let mut held = self.held.lock();
        let (versions, clock) = (held.versions, held.clock.take());
        let applied = self.truth.record_state(id, exists, |history| match history.last() {
            _ if clock.is_some() => clock.unwrap_or_default(),
            Some(last) if !last.exists && versions == Versions::Forgotten => 1,
            last => last.map_or(0, |last| last.version) + step(id),
        });
        self.stream.push(id, applied.0);
        applied
    }

    /// The record changes without a broadcast; the feed does not report it either.
    pub(crate) fn change(&self, id: Id) {
        self.truth.record_state(id, true, |history| history.len() as u64 + 1);
    }

    /// The store's answer to a load.
    pub(crate) fn read(&self, id: Id) -> Loaded<u64> {
        let back = self.held.lock().lags.take_if(|(lags, _)| *lags == id).map_or(0, |(_, back)| back);
        let versioned =
            |version| if id.0.is_versioned() { Version::new(version) } else { Version::UNVERSIONED };
        if let Some((_, value, version)) = self.held.lock().primary_only.filter(|(record, ..)| *record == id)
        {
            return Loaded::Found { value: Arc::new(value), version: versioned(version) };
        }
        match self.truth.earlier(id, back) {
            None => Loaded::Absent { version: Version::UNVERSIONED },
            Some((state, _)) if !state.exists => Loaded::Absent { version: versioned(state.version) },
            Some((state, position)) => {
                Loaded::Found { value: Arc::new(position), version: versioned(state.version) }
            }
        }
    }
}

/// By how much a record's versions rise: more than one for a relation, whose versions come from a clock.
const fn step(id: Id) -> u64 {
    let (kind, key) = id;
    if matches!(kind, Kind::Thing) && key == 2 { 1_000 } else { 1 }
}

/// The access of one node to the store.
#[derive(Clone, Debug)]
pub(crate) struct StoreClient {
    pub(crate) node: u64,
    pub(crate) store: Store,
    pub(crate) chance: Chance,
    pub(crate) faults: FaultSet,
    pub(crate) holds: Holds,
    pub(crate) phases: Phases,
}

impl StoreClient {
    /// One direction of a call.
    pub(crate) async fn pass(&self, call: Call, direction: Direction) {
        self.holds.pass(call, direction).await;
        let delay = self.chance.delay();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        self.phases.runs().await;
    }

    /// Writes these records, or deletes them.
    pub(crate) async fn commit(&self, ids: &[Id], exists: bool) -> Outcome {
        self.pass(Call::Commit, Direction::Request).await;
        let apply = |client: &Self| ids.iter().map(|id| client.store.apply_write(*id, exists)).collect();
        if self.faults.has(Fault::Unknown) && self.chance.one_in(8) {
            match self.chance.below(4) {
                0 => return Outcome::Failed,
                1 => drop::<Vec<_>>(apply(self)),
                2 => self.apply_late(ids, exists),
                _ => {}
            }
            self.store.held.lock().late_writes_until = Instant::now() + Duration::from_secs(5);
            self.pass(Call::Commit, Direction::Response).await;
            return Outcome::Unknown;
        }
        let applied = apply(self);
        self.pass(Call::Commit, Direction::Response).await;
        Outcome::Applied(applied)
    }

    /// The write is applied long after the writer has given it up, and perhaps died.
    fn apply_late(&self, ids: &[Id], exists: bool) {
        let (ids, store) = (ids.to_vec(), self.store.clone());
        let after = Duration::from_millis(self.chance.below(4_000));
        tokio::spawn(async move {
            sleep(after).await;
            for id in ids {
                store.apply_write(id, exists);
            }
        });
    }
}

#[async_trait]
impl Epochs for StoreClient {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        self.pass(Call::Epoch, Direction::Request).await;
        let epoch = self.store.held.lock().epoch.clone();
        self.pass(Call::Epoch, Direction::Response).await;
        Ok(epoch)
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        self.pass(Call::Epoch, Direction::Request).await;
        let raised = {
            let mut held = self.store.held.lock();
            if held.epoch.0 == seen {
                held.epoch = (seen + 1, server.to_owned());
            }
            held.epoch.0
        };
        self.pass(Call::Epoch, Direction::Response).await;
        Ok(raised)
    }
}
