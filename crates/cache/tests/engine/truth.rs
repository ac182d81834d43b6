//! The records' true states, their publication, and which answers are therefore wrong.
//!
//! A read that begins at `t` and returns an older state than the newest is judged by when the states after it
//! were **published**: when a change ran on the server in the log that nodes follow, or when the server first
//! received an epoch that was raised after the state was committed. From then on
//! * if there is no fault in the whole run, the state may be read for [`HEALTHY`],
//! * with any fault except a writer's death for [`BOUND`]; if an older server replaces the server, that
//!   counts as a new publication, since until nodes have noticed, it returns old states;
//! * a record of a strict namespace not at all after its write was acknowledged.
//!
//! The change feed publishes, within [`ORPHANED`], what a writer could not publish before it died.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use kith_cache::{
    Version,
    remote::{Cell, CellWrite, ChangeAnswer},
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a cached read may be stale while nothing is wrong.
pub(crate) const HEALTHY: Duration = Duration::from_secs(1);
/// How long all but one in a hundred cached reads may be stale while nothing is wrong.
pub(crate) const HEALTHY_P99: Duration = Duration::from_millis(50);
/// How long a cached read may be stale under any fault except a writer's death.
pub(crate) const BOUND: Duration = Duration::from_secs(3);
/// The longest age that a copy may have if its record's changes are not broadcast.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(1);
/// How long it takes until a dead writer's change is published.
pub(crate) const ORPHANED: Duration = Duration::from_secs(11);

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Records have versions, and stubs where they are deleted.
    Thing,
    /// Records have no versions.
    List,
    /// Records have versions and are strict.
    Right,
    /// Without versions, and its changes are not broadcast: copies are at most [`AGE_MAX`] old.
    Count,
}

impl Kind {
    /// The kinds whose changes are broadcast.
    pub(crate) const ALL: [Self; 3] = [Self::Thing, Self::List, Self::Right];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Thing => "thing",
            Self::List => "list",
            Self::Right => "right",
            Self::Count => "count",
        }
    }

    pub(crate) const fn is_versioned(self) -> bool {
        matches!(self, Self::Thing | Self::Right)
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

pub(crate) type Id = (Kind, u64);

// The records of the scripts.
pub(crate) const ONE: Id = (Kind::Thing, 1);
pub(crate) const TWO: Id = (Kind::Thing, 2);
pub(crate) const LIST: Id = (Kind::List, 1);
pub(crate) const RIGHT: Id = (Kind::Right, 1);

/// A state of a record at a time. Its position in the history, from 1, is its value, so that an answer shows
/// its age.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// The version that the store assigned.
    pub(crate) version: u64,
    pub(crate) exists: bool,
    stored: Instant,
    published: Option<Instant>,
    acknowledged: Option<Instant>,
}

impl State {
    fn set_published(&mut self, now: Instant) {
        self.published.get_or_insert(now);
    }
}

/// Everything that is known.
#[derive(Clone, Debug)]
pub(crate) struct Truth(Arc<Mutex<TruthState>>);

#[derive(Debug, Default)]
struct TruthState {
    records: BTreeMap<Id, Vec<State>>,
    /// The published states in the logs, by epoch: number and state.
    logs: BTreeMap<u64, BTreeMap<Id, Vec<(u64, usize)>>>,
    /// Logs of earlier epochs were replaced.
    logs_from: u64,
    /// The highest epoch that the server received.
    epoch: u64,
    /// When the server was last replaced.
    replaced_at: Option<Instant>,
    /// The epoch in which the server was replaced under the same name, until there is a later epoch.
    hidden: Option<u64>,
    /// Changes that the server ran so far, and those of them when the dump was taken.
    changes: u64,
    dumped: u64,
    /// Until when no node can detect that a server was replaced under the same name.
    undetectable_until: Option<Instant>,
    violations: Vec<String>,
    trace: u64,
    /// Cached reads that were judged, and those later than [`HEALTHY_P99`].
    judged: (u64, u64),
}

