//! A run: worlds with one sequence each, and random steps in them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use kith_cache::{
    fake::ManualClock,
    remote::redis::{RedisScript, Reply, ScriptCall},
};
use kith_delivery::{RedisSequences, SequenceLimits, Sequences};
use kith_store::{Seq, SequenceName};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{
    event_rates::{EventRates, StepKind},
    keeper::{Begun, Stepped},
    mutants::Mutant,
    store::ModelStore,
    truth::Truth,
};
use crate::model::{
    EditedScripts, TestRedis,
    stage::{CallOutcome, Program, Stage},
    stepped::{EpochOf, Epochs},
};

const NODES: usize = 3;
/// How many steps a world has.
const STEPS: usize = 160;
/// Callers at the same time.
const CALLERS: usize = 8;
/// Steps after which all programs in a calm world have ended.
const ENDS_WITHIN: usize = 4_000;
/// How many steps are shown for a world in which something was wrong.
const SHOWN: usize = 60;
/// Small, so that blocks end often.
const LIMITS: SequenceLimits =
    SequenceLimits { block: 6, block_max: 24, names: 4, waiting: 100, waiting_of_one: 1_000 };

/// The events in a run in which nothing was wrong.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) steps: usize,
    /// Programs that ended.
    pub(crate) ended: usize,
    /// How often Redis gave each answer, and what happened.
    pub(crate) answers: BTreeMap<&'static str, usize>,
}

/// Makes at least this many steps.
///
/// # Errors
/// The first thing that was wrong, with the steps that led to it.
pub(crate) async fn run(seed: u64, steps: usize, mutant: Option<&Mutant>) -> Result<Report, String> {
    let server = Server::connect(mutant.copied().unwrap_or_default()).await;
    let mut report = Report::default();
    let mut world_seed = seed;
    while report.steps < steps {
        let mut world = World::new(&server, world_seed);
        if let Err(wrong) = world.live().await {
            let from = world.trace.len().saturating_sub(SHOWN);
            return Err(format!("seed {world_seed}: {wrong}\n{}", world.trace[from..].join("\n")));
        }
        report.steps += STEPS;
        report.ended += world.ended;
        for (answer, count) in world.stage.answers() {
            *report.answers.entry(answer).or_default() += count;
        }
        world_seed += 1;
    }
    Ok(report)
}

/// The real Redis, and the scripts as the run has them.
struct Server {
    redis: TestRedis,
    mutant: Mutant,
    scripts: EditedScripts,
    save: RedisScript,
    restore: RedisScript,
}

impl Server {
    async fn connect(mutant: Mutant) -> Self {
        let redis = TestRedis::connect().await;
        let save = RedisScript::new(
            "return { redis.call('DUMP', KEYS[1]), tonumber(redis.call('HGET', KEYS[1], 'at') or '0') }",
        );
        let restore = RedisScript::new(
            "redis.call('DEL', KEYS[1])
            if ARGV[1] ~= '' then redis.call('RESTORE', KEYS[1], 0, ARGV[1]) end
            return 0",
        );
        let scripts = EditedScripts::new(mutant.edits.iter().copied());
        Self { redis, mutant, scripts, save, restore }
    }
}

struct Actor {
    id: usize,
    node: usize,
    /// A node fetches a block in the background.
    is_fetch: bool,
    what: String,
    program: Program,
}

struct ModelNode {
    sequences: Sequences,
    begun: Arc<Begun>,
}

/// A sequence state: in which epoch it was, and the last number that was given out then.
struct Saved {
    epoch: u64,
    at: Seq,
    value: Bytes,
}

/// One sequence, and what runs over it.
struct World<'a> {
    server: &'a Server,
    rng: StdRng,
    event_rates: EventRates,
    stage: Arc<Stage>,
    truth: Arc<Mutex<Truth>>,
    epochs: Arc<Epochs>,
    clock: ManualClock,
    name: SequenceName,
    store: Arc<ModelStore>,
    nodes: Vec<ModelNode>,
    actors: Vec<Actor>,
    last_id: usize,
    saved: Option<Saved>,
    ended: usize,
    trace: Vec<String>,
}

