//! Generates histories with follows and blocks: a correct store, and clients that follow, take back, block
//! and read, crossing each other on few pairs.

use std::collections::{BTreeMap, HashMap};

use kith_lab::history::{
    Edge, EdgeEnd, Event, Level, ListsEnd, RelationCall, RelationOutcome, RelationRequest, Setting, Settings,
    Side,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    builder::MS,
    plan::{CallProfile, PINNED, PlannedCall, PlannedOutcome},
};

const PROFILE: CallProfile =
    CallProfile { calls: 250, lasts: 8 * MS, pause: 3 * MS, again: 0.9, writes: 0.5, lost: 6 };
const USERS: i64 = 5;

/// About 2000 calls, which follow from the seed.
pub(crate) fn history(seed: u64) -> Vec<Event> {
    let mut relations = RelationWorld {
        random: StdRng::seed_from_u64(seed ^ 0xF0110),
        version: 0,
        follows: BTreeMap::new(),
        blocks: BTreeMap::new(),
        asked: HashMap::new(),
        replies: HashMap::new(),
        views: HashMap::new(),
        tokens: HashMap::new(),
    };
    let plans = PROFILE.all_plans(&mut relations.random);
    let mut events: Vec<Event> = plans.iter().map(|plan| Event::Relation(relations.call(plan))).collect();
    events.extend(relations.dump());
    events
}

/// The entries in a list, with their versions.
type Entries = Vec<(i64, u64)>;

/// One edge's states, each with the time when it began; `None`: no follow.
type States = Vec<(u64, Option<u64>)>;

struct RelationWorld {
    random: StdRng,
    version: u64,
    follows: BTreeMap<Edge, States>,
    blocks: BTreeMap<Edge, Settings>,
    asked: HashMap<u64, RelationRequest>,
    replies: HashMap<u64, RelationOutcome>,
    /// Up to when a node knows an edge, by records and by lists.
    views: HashMap<(u32, Edge, bool), u64>,
    /// The newest follow that a client has seen, and when that was made.
    tokens: HashMap<(u32, Edge), (u64, u64)>,
}

impl RelationWorld {
    fn call(&mut self, plan: &PlannedCall) -> RelationCall {
        let what = self.ask(plan);
        let outcome = match plan.outcome {
            PlannedOutcome::Refused => RelationOutcome::Refused("RESOURCE_EXHAUSTED".to_owned()),
            PlannedOutcome::Open(effect) => {
                if effect {
                    self.effect(plan, what);
                }
                RelationOutcome::Open("UNAVAILABLE".to_owned())
            }
            PlannedOutcome::Answered => {
                let outcome = self.effect(plan, what);
                self.learn(plan, what, &outcome);
                outcome
            }
        };
        let &PlannedCall { client, node, began, ended, request, .. } = plan;
        let request_id = request.map(|request| format!("f{request}"));
        RelationCall { client, pinned: client < PINNED, node, began, ended, what, request_id, outcome }
    }

    fn ask(&mut self, plan: &PlannedCall) -> RelationRequest {
        let Some(request) = plan.request else { return self.read(plan.client) };
        if let Some(asked) = self.asked.get(&request) {
            return *asked;
        }
        let edge = self.edge();
        let asked = match self.random.random_range(0..10) {
            0..4 => RelationRequest::Follow(edge),
            4..7 => RelationRequest::Unfollow(edge),
            7 => RelationRequest::Set(edge, Setting::Block),
            8 => RelationRequest::Set(edge, Setting::Unblock),
            _ => RelationRequest::Set(edge, Setting::Permissions(self.random.random_range(0..64))),
        };
        self.asked.insert(request, asked);
        asked
    }

    fn edge(&mut self) -> Edge {
        let from = self.random.random_range(1..=USERS);
        Edge(from, (from + self.random.random_range(0..USERS - 1)) % USERS + 1)
    }

    fn read(&mut self, client: u32) -> RelationRequest {
        let (edge, user) = (self.edge(), self.random.random_range(1..=USERS));
        let level = if self.random.random_bool(0.2) { Level::Strong } else { Level::Cached };
        match self.random.random_range(0..10) {
            0..2 => RelationRequest::Check(edge, self.random.random_range(0..64)),
            2..4 => RelationRequest::List(user, Side::Following, level),
            4..6 => RelationRequest::List(user, Side::Fans, level),
            6 => RelationRequest::Count(user),
            _ => match self.tokens.get(&(client, edge)) {
                Some((_, version)) if self.random.random_bool(0.5) => {
                    RelationRequest::Get(edge, Level::AtLeast(*version))
                }
                _ => RelationRequest::Get(edge, level),
            },
        }
    }

    fn effect(&mut self, plan: &PlannedCall, what: RelationRequest) -> RelationOutcome {
        if let Some(reply) = plan.request.and_then(|request| self.replies.get(&request)) {
            return reply.clone();
        }
        let reply = self.answer(plan, what);
        let kept = plan.request.filter(|_| !matches!(reply, RelationOutcome::Refused(_)));
        self.replies.extend(kept.map(|request| (request, reply.clone())));
        reply
    }

