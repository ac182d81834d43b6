//! A client of a run: one call at a time, each chosen at random, each written down.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use futures::future::try_join_all;
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{
    calls::{Answered, Asked, key_of},
    mix::{Kind, Mix},
};
use crate::{
    checker::of_a_disturbance,
    history::{Call, Event, Level, Outcome, Recorder, What},
};

/// Users that most calls are about.
pub(super) const HOT: i64 = 100;
/// Names that creations fight for.
const NAMES: u32 = 50;
/// Users made for a name that a client remembers, to delete them.
const OWN_MAX: usize = 16;
/// Callers who send one request at the same time; beyond the first they have numbers of their own.
const TWINS: u32 = 5;
const TWIN: u32 = 1_000;
/// A client that does not know the outcome of a write asks so often, and so long, until it is known.
pub(super) const ASKED_EVERY: Duration = Duration::from_millis(200);
pub(super) const ASKED_FOR: Duration = Duration::from_secs(20);
/// Between two reads of a client that does nothing else.
const WATCHES_EVERY: Duration = Duration::from_millis(20);

/// What all clients of a run share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) recorder: Recorder,
    pub(super) nodes: Vec<Channel>,
    /// The ids of the users that there are from the beginning are 1 to this.
    pub(super) users: i64,
    /// The last token of each user, and its version.
    tokens: Mutex<HashMap<i64, (String, u64)>>,
    /// Users that were made for a name.
    made: Mutex<BTreeSet<i64>>,
    values: AtomicU64,
    pub(super) calls: AtomicU64,
    /// Messages that were acknowledged.
    pub(super) sent: AtomicU64,
    pub(super) over: AtomicBool,
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    number: u32,
    /// The node it stays with; `None`: another one each time.
    pinned: Option<usize>,
    random: SmallRng,
    mix: Mix,
    desk: Arc<Desk>,
    own: Vec<i64>,
}

