//! A run's client: it makes one call at a time, each chosen at random and recorded.

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
    calls::{UserAnswer, UserCall, key_of},
    mix::{CallKind, Mix},
};
use crate::{
    checker::is_outage_code,
    history::{Call, Event, Level, Outcome, Recorder, UserRequest},
};

/// Users that most calls are about.
pub(super) const HOT: i64 = 100;
/// Names that concurrent creations compete for.
const NAMES: u32 = 50;
/// Users made for a name that a client remembers, to delete them.
const OWN_MAX: usize = 16;
/// Callers who send one request at the same time. All but the first have numbers that no client has.
const TWINS: u32 = 5;
const TWIN: u32 = 1_000;
/// The pause between a client's attempts to find out a write's outcome, and their time limit.
pub(super) const ASKED_EVERY: Duration = Duration::from_millis(200);
pub(super) const ASKED_FOR: Duration = Duration::from_secs(20);
/// The pause between two reads by a client that makes no other calls.
const WATCHES_EVERY: Duration = Duration::from_millis(20);

/// The caller in the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerId {
    /// The client's number.
    pub(super) client: u32,
    /// Whether it stays with one node.
    pub(super) pinned: bool,
}

/// A client's configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientConfig {
    pub(super) number: u32,
    /// The node it stays with; `None`: it chooses a node for each call.
    pub(super) pinned: Option<usize>,
    pub(super) seed: u64,
}

impl ClientConfig {
    pub(super) const fn caller(self) -> CallerId {
        CallerId { client: self.number, pinned: self.pinned.is_some() }
    }
}

/// The state that all clients in a run share.
#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) recorder: Recorder,
    pub(super) nodes: Vec<Channel>,
    /// The users that exist from the beginning have ids from 1 to this.
    pub(super) users: i64,
    /// Each user's last token, and its version.
    tokens: Mutex<HashMap<i64, (String, u64)>>,
    /// Users that were made for a name.
    made: Mutex<BTreeSet<i64>>,
    values: AtomicU64,
    pub(super) calls: AtomicU64,
    /// Messages that were acknowledged.
    pub(super) sent: AtomicU64,
    pub(super) over: AtomicBool,
}

/// A client that calls about users.
#[derive(Debug)]
pub(super) struct Client {
    config: ClientConfig,
    random: SmallRng,
    mix: Mix,
    state: Arc<ClientState>,
    own: Vec<i64>,
}