impl Truth {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(TruthState { epoch: 1, ..TruthState::default() })))
    }

    /// The store has applied a change of the record. Returns the version that it has now, and its position.
    pub(crate) fn record_state(
        &self,
        id: Id,
        exists: bool,
        version: impl FnOnce(&[State]) -> u64,
    ) -> (u64, u64) {
        let mut known = self.0.lock();
        let history = known.records.entry(id).or_default();
        let version = version(history);
        crate::trace!("T store {id:?} {version}");
        history.push(State { version, exists, stored: Instant::now(), published: None, acknowledged: None });
        (version, history.len() as u64)
    }

    /// The newest state, and its position; `None`: never stored.
    pub(crate) fn newest(&self, id: Id) -> Option<(State, u64)> {
        let known = self.0.lock();
        known.records.get(&id).and_then(|history| Some((*history.last()?, history.len() as u64)))
    }

    /// The state this many positions back.
    pub(crate) fn earlier(&self, id: Id, back: usize) -> Option<(State, u64)> {
        let known = self.0.lock();
        let history = known.records.get(&id)?;
        let position = history.len().checked_sub(back)?;
        Some((*history.get(position.checked_sub(1)?)?, position as u64))
    }

    /// The server ran a change in the log of the epoch.
    pub(crate) fn changed(&self, epoch: u64, writes: &[(String, CellWrite)], changed: &ChangeAnswer) {
        let mut known = self.0.lock();
        known.changes += 1;
        crate::trace!("T change {epoch} {writes:?} {changed:?}");
        for (address, write) in writes {
            let Some((_, id)) = parse(address) else { continue };
            let version = match write {
                CellWrite::Invalidate(version) => *version,
                CellWrite::Put(cell) => Some(cell.header.version),
            };
            known.record_published(id, version, epoch, changed);
        }
    }

    /// The server received the epoch: nodes that follow it have dropped everything from before.
    pub(crate) fn epoch_received(&self, epoch: u64) {
        let now = Instant::now();
        let mut known = self.0.lock();
        if epoch <= known.epoch {
            return;
        }
        known.epoch = epoch;
        crate::trace!("T {now:?} epoch {epoch}");
        known.records.values_mut().flatten().for_each(|state| state.set_published(now));
        if known.hidden.is_some_and(|hidden| epoch > hidden) {
            known.hidden = None;
            known.replaced_at = Some(now);
            known.undetectable_until = Some(now + BOUND);
        }
    }

    /// The server's present contents may come back.
    pub(crate) fn dump_taken(&self) {
        let mut known = self.0.lock();
        known.dumped = known.changes;
    }

    /// The faults ended long ago: from now on a node that has not detected the replacement of the server is
    /// wrong.
    pub(crate) fn end_tolerance(&self) {
        self.0.lock().hidden = None;
    }

    /// The server was replaced by a server with an older past.
    pub(crate) fn server_replaced(&self, hidden: bool) {
        let mut known = self.0.lock();
        known.replaced_at = Some(Instant::now());
        crate::trace!("T swap {hidden}");
        known.logs_from = known.epoch + 1;
        // A server that lacks nothing cannot be distinguished from the previous server.
        if hidden && known.changes > known.dumped {
            known.hidden = Some(known.epoch);
        }
    }

    /// The write was acknowledged.
    pub(crate) fn acknowledge(&self, id: Id, position: u64) {
        let now = Instant::now();
        let mut known = self.0.lock();
        crate::trace!("T ack {id:?} {position}");
        let state = known.records.get_mut(&id).and_then(|history| history.get_mut(index(position)));
        state.map(|state| state.acknowledged.get_or_insert(now));
    }

    /// The highest epoch that the server received.
    pub(crate) fn epoch(&self) -> u64 {
        self.0.lock().epoch
    }

    /// Whether a reader at that time could not detect that the server was replaced under the same name.
    pub(crate) fn is_undetectable(&self, began: Instant) -> bool {
        let known = self.0.lock();
        known.hidden.is_some() || known.undetectable_until.is_some_and(|until| began < until)
    }

    /// The server's answer to a reader that follows this epoch must be as new as the last publication in it
    /// (I1).
    pub(crate) fn check_read(&self, address: &str, cell: Option<&Cell>) {
        use kith_cache::remote::CellKind::{Null, Value};
        let (Some((epoch, id)), Some(cell)) = (parse(address), cell) else { return };
        let mut known = self.0.lock();
        if !matches!(cell.header.kind, Value | Null) || known.hidden.is_some() || epoch < known.logs_from {
            return;
        }
        let published = known.logs.get(&epoch).and_then(|log| log.get(&id)?.last().copied());
        let published =
            published.and_then(|(_, position)| known.records[&id].get(position.checked_sub(1)?).copied());
        if published
            .is_some_and(|published| cell.header.version.get() < published.version && id.0 != Kind::List)
        {
            let version = cell.header.version;
            known.violations.push(format!(
                "the server gives version {version} of {id:?} after it published {published:?}"
            ));
        }
    }

    /// Reports a violation.
    pub(crate) fn report(&self, what: String) {
        self.0.lock().violations.push(what);
    }

    /// The first violation so far.
    pub(crate) fn violation(&self) -> Option<String> {
        self.0.lock().violations.first().cloned()
    }

    /// Something that every replay of the run must do alike.
    pub(crate) fn note(&self, what: impl Hash + std::fmt::Debug) {
        crate::trace!("T {what:?}");
        let mut known = self.0.lock();
        let mut hasher = DefaultHasher::new();
        (known.trace, what).hash(&mut hasher);
        known.trace = hasher.finish();
    }

    pub(crate) fn trace(&self) -> u64 {
        self.0.lock().trace
    }

    /// Cached reads that were judged, and those later than [`HEALTHY_P99`].
    pub(crate) fn judged(&self) -> (u64, u64) {
        self.0.lock().judged
    }

    /// The first record with a state that was never published.
    pub(crate) fn unpublished(&self) -> Option<(Id, usize)> {
        let known = self.0.lock();
        let unpublished = |history: &Vec<State>| history.iter().position(|state| state.published.is_none());
        known
            .records
            .iter()
            .find_map(|(id, history)| unpublished(history).map(|position| (*id, position + 1)))
    }

    /// Judges a cached read's answer: the position of the state that it gave, or that the record does not
    /// exist.
    pub(crate) fn judge(
        &self,
        id: Id,
        answer: Option<u64>,
        began: Instant,
        bound: Duration,
    ) -> Result<(), String> {
        let is_undetectable = self.is_undetectable(began);
        let mut known = self.0.lock();
        let late = known.late(id, answer, began);
        known.judged.0 += 1;
        known.judged.1 += u64::from(late > HEALTHY_P99);
        let Some(history) = known.records.get(&id) else { return Ok(()) };
        let position = position_of(history, answer);
        let later = || history.iter().skip(position);
        if late > bound && known.hidden.is_none() {
            return Err(format!("{id:?} is read as {position} of {}, {late:?} late", history.len()));
        }
        let done = later().find(|state| state.acknowledged.is_some_and(|done| done <= began));
        if id.0 == Kind::Right && done.is_some() && !is_undetectable {
            return Err(format!(
                "{id:?} is read as {position} of {} after the acknowledgement",
                history.len()
            ));
        }
        Ok(())
    }

    /// Judges an answer about a record whose changes are not broadcast: it may lack what is younger than
    /// [`AGE_MAX`].
    pub(crate) fn judge_age(&self, id: Id, answer: Option<u64>, began: Instant) -> Result<(), String> {
        let known = self.0.lock();
        let history = known.records.get(&id).map_or(&[][..], Vec::as_slice);
        let position = position_of(history, answer);
        let lacking =
            history.get(position).map_or(Duration::ZERO, |state| began.duration_since(state.stored));
        // Clocks of nodes count whole milliseconds.
        if lacking <= AGE_MAX + Duration::from_millis(1) {
            return Ok(());
        }
        Err(format!("{id:?} is read as {position} of {}, {lacking:?} after the next", history.len()))
    }

    /// Judges an answer that must not be older than a position.
    pub(crate) fn at_least(
        &self,
        id: Id,
        answer: Option<u64>,
        least: u64,
        began: Instant,
    ) -> Result<(), String> {
        if self.is_undetectable(began) {
            return Ok(());
        }
        let known = self.0.lock();
        let history = known.records.get(&id).map_or(&[][..], Vec::as_slice);
        let position = position_of(history, answer);
        if position as u64 >= least {
            Ok(())
        } else {
            Err(format!("{id:?} is read as {position}, not {least} or later"))
        }
    }

    /// The position known to a node that has applied an epoch's log up to this number (I3).
    pub(crate) fn applied(&self, id: Id, epoch: u64, number: u64) -> u64 {
        let known = self.0.lock();
        if epoch < known.logs_from || known.hidden.is_some() {
            return 0;
        }
        let log = known.logs.get(&epoch).and_then(|log| log.get(&id));
        let entries = log.into_iter().flatten().filter(|(logged, _)| *logged <= number);
        entries.map(|(_, position)| *position as u64).max().unwrap_or(0)
    }
}