impl Desk {
    pub(super) fn new(recorder: Recorder, nodes: Vec<Channel>, users: i64) -> Self {
        let (tokens, values) = (Mutex::default(), AtomicU64::new(1));
        Self {
            recorder,
            nodes,
            users,
            made: Mutex::default(),
            tokens,
            values,
            calls: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// One that was not written before.
    pub(super) fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// All users of the run, by their ids.
    pub(super) fn all(&self) -> Vec<i64> {
        (1..=self.users).chain(self.made.lock().iter().copied()).collect()
    }

    /// Sends a call of this client, which stays with one node or not, and writes down what came of it.
    pub(super) async fn call(
        &self,
        (client, pinned): (u32, bool),
        node: usize,
        asked: &Asked,
    ) -> Result<Answered> {
        let began = self.recorder.now();
        let answered = asked.send(self.nodes[node].clone()).await;
        let ended = self.recorder.now();
        let key = match &asked.what {
            What::Create { name, .. } if asked.user_id == 0 => format!("name:{name}"),
            _ => key_of(asked.user_id),
        };
        let write = !matches!(asked.what, What::Read(_));
        self.recorder.write(&Event::Call(Call {
            client,
            pinned,
            node: u32::try_from(node)?,
            began,
            ended,
            key,
            what: asked.what.clone(),
            request_id: write.then(|| asked.request_id.clone()),
            outcome: answered.outcome.clone(),
        }))?;
        Ok(answered)
    }

    fn keep_token(&self, user_id: i64, token: String, version: u64) {
        let mut tokens = self.tokens.lock();
        let kept = tokens.entry(user_id).or_default();
        if kept.1 < version {
            *kept = (token, version);
        }
    }

    fn token(&self, user_id: i64) -> Option<(String, u64)> {
        self.tokens.lock().get(&user_id).cloned()
    }
}

impl Client {
    pub(super) fn new(desk: &Arc<Desk>, number: u32, pinned: Option<usize>, mix: Mix, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { number, pinned, random, mix, desk: Arc::clone(desk), own: Vec::new() }
    }

    /// Calls until the run is over.
    pub(super) async fn work(mut self) -> Result<()> {
        while !self.desk.over.load(Ordering::Relaxed) {
            self.step().await?;
        }
        Ok(())
    }

    /// Asks for the newest of what is often written until the run is over.
    pub(super) async fn watch(mut self) -> Result<()> {
        while !self.desk.over.load(Ordering::Relaxed) {
            let user_id = self.hot_user();
            let what = What::Read(Level::Strong);
            let asked = Asked { user_id, what, token: String::new(), request_id: String::new() };
            let node = self.node();
            self.call(&asked, node).await?;
            sleep(WATCHES_EVERY).await;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        let asked = self.choose();
        let write = !matches!(asked.what, What::Read(_));
        if write && self.random.random_ratio(1, 50) {
            return self.at_once(&asked).await;
        }
        let node = self.node();
        let answered = self.call(&asked, node).await?;
        if matches!(answered.outcome, Outcome::Open(_)) && self.random.random_ratio(1, 2) {
            self.until_known(&asked).await?;
        } else if self.random.random_ratio(u32::from(write), 50) {
            // As a caller whose answer was lost: the same again.
            let node = self.any_node();
            self.call(&asked, node).await?;
        }
        Ok(())
    }

    /// As several callers would who do not know of each other: the same, at the same time, to whichever nodes there
    /// are.
    async fn at_once(&mut self, asked: &Asked) -> Result<()> {
        let nodes: Vec<usize> = (0..TWINS).map(|_| self.any_node()).collect();
        let desk = Arc::clone(&self.desk);
        let numbers = (0..TWINS).map(|twin| (self.number + twin * TWIN, false));
        let calls = numbers.zip(nodes).map(|(caller, node)| desk.call(caller, node, asked));
        let answers = try_join_all(calls).await?;
        self.desk.calls.fetch_add(u64::from(TWINS), Ordering::Relaxed);
        if let Some(done) = answers.iter().find(|answered| answered.token.is_some()) {
            self.learn(asked, done);
        }
        Ok(())
    }

    /// As a caller who does not know what came of it: the same again, to whichever node is there, until it is known.
    async fn until_known(&mut self, asked: &Asked) -> Result<()> {
        let until = Instant::now() + ASKED_FOR;
        while !self.desk.over.load(Ordering::Relaxed) && Instant::now() < until {
            let node = self.any_node();
            match self.call(asked, node).await?.outcome {
                Outcome::Open(code) | Outcome::Refused(code) if of_a_disturbance(&code) => {}
                _ => return Ok(()),
            }
            sleep(ASKED_EVERY).await;
        }
        Ok(())
    }

    async fn call(&mut self, asked: &Asked, node: usize) -> Result<Answered> {
        let answered = self.desk.call((self.number, self.pinned.is_some()), node, asked).await?;
        self.desk.calls.fetch_add(1, Ordering::Relaxed);
        self.learn(asked, &answered);
        Ok(answered)
    }

    fn learn(&mut self, asked: &Asked, answered: &Answered) {
        if let (Some(token), Outcome::Done { version, key, .. }) = (&answered.token, &answered.outcome) {
            let made = key.as_deref().and_then(|key| key.strip_prefix("user:")?.parse().ok());
            if let Some(made) = made {
                self.desk.made.lock().insert(made);
            }
            if let Some(made) = made.filter(|_| self.own.len() < OWN_MAX) {
                self.own.push(made);
            }
            self.desk.keep_token(made.unwrap_or(asked.user_id), token.clone(), *version);
        }
    }

    fn node(&mut self) -> usize {
        self.pinned.unwrap_or_else(|| self.any_node())
    }

    fn any_node(&mut self) -> usize {
        self.random.random_range(0..self.desk.nodes.len())
    }

    /// A call of a kind that the mix gives.
    fn choose(&mut self) -> Asked {
        let request_id = format!("{}-{}", self.number, self.desk.value());
        let (mut user_id, mut token) = (self.user(), String::new());
        let what = match self.mix.kind(&mut self.random) {
            Kind::Update => What::Update { value: self.desk.value() },
            Kind::Creation => {
                user_id = 0;
                let name = format!("Name {}", self.random.random_range(0..NAMES));
                What::Create { name, value: self.desk.value() }
            }
            Kind::Deletion if !self.own.is_empty() => {
                let at = self.random.random_range(0..self.own.len());
                user_id = self.own.swap_remove(at);
                What::Delete
            }
            Kind::Strong => What::Read(Level::Strong),
            Kind::ByToken => {
                let kept = self.desk.token(user_id);
                What::Read(kept.map_or(Level::Cached, |(kept, version)| {
                    token = kept;
                    Level::AtLeast(version)
                }))
            }
            Kind::Deletion | Kind::Cached => What::Read(Level::Cached),
        };
        Asked { user_id, what, token, request_id }
    }

    /// One in ten calls is about one of many, the others are about few, the first of them most.
    fn user(&mut self) -> i64 {
        if self.random.random_ratio(1, 10) {
            return self.random.random_range(HOT..=self.desk.users);
        }
        self.hot_user()
    }

    fn hot_user(&mut self) -> i64 {
        // Harmonic, as the popularity of names is.
        let most = f64::from(i32::try_from(HOT).unwrap_or(i32::MAX)).ln();
        let rank = (self.random.random::<f64>() * most).exp();
        (1..=HOT).find(|user| f64::from(i32::try_from(*user).unwrap_or(i32::MAX)) >= rank).unwrap_or(HOT)
    }
}