impl ClientState {
    pub(super) fn new(recorder: Recorder, nodes: Vec<Channel>, users: i64) -> Self {
        Self {
            recorder,
            nodes,
            users,
            made: Mutex::default(),
            tokens: Mutex::default(),
            values: AtomicU64::new(1),
            calls: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// A value that was not written before.
    pub(super) fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// All users in the run, by id.
    pub(super) fn all(&self) -> Vec<i64> {
        (1..=self.users).chain(self.made.lock().iter().copied()).collect()
    }

    /// Sends this client's call to its node or another node, and records the outcome.
    pub(super) async fn call(&self, caller: CallerId, node: usize, asked: &UserCall) -> Result<UserAnswer> {
        let CallerId { client, pinned } = caller;
        let began = self.recorder.now();
        let answered = asked.send(self.nodes[node].clone()).await;
        let ended = self.recorder.now();
        let key = match &asked.what {
            UserRequest::Create { name, .. } if asked.user_id == 0 => format!("name:{name}"),
            _ => key_of(asked.user_id),
        };
        let write = !matches!(asked.what, UserRequest::Read(_));
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
    pub(super) fn new(state: &Arc<ClientState>, config: ClientConfig, mix: Mix) -> Self {
        let random = SmallRng::seed_from_u64(config.seed);
        Self { config, random, mix, state: Arc::clone(state), own: Vec::new() }
    }

    /// Makes calls until the run is over.
    pub(super) async fn work(mut self) -> Result<()> {
        while !self.state.over.load(Ordering::Relaxed) {
            self.step().await?;
        }
        Ok(())
    }

    /// Makes strong reads of often written users until the run is over.
    pub(super) async fn watch(mut self) -> Result<()> {
        while !self.state.over.load(Ordering::Relaxed) {
            let (user_id, node) = (self.hot_user(), self.node());
            self.call(&UserCall::strong(user_id), node).await?;
            sleep(WATCHES_EVERY).await;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        let asked = self.choose();
        let write = !matches!(asked.what, UserRequest::Read(_));
        if write && self.random.random_ratio(1, 50) {
            return self.at_once(&asked).await;
        }
        let node = self.node();
        let answered = self.call(&asked, node).await?;
        if matches!(answered.outcome, Outcome::Open(_)) && self.random.random_ratio(1, 2) {
            self.until_known(&asked).await?;
        } else if self.random.random_ratio(u32::from(write), 50) {
            // A caller that lost the answer sends the same request again.
            let node = self.any_node();
            self.call(&asked, node).await?;
        }
        Ok(())
    }

    /// Acts as several independent callers: the same request at the same time, through any nodes.
    async fn at_once(&mut self, asked: &UserCall) -> Result<()> {
        let nodes: Vec<usize> = (0..TWINS).map(|_| self.any_node()).collect();
        let state = Arc::clone(&self.state);
        let first = self.config.number;
        let numbers = (0..TWINS).map(|twin| CallerId { client: first + twin * TWIN, pinned: false });
        let calls = numbers.zip(nodes).map(|(caller, node)| state.call(caller, node, asked));
        let answers = try_join_all(calls).await?;
        self.state.calls.fetch_add(u64::from(TWINS), Ordering::Relaxed);
        if let Some(done) = answers.iter().find(|answered| answered.token.is_some()) {
            self.learn(asked, done);
        }
        Ok(())
    }

    /// Acts as a caller that does not know the outcome: sends the same request again, through any live node,
    /// until the outcome is known.
    async fn until_known(&mut self, asked: &UserCall) -> Result<()> {
        let until = Instant::now() + ASKED_FOR;
        while !self.state.over.load(Ordering::Relaxed) && Instant::now() < until {
            let node = self.any_node();
            match self.call(asked, node).await?.outcome {
                Outcome::Open(code) | Outcome::Refused(code) if is_outage_code(&code) => {}
                _ => return Ok(()),
            }
            sleep(ASKED_EVERY).await;
        }
        Ok(())
    }

    async fn call(&mut self, asked: &UserCall, node: usize) -> Result<UserAnswer> {
        let answered = self.state.call(self.config.caller(), node, asked).await?;
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        self.learn(asked, &answered);
        Ok(answered)
    }

    fn learn(&mut self, asked: &UserCall, answered: &UserAnswer) {
        if let (Some(token), Outcome::Done { version, key, .. }) = (&answered.token, &answered.outcome) {
            let made = key.as_deref().and_then(|key| key.strip_prefix("user:")?.parse().ok());
            if let Some(made) = made {
                self.state.made.lock().insert(made);
            }
            if let Some(made) = made.filter(|_| self.own.len() < OWN_MAX) {
                self.own.push(made);
            }
            self.state.keep_token(made.unwrap_or(asked.user_id), token.clone(), *version);
        }
    }

    fn node(&mut self) -> usize {
        self.config.pinned.unwrap_or_else(|| self.any_node())
    }

    fn any_node(&mut self) -> usize {
        self.random.random_range(0..self.state.nodes.len())
    }

    /// A random call from the mix.
    fn choose(&mut self) -> UserCall {
        let request_id = format!("{}-{}", self.config.number, self.state.value());
        let (mut user_id, mut token) = (self.user(), String::new());
        let what = match self.mix.kind(&mut self.random) {
            CallKind::Update => UserRequest::Update { value: self.state.value() },
            CallKind::Creation => {
                user_id = 0;
                let name = format!("Name {}", self.random.random_range(0..NAMES));
                UserRequest::Create { name, value: self.state.value() }
            }
            CallKind::Deletion if !self.own.is_empty() => {
                let at = self.random.random_range(0..self.own.len());
                user_id = self.own.swap_remove(at);
                UserRequest::Delete
            }
            CallKind::Strong => UserRequest::Read(Level::Strong),
            CallKind::ByToken => {
                let kept = self.state.token(user_id);
                UserRequest::Read(kept.map_or(Level::Cached, |(kept, version)| {
                    token = kept;
                    Level::AtLeast(version)
                }))
            }
            CallKind::Deletion | CallKind::Cached => UserRequest::Read(Level::Cached),
        };
        UserCall { user_id, what, token, request_id }
    }

    /// One in ten calls concerns one of many users. The others concern few users, the first users most often.
    fn user(&mut self) -> i64 {
        if self.random.random_ratio(1, 10) {
            return self.random.random_range(HOT..=self.state.users);
        }
        self.hot_user()
    }

    fn hot_user(&mut self) -> i64 {
        // The distribution is harmonic, like the popularity of names.
        let most = f64::from(i32::try_from(HOT).unwrap_or(i32::MAX)).ln();
        let rank = (self.random.random::<f64>() * most).exp();
        (1..=HOT).find(|user| f64::from(i32::try_from(*user).unwrap_or(i32::MAX)) >= rank).unwrap_or(HOT)
    }
}