impl<'a> World<'a> {
    fn new(server: &'a Server, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (stage, truth) = (Arc::new(Stage::default()), Arc::new(Mutex::new(Truth::new(NODES))));
        let event_rates = EventRates::random(&mut rng);
        let store = ModelStore {
            last: Mutex::new(0),
            stage: Arc::clone(&stage),
            truth: Arc::clone(&truth),
            reads_then_writes: server.mutant.reads_then_writes,
        };
        let epochs = Epochs::new(server.redis.name.clone(), NODES, server.mutant.ignores_epochs);
        let mut world = Self {
            server,
            event_rates,
            stage,
            truth,
            epochs: Arc::new(epochs),
            clock: ManualClock::new(),
            name: format!("s{:016x}", rng.random::<u64>()).parse().unwrap(),
            rng,
            store: Arc::new(store),
            nodes: Vec::new(),
            actors: Vec::new(),
            last_id: 0,
            saved: None,
            ended: 0,
            trace: vec![format!("{event_rates:?}")],
        };
        world.nodes = (0..NODES).map(|node| world.node(node)).collect();
        assert!(server.scripts.is_edited(), "a text that a mutant replaces is in no script");
        world
    }

    /// A node that has just started.
    fn node(&self, number: usize) -> ModelNode {
        let epochs = Arc::new(EpochOf { epochs: Arc::clone(&self.epochs), node: number });
        let keeper = RedisSequences::over(Arc::clone(&self.server.redis.runner), epochs);
        let fetch_lease = Duration::from_millis(if self.event_rates.is_contiguous() { 60_000 } else { 2 });
        let keeper = keeper.with_fetch_lease(fetch_lease);
        let keeper = Arc::new(keeper.with_scripts(|text| self.server.scripts.edit(text)));
        let (stage, truth) = (Arc::clone(&self.stage), Arc::clone(&self.truth));
        let stepped = Stepped { keeper, stage, truth, mutant: self.server.mutant };
        let (store, begun) = (Arc::<ModelStore>::clone(&self.store), Arc::new(Begun::default()));
        let (clock, background) = (Arc::new(self.clock.clone()), Arc::<Begun>::clone(&begun));
        ModelNode { sequences: Sequences::new(store, Arc::new(stepped), clock, background, LIMITS), begun }
    }