impl TruthState {
    /// How long before the read a later state than the answer had been published.
    fn late(&self, id: Id, answer: Option<u64>, began: Instant) -> Duration {
        let history = self.records.get(&id).map_or(&[][..], Vec::as_slice);
        let published =
            history.iter().skip(position_of(history, answer)).filter_map(|state| state.published).min();
        let published = published
            .map(|published| self.replaced_at.map_or(published, |replaced_at| replaced_at.max(published)));
        published.map_or(Duration::ZERO, |published| began.saturating_duration_since(published))
    }

    fn record_published(&mut self, id: Id, version: Option<Version>, epoch: u64, changed: &ChangeAnswer) {
        let history = self.records.entry(id).or_default();
        let covers = |state: &State| version.is_none_or(|version| state.version <= version.get());
        let position = history.iter().rposition(covers).map_or(0, |at| at + 1);
        if changed.epoch <= epoch && epoch >= self.epoch {
            let now = Instant::now();
            history[..position].iter_mut().for_each(|state| state.set_published(now));
        }
        self.logs.entry(epoch).or_default().entry(id).or_default().push((changed.number, position));
    }
}

/// For an absence: the newest state that it can mean.
fn position_of(history: &[State], answer: Option<u64>) -> usize {
    match answer {
        Some(position) => usize::try_from(position).unwrap(),
        None => history.iter().rposition(|state| !state.exists).map_or(0, |at| at + 1),
    }
}

fn index(position: u64) -> usize {
    usize::try_from(position).unwrap().wrapping_sub(1)
}

fn parse(address: &str) -> Option<(u64, Id)> {
    let mut parts = address.split(':');
    let (epoch, kind, key) = (parts.next()?, parts.next()?, parts.next()?);
    Some((epoch.parse().ok()?, (Kind::of(kind)?, key.parse().ok()?)))
}