    fn answer(&mut self, plan: &PlannedCall, what: RelationRequest) -> RelationOutcome {
        match what {
            RelationRequest::Follow(edge) if self.set(edge.reversed()).blocked => {
                RelationOutcome::Refused("FAILED_PRECONDITION".to_owned())
            }
            RelationRequest::Follow(edge) => RelationOutcome::Follows(match self.at(edge, plan.effect) {
                Some(version) => version,
                None => self.write(edge, plan.effect, true),
            }),
            RelationRequest::Unfollow(edge) if self.at(edge, plan.effect).is_none() => {
                RelationOutcome::Refused("NOT_FOUND".to_owned())
            }
            RelationRequest::Unfollow(edge) => RelationOutcome::Ended(self.write(edge, plan.effect, false)),
            RelationRequest::Set(edge, setting) => {
                let settings = self.set(edge).with(setting);
                self.blocks.insert(edge, settings);
                let cuts = setting == Setting::Block && self.at(edge.reversed(), plan.effect).is_some();
                if cuts {
                    self.write(edge.reversed(), plan.effect, false);
                }
                RelationOutcome::Set(settings, cuts)
            }
            RelationRequest::Get(edge, level) => RelationOutcome::Found {
                follow: self.view(plan, edge, level, true),
                followed_by: self.view(plan, edge.reversed(), level, true),
                settings: self.set(edge),
            },
            RelationRequest::Check(edge, asked) => {
                let settings = self.set(edge);
                let denied = settings.denied(asked).unwrap_or_default();
                RelationOutcome::Allows(denied == 0 && !settings.blocked, denied)
            }
            RelationRequest::List(user, side, level) => {
                let others = (1..=USERS).filter(|other| *other != user);
                let seen = |other| Some((other, self.view(plan, side.edge(user, other), level, false)?));
                RelationOutcome::Listed(others.filter_map(seen).collect())
            }
            RelationRequest::Count(user) => {
                let (following, fans) = self.lists(user);
                RelationOutcome::Counted(number(&following), number(&fans))
            }
        }
    }

    fn set(&self, edge: Edge) -> Settings {
        self.blocks.get(&edge).copied().unwrap_or_default()
    }

    fn at(&self, edge: Edge, time: u64) -> Option<u64> {
        let states = self.follows.get(&edge)?;
        states.iter().rev().find(|(at, _)| *at <= time)?.1
    }

    fn write(&mut self, edge: Edge, now: u64, is_active: bool) -> u64 {
        self.version += self.random.random_range(2..1_000);
        let version = self.version;
        self.follows.entry(edge).or_default().push((now, is_active.then_some(version)));
        version
    }

    /// The state that a node sees, which never goes back.
    fn view(&mut self, plan: &PlannedCall, edge: Edge, level: Level, of_record: bool) -> Option<u64> {
        let known = plan.known(&mut self.random);
        let token = self.tokens.get(&(plan.client, edge)).map_or(0, |(at, _)| *at);
        let view = self.views.entry((plan.node, edge, of_record)).or_default();
        *view = (*view).max(match level {
            Level::Strong => plan.effect,
            Level::AtLeast(_) => known.max(token),
            Level::Cached => known,
        });
        let view = *view;
        self.at(edge, view)
    }

    /// The client and its node know the answers that they gave and got.
    fn learn(&mut self, plan: &PlannedCall, what: RelationRequest, outcome: &RelationOutcome) {
        let (RelationRequest::Follow(edge) | RelationRequest::Unfollow(edge)) = what else { return };
        let (RelationOutcome::Follows(version) | RelationOutcome::Ended(version)) = outcome else { return };
        for of_record in [true, false] {
            let view = self.views.entry((plan.node, edge, of_record)).or_default();
            *view = plan.effect.max(*view);
        }
        self.tokens.insert((plan.client, edge), (plan.effect, *version));
    }

    fn lists(&self, user: i64) -> (Entries, Entries) {
        let side = |side: Side| {
            let others = (1..=USERS).filter(|other| *other != user);
            others.filter_map(|other| Some((other, self.at(side.edge(user, other), u64::MAX)?))).collect()
        };
        (side(Side::Following), side(Side::Fans))
    }

    fn dump(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for user in 1..=USERS {
            let (following, fans) = self.lists(user);
            let counts = (number(&following), number(&fans));
            events.push(Event::Lists(ListsEnd { user, following, fans, counts }));
            for other in (1..=USERS).filter(|other| *other != user) {
                let edge = Edge(user, other);
                let (follow, settings) = (self.at(edge, u64::MAX), self.set(edge));
                events.push(Event::Edge(EdgeEnd { edge, follow, settings }));
            }
        }
        events
    }
}

fn number(list: &[(i64, u64)]) -> i64 {
    i64::try_from(list.len()).unwrap()
}