    async fn live(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            self.step().await?;
        }
        if self.event_rates.is_calm { self.end().await } else { Ok(()) }
    }

    /// Ends the run: nothing begins any more. If every call was answered, no number was taken past Redis, and
    /// none was lost.
    async fn end(&mut self) -> Result<(), String> {
        for _ in 0..ENDS_WITHIN {
            if self.actors.is_empty() {
                let truth = self.truth.lock();
                let (taken, offered) = (truth.taken, truth.offered);
                return match truth.gap() {
                    _ if taken != offered => Err(format!("{taken} taken, {offered} offered")),
                    Some(gap) if self.event_rates.is_contiguous() => {
                        Err(format!("{gap} was lost without a fault"))
                    }
                    Some(_) | None => Ok(()),
                };
            }
            self.go_on().await?;
        }
        Err(format!("{} programs do not end", self.actors.len()))
    }

    async fn step(&mut self) -> Result<(), String> {
        let choices = self.event_rates.choices();
        match choices.choose_weighted(&mut self.rng, |(_, weight)| *weight).unwrap().0 {
            StepKind::GoOn => return self.go_on().await,
            StepKind::Begin => self.begin(),
            StepKind::Advance => {
                let ms = [1, 60, 150, 11_000][self.rng.random_range(0..4)];
                self.clock.advance(Duration::from_millis(ms));
            }
            StepKind::MakeLate => self.make_late().await,
            StepKind::Empty => {
                self.trace.push("emptied".to_owned());
                self.put(self.epochs.present(), Bytes::new()).await;
            }
            StepKind::Kill => self.kill(),
            StepKind::Save => self.save().await,
            StepKind::PutBack => self.put_back().await,
            StepKind::ChangeEpoch => self.change_epoch().await,
            StepKind::MoveNode => {
                let node = self.rng.random_range(0..NODES);
                self.epochs.move_node(node);
                self.trace.push(format!("node {node} follows epoch {}", self.epochs.present()));
            }
        }
        Ok(())
    }

    /// One actor goes on up to its next gate.
    async fn go_on(&mut self) -> Result<(), String> {
        if self.actors.is_empty() {
            return Ok(());
        }
        let index = self.rng.random_range(0..self.actors.len());
        let failing = if self.event_rates.redis_fails { 15 } else { 0 };
        let outcome = match self.rng.random_range(0..100) {
            of_100 if of_100 >= failing => CallOutcome::Made,
            of_100 => [CallOutcome::Late, CallOutcome::Failed, CallOutcome::Unanswered][of_100 % 3],
        };
        let actor = &mut self.actors[index];
        self.trace.push(format!("{outcome:?}: {} on node {}", actor.what, actor.node));
        let ended = self.stage.step(actor.id, outcome, &mut actor.program).await;
        self.adopt();
        let Some(ended) = ended else { return Ok(()) };
        self.ended += 1;
        let actor = self.actors.swap_remove(index);
        self.trace.push(format!("{} ended", actor.what));
        ended
    }

    /// Makes background work that nodes have begun separate actors.
    fn adopt(&mut self) {
        for node in 0..NODES {
            let begun = std::mem::take(&mut *self.nodes[node].begun.0.lock());
            for work in begun {
                self.last_id += 1;
                let (id, what) = (self.last_id, format!("#{} fetch", self.last_id));
                let program: Program = Box::pin(work.map(Ok));
                self.stage.count("ahead");
                self.actors.push(Actor { id, node, is_fetch: true, what, program });
            }
        }
    }

    fn begin(&mut self) {
        if self.actors.iter().filter(|actor| !actor.is_fetch).count() == CALLERS {
            return;
        }
        let node = self.rng.random_range(0..NODES);
        let count = [1, 1, 1, 2, 3, 5, 9, 40][self.rng.random_range(0..8)];
        let above = match self.rng.random_range(0..10) {
            0 if self.event_rates.skips => self.truth.lock().highest() + self.rng.random_range(0..30),
            1 | 2 => self.truth.lock().highest(),
            _ => 0,
        };
        self.last_id += 1;
        let what = format!("#{} {count} above {above}", self.last_id);
        self.trace.push(format!("begin {what} on node {node}"));
        let program = self.reserve(node, count, above);
        self.actors.push(Actor { id: self.last_id, node, is_fetch: false, what, program });
    }

    fn reserve(&self, node: usize, count: u32, above: Seq) -> Program {
        let (truth, is_calm) = (Arc::clone(&self.truth), self.event_rates.is_calm);
        let (sequences, name, stage) =
            (self.nodes[node].sequences.clone(), self.name.clone(), Arc::clone(&self.stage));
        Box::pin(async move {
            let floor = truth.lock().floor(node);
            match sequences.reserve(&name, count, above).await {
                Ok(ranges) => {
                    stage.count("given");
                    truth.lock().give(floor, count, above, &ranges, is_calm)
                }
                Err(error) if is_calm => Err(format!("nothing fails, but: {error}")),
                Err(_) => Ok(()),
            }
        })
    }

    async fn make_late(&mut self) {
        if self.stage.late() == 0 {
            return;
        }
        let index = self.rng.random_range(0..self.stage.late());
        self.trace.push("a late command is made".to_owned());
        self.stage.count("late");
        self.stage.make_late(index).await;
    }

    /// A node's actors end, wherever they are, and it starts again.
    fn kill(&mut self) {
        let node = self.rng.random_range(0..NODES);
        self.actors.retain(|actor| actor.node != node);
        self.nodes[node] = self.node(node);
        self.truth.lock().restarted(node);
        self.trace.push(format!("node {node} dies"));
    }

    async fn save(&mut self) {
        let epoch = self.epochs.present();
        let none: [Bytes; 0] = [];
        let call = ScriptCall::new(&self.server.save, vec![self.key(epoch)], none);
        let Reply::List(values) = self.server.redis.call(call).await else { panic!("two values") };
        let [Reply::Text(value), Reply::Number(at)] = &values[..] else { return };
        let (value, at) = (value.clone(), *at);
        self.trace.push(format!("saved with {at}"));
        self.saved = Some(Saved { epoch, at, value });
    }

    /// An old state under a running server, when each node has been given a number since.
    async fn put_back(&mut self) {
        let is_known = |saved: &Saved| {
            let truth = self.truth.lock();
            (0..NODES).all(|node| truth.of_node(node) > saved.at)
        };
        if self.saved.as_ref().is_some_and(is_known)
            && let Some(saved) = self.saved.take()
        {
            self.trace.push(format!("put back with {}", saved.at));
            self.stage.count("put back");
            self.put(saved.epoch, saved.value).await;
        }
    }

    /// A replica that is behind takes over, or nodes cannot reach each other's server: a new epoch begins.
    async fn change_epoch(&mut self) {
        if !self.epochs.are_one() {
            return;
        }
        let present = self.epochs.present();
        let is_cut = self.epochs.ignored || self.rng.random_bool(0.5);
        if is_cut && let Some(saved) = self.saved.take_if(|saved| saved.epoch == present) {
            self.put(saved.epoch, saved.value).await;
        }
        self.epochs.raise(is_cut);
        self.trace.push(format!("epoch {}, cut: {is_cut}", self.epochs.present()));
    }

    fn key(&self, epoch: u64) -> String {
        let epoch = if self.epochs.ignored { 1 } else { epoch };
        format!("{{{}:seq:{}}}:{epoch}", self.server.redis.runner.tag(), self.name)
    }

    async fn put(&self, epoch: u64, value: Bytes) {
        self.server.redis.call(ScriptCall::new(&self.server.restore, vec![self.key(epoch)], [value])).await;
    }
}
