//! A correct store, its nodes, and clients with random calls: their history passes every check.
//!
//! Every call has one moment between its beginning and its end at which it takes effect; the calls are made
//! in the order of these moments. A node answers cached reads with a slightly older state, and never with an
//! older state than it answered before.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    time::Duration,
};

use kith_lab::{
    checker::{Bounds, FaultEffect},
    history::{Call, CopyPlace, Event, Fault, Level, Outcome, RecordEnd, UserRequest},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use crate::{
    message_history,
    plan::{CallProfile, PlannedCall, PlannedOutcome},
    relation_history,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const CLIENTS: u32 = 8;
/// The clients below stay with one node.
pub(crate) const PINNED: u32 = 6;
pub(crate) const NODES: u32 = 4;
const PROFILE: CallProfile =
    CallProfile { calls: 620, lasts: 5 * MS, pause: MS, again: 0.7, writes: 0.4, lost: 12 };
const NAMES: u64 = 60;
pub(crate) const FAULTS: [Range<u64>; 2] = [600 * MS..900 * MS, 1_600 * MS..1_900 * MS];
/// The oldest that a node answers, while nothing is wrong and while a fault is on.
pub(crate) const LAGS: [u64; 2] = [20 * MS, 150 * MS];

pub(crate) const BOUNDS: Bounds = Bounds {
    healthy: Duration::from_millis(100),
    faulty: FaultEffect { bound: Duration::from_millis(400), heals: Duration::from_millis(100) },
    by_fault: BTreeMap::new(),
};

/// The history with about 5000 calls, which follows from the seed.
pub(crate) fn history(seed: u64) -> Vec<Event> {
    let mut world = World::new(seed);
    let plans = PROFILE.all_plans(&mut world.random);
    let mut events: Vec<Event> = plans.iter().map(|plan| Event::Call(world.call(plan))).collect();
    for (at, on) in FAULTS.iter().flat_map(|fault| [(fault.start, true), (fault.end, false)]) {
        events.push(Event::Fault(Fault { at, what: "redis away".to_owned(), on }));
    }
    events.extend(world.dump());
    events.extend(relation_history::history(seed));
    events.extend(message_history::history(seed));
    events.shuffle(&mut world.random);
    events
}

#[derive(Clone, Debug)]
struct Stored {
    name: String,
    /// When it was written, and what.
    versions: Vec<(u64, u64)>,
    deleted: Option<u64>,
}

impl Stored {
    /// The version that it had then: 0 before the first version, `u64::MAX` once it was deleted.
    fn at(&self, time: u64) -> u64 {
        if self.deleted.is_some_and(|deleted| deleted <= time) {
            return u64::MAX;
        }
        u64::try_from(self.versions.iter().filter(|(at, _)| *at <= time).count()).unwrap()
    }

    fn answer(&self, version: u64, key: Option<String>) -> Outcome {
        match usize::try_from(version).unwrap_or(usize::MAX) {
            0 | usize::MAX => Outcome::Gone,
            at => Outcome::Done { version, value: self.versions[at - 1].1, key },
        }
    }
}

struct World {
    random: StdRng,
    records: Vec<Stored>,
    /// Each request's record and what it asks for.
    asked: HashMap<u64, (usize, UserRequest)>,
    /// The outcomes of requests that had their effect.
    replies: HashMap<u64, Outcome>,
    /// The version that a node (first) has for a record (second).
    views: HashMap<(u32, usize), u64>,
    /// The newest version that a client (first) knows for a record (second).
    tokens: HashMap<(u32, usize), u64>,
    /// The record that a client wrote last.
    wrote: HashMap<u32, usize>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            records: Vec::new(),
            asked: HashMap::new(),
            replies: HashMap::new(),
            views: HashMap::new(),
            tokens: HashMap::new(),
            wrote: HashMap::new(),
        }
    }

    fn call(&mut self, plan: &PlannedCall) -> Call {
        let (at, what) = self.ask(plan);
        let outcome = match plan.outcome {
            PlannedOutcome::Refused => Outcome::Refused("RESOURCE_EXHAUSTED".to_owned()),
            PlannedOutcome::Open(false) => Outcome::Open("DEADLINE_EXCEEDED".to_owned()),
            PlannedOutcome::Open(true) => {
                self.effect(plan, at, &what);
                Outcome::Open("UNAVAILABLE".to_owned())
            }
            PlannedOutcome::Answered => {
                let outcome = self.effect(plan, at, &what);
                self.learn(plan, at, &what, &outcome);
                outcome
            }
        };
        let key = if let UserRequest::Create { name, .. } = &what { format!("name:{name}") } else { key(at) };
        let &PlannedCall { client, node, began, ended, request, .. } = plan;
        let request_id = request.map(|request| format!("r{request}"));
        Call { client, pinned: client < PINNED, node, began, ended, key, what, request_id, outcome }
    }

    /// The record that the call concerns, and what it asks for.
    fn ask(&mut self, plan: &PlannedCall) -> (usize, UserRequest) {
        if let Some(asked) = plan.request.and_then(|request| self.asked.get(&request)) {
            return asked.clone();
        }
        let at = self.choose(plan.client);
        let asked = match plan.request {
            None if self.records.is_empty() => return (0, UserRequest::Read(Level::Cached)),
            None => return (at, self.read(plan.client, at)),
            Some(value) => (at, self.write(value)),
        };
        self.asked.extend(plan.request.map(|request| (request, asked.clone())));
        asked
    }

    /// Few records are read often, and a client often reads a record that it wrote.
    fn choose(&mut self, client: u32) -> usize {
        if let Some(own) = self.wrote.get(&client).filter(|_| self.random.random_bool(0.2)) {
            return *own;
        }
        let most = self.records.len().saturating_sub(1);
        let first = self.random.random_range(0..=most);
        let second = self.random.random_range(0..=most);
        first.min(second)
    }

    fn read(&mut self, client: u32, at: usize) -> UserRequest {
        let token = self.tokens.get(&(client, at)).copied();
        UserRequest::Read(match (self.random.random_range(0..10), token) {
            (0..2, _) => Level::Strong,
            (2..5, Some(token)) => Level::AtLeast(token),
            _ => Level::Cached,
        })
    }

    /// Every request writes its own value.
    fn write(&mut self, value: u64) -> UserRequest {
        match self.random.random_range(0..100) {
            _ if self.records.is_empty() => UserRequest::Create { name: "n0".to_owned(), value },
            0..15 => UserRequest::Create { name: format!("n{}", self.random.random_range(0..NAMES)), value },
            15..19 => UserRequest::Delete,
            _ => UserRequest::Update { value },
        }
    }

    fn effect(&mut self, plan: &PlannedCall, at: usize, what: &UserRequest) -> Outcome {
        if let Some(reply) = plan.request.and_then(|request| self.replies.get(&request)) {
            return reply.clone();
        }
        let reply = match what {
            UserRequest::Read(level) => return self.answer(plan, at, *level),
            UserRequest::Create { name, value } => self.create(plan.effect, name, *value),
            UserRequest::Update { value } => self.update(plan.effect, at, *value),
            UserRequest::Delete => self.delete(plan.effect, at),
        };
        let had_effect =
            matches!((what, &reply), (_, Outcome::Done { .. }) | (UserRequest::Delete, Outcome::Gone));
        self.replies.extend(plan.request.filter(|_| had_effect).map(|request| (request, reply.clone())));
        reply
    }

    fn answer(&mut self, plan: &PlannedCall, at: usize, level: Level) -> Outcome {
        let known = plan.known(&mut self.random);
        let Some(record) = self.records.get(at) else { return Outcome::Gone };
        let view = self.views.entry((plan.node, at)).or_default();
        *view = (*view).max(match level {
            Level::Strong => record.at(plan.effect),
            Level::AtLeast(token) => record.at(known).max(token),
            Level::Cached => record.at(known),
        });
        record.answer(*view, None)
    }

    fn create(&mut self, now: u64, name: &str, value: u64) -> Outcome {
        if self.records.iter().any(|record| record.name == name && record.deleted.is_none()) {
            return Outcome::Refused("ALREADY_EXISTS".to_owned());
        }
        self.records.push(Stored { name: name.to_owned(), versions: vec![(now, value)], deleted: None });
        let at = self.records.len() - 1;
        self.records[at].answer(1, Some(key(at)))
    }

    fn update(&mut self, now: u64, at: usize, value: u64) -> Outcome {
        let record = &mut self.records[at];
        if record.deleted.is_none() {
            record.versions.push((now, value));
        }
        record.answer(record.at(now), None)
    }

    fn delete(&mut self, now: u64, at: usize) -> Outcome {
        self.records[at].deleted.get_or_insert(now);
        Outcome::Gone
    }

    /// The client and its node know the answers that they gave and got.
    fn learn(&mut self, plan: &PlannedCall, at: usize, what: &UserRequest, outcome: &Outcome) {
        let (at, version) = match outcome {
            Outcome::Done { version, key: Some(made), .. } => {
                (made.trim_start_matches("user:").parse().unwrap(), *version)
            }
            Outcome::Done { version, .. } => (at, *version),
            Outcome::Gone if !matches!(what, UserRequest::Read(_)) => (at, u64::MAX),
            Outcome::Gone | Outcome::Refused(_) | Outcome::Open(_) => return,
        };
        if !matches!(what, UserRequest::Read(_)) {
            self.wrote.insert(plan.client, at);
            let view = self.views.entry((plan.node, at)).or_default();
            *view = version.max(*view);
        }
        if version < u64::MAX {
            let token = self.tokens.entry((plan.client, at)).or_default();
            *token = version.max(*token);
        }
    }

    /// The store has every record; other places have some records.
    fn dump(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, record) in self.records.iter().enumerate() {
            let last = u64::try_from(record.versions.len()).unwrap();
            let gone = record.deleted.is_some();
            let state = (!gone).then(|| (last, Some(record.versions.last().unwrap().1)));
            let places =
                [CopyPlace::Store, CopyPlace::Redis].into_iter().chain((0..NODES).map(CopyPlace::Memory));
            for place in places {
                let has = place == CopyPlace::Store || self.random.random_bool(0.6);
                let (state, gone) = if has { (state, gone) } else { (None, false) };
                events.push(Event::Held(RecordEnd { key: key(at), place, state, gone }));
            }
        }
        events
    }
}

fn key(at: usize) -> String {
    format!("user:{at}")
}
