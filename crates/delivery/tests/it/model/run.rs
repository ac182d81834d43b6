//! A run: worlds with one conversation each, and random steps in them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use kith_cache::{
    Clock as _,
    fake::ManualClock,
    remote::redis::{Reply, ScriptCall},
};
use kith_delivery::{RedisWindows, Span, WindowLimits, Windows};
use kith_store::{ConversationId, GroupId, MessageStore, Seq};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{
    actors::{self, DeathPoint, Holds, NodeView},
    event_rates::{EventRates, StepKind},
    log::{ModelLog, OldestFirst},
    mutants::Mutant,
    server::Server,
    stage::{CallOutcome, Program, Stage},
    stepped::{EpochOf, Epochs, Stepped},
    truth::Truth,
};

const NODES: usize = 3;
/// How many steps a world has.
const STEPS: usize = 160;
/// Programs at the same time.
const ACTORS: usize = 6;
/// The most steps in a read that no other step interrupts.
const AUDIT: usize = 30;
/// A hold has ended when this time has passed.
const HOLD_PASSED_MS: u64 = 15_001;
/// How many steps are shown for a world in which something was wrong.
const SHOWN: usize = 60;

/// The events in a run in which nothing was wrong.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) steps: usize,
    /// Programs that ended.
    pub(crate) ended: usize,
    /// How often Redis gave each answer.
    pub(crate) answers: BTreeMap<&'static str, usize>,
}

/// Makes at least this many steps.
///
/// # Errors
/// The first thing that was wrong, with the steps that led to it.
pub(crate) async fn run(seed: u64, steps: usize, mutant: Option<&Mutant>) -> Result<Report, String> {
    let server = Server::connect(mutant).await;
    let mut report = Report::default();
    let mut world_seed = seed;
    while report.steps < steps {
        let mut world = World::new(&server, world_seed, mutant).await;
        for _ in 0..STEPS {
            if let Err(wrong) = world.step().await {
                let from = world.trace.len().saturating_sub(SHOWN);
                return Err(format!("seed {world_seed}: {wrong}\n{}", world.trace[from..].join("\n")));
            }
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

struct Actor {
    id: usize,
    node: usize,
    /// Others go on much more often.
    is_slow: bool,
    what: String,
    program: Program,
}

fn read(node: NodeView, asked: Span, at_least: Seq) -> (String, Program) {
    (format!("read {asked:?} at least {at_least}"), Box::pin(actors::read(node, asked, at_least)))
}

/// One conversation, and what runs over it.
struct World<'a> {
    server: &'a Server,
    rng: StdRng,
    event_rates: EventRates,
    stage: Arc<Stage>,
    truth: Arc<Mutex<Truth>>,
    epochs: Arc<Epochs>,
    holds: Arc<Holds>,
    clock: ManualClock,
    log: ConversationId,
    store: Arc<dyn MessageStore>,
    nodes: Vec<NodeView>,
    actors: Vec<Actor>,
    last_id: usize,
    /// The window as a replica has it that is behind.
    saved: Option<(u64, Vec<Bytes>)>,
    ended: usize,
    trace: Vec<String>,
}

impl<'a> World<'a> {
    async fn new(server: &'a Server, seed: u64, mutant: Option<&Mutant>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (stage, truth) = (Arc::new(Stage::default()), Arc::new(Mutex::new(Truth::default())));
        let begin = [0, 1, 20, 98, 101, 105, 150][rng.random_range(0..7)];
        truth.lock().append(begin, 0);
        let event_rates = EventRates::random(&mut rng);
        let log = ModelLog { truth: Arc::clone(&truth), stage: Arc::clone(&stage) };
        let store: Arc<dyn MessageStore> = match mutant {
            Some(mutant) if mutant.reads_oldest_first => Arc::new(OldestFirst(log)),
            _ => Arc::new(log),
        };
        let is_ignored = mutant.is_some_and(|mutant| mutant.ignores_epochs);
        let mut world = Self {
            server,
            stage,
            truth,
            epochs: Arc::new(Epochs::new(server.redis.name.clone(), NODES, is_ignored)),
            holds: Arc::default(),
            clock: ManualClock::new(),
            log: ConversationId::Group(GroupId::new(rng.random_range(1..i64::MAX)).unwrap()),
            rng,
            event_rates,
            store,
            nodes: Vec::new(),
            actors: Vec::new(),
            last_id: 0,
            saved: None,
            ended: 0,
            trace: Vec::new(),
        };
        // A server's first minute is a time like any other: nothing was acknowledged at 0.
        world.advance(60_000).await;
        world.nodes = (0..NODES).map(|node| world.node(node)).collect();
        assert!(server.scripts.is_edited(), "a text that a mutant replaces is in no script");
        world
    }

    /// A node that has just started.
    fn node(&self, number: usize) -> NodeView {
        let epochs = Arc::new(EpochOf { epochs: Arc::clone(&self.epochs), node: number });
        let (limits, clock) = (WindowLimits::default(), Arc::new(self.clock.clone()));
        let runner = Arc::clone(&self.server.redis.runner);
        let keeper = RedisWindows::over(runner, epochs, Arc::<ManualClock>::clone(&clock), limits);
        let keeper = Arc::new(keeper.with_scripts(|text| self.server.scripts.edit(text)));
        let stepped = Arc::new(Stepped { keeper, stage: Arc::clone(&self.stage) });
        NodeView {
            number,
            windows: Windows::over(stepped, Arc::clone(&self.store), clock, limits),
            log: self.log,
            truth: Arc::clone(&self.truth),
            stage: Arc::clone(&self.stage),
            epochs: Arc::clone(&self.epochs),
            clock: self.clock.clone(),
            holds: Arc::clone(&self.holds),
        }
    }

    async fn step(&mut self) -> Result<(), String> {
        if self.stage.takes_oversleeping() {
            self.advance(HOLD_PASSED_MS).await;
        }
        let choices = self.event_rates.choices();
        match choices.choose_weighted(&mut self.rng, |(_, weight)| *weight).unwrap().0 {
            StepKind::GoOn => return self.go_on().await,
            StepKind::Begin => self.begin(),
            StepKind::Advance => {
                self.advance_at_random().await;
                return self.audit().await;
            }
            StepKind::Audit => return self.audit().await,
            StepKind::MakeLate => self.make_late().await,
            StepKind::Evict => self.evict().await,
            StepKind::Kill => self.kill(),
            StepKind::Save => self.save().await,
            StepKind::ChangeEpoch => self.change_epoch().await,
            StepKind::MoveNode => self.move_node(),
        }
        Ok(())
    }

    /// A read that no other step interrupts.
    async fn audit(&mut self) -> Result<(), String> {
        let node = self.rng.random_range(0..NODES);
        let (what, mut program) = read(self.nodes[node].clone(), Span { first: 1, last: Seq::MAX }, 0);
        self.last_id += 1;
        self.trace.push(format!("audit: {what} on node {node}"));
        for _ in 0..AUDIT {
            if let Some(ended) = self.stage.step(self.last_id, CallOutcome::Made, &mut program).await {
                self.ended += 1;
                return ended;
            }
        }
        Ok(())
    }

    /// One actor goes on up to its next gate: mostly an actor that is not slow.
    async fn go_on(&mut self) -> Result<(), String> {
        let slow = self.rng.random_bool(0.1);
        let indexes: Vec<usize> =
            (0..self.actors.len()).filter(|index| self.actors[*index].is_slow == slow).collect();
        let Some(index) = indexes.choose(&mut self.rng).copied() else { return Ok(()) };
        let failing = if self.event_rates.redis_fails { 12 } else { 1 };
        let outcome = match self.rng.random_range(0..100) {
            of_100 if of_100 >= failing => CallOutcome::Made,
            of_100 => [CallOutcome::Late, CallOutcome::Failed, CallOutcome::Unanswered][of_100 % 3],
        };
        let actor = &mut self.actors[index];
        self.trace.push(format!("{outcome:?}: {} on node {}", actor.what, actor.node));
        let Some(ended) = self.stage.step(actor.id, outcome, &mut actor.program).await else { return Ok(()) };
        self.ended += 1;
        let actor = self.actors.swap_remove(index);
        self.trace.push(format!("{} ended", actor.what));
        ended
    }

    fn begin(&mut self) {
        if self.actors.len() == ACTORS {
            return;
        }
        let node = self.rng.random_range(0..NODES);
        let Some((what, program)) = self.program(node) else { return };
        self.last_id += 1;
        let is_slow = self.rng.random_bool(if self.event_rates.nodes_pause { 0.3 } else { 0.1 });
        let what = format!("#{} {what}", self.last_id);
        self.trace.push(format!("begin {what} on node {node}, slow: {is_slow}"));
        self.actors.push(Actor { id: self.last_id, node, is_slow, what, program });
    }

    /// The program that begins on a node; `None`: there is nothing to replay.
    fn program(&mut self, node: usize) -> Option<(String, Program)> {
        let (view, end) = (self.nodes[node].clone(), self.truth.lock().end());
        let at_least = if self.rng.random_bool(0.1) { end } else { 0 };
        let recent = self.rng.random_range((end - 110).max(1)..=end + 2);
        let death = match self.rng.random_range(0..10) {
            0 | 1 => DeathPoint::AtCommit,
            2 | 3 => DeathPoint::AfterRelease,
            _ => DeathPoint::Never,
        };
        Some(match self.rng.random_range(0..100) {
            50..62 if self.event_rates.lists => (
                format!("head above {}", recent - 1),
                Box::pin(actors::read_head(view, recent - 1, at_least)),
            ),
            0..25 => read(view, Span { first: 1, last: Seq::MAX }, at_least),
            25..58 => {
                read(view, Span { first: recent, last: recent + self.rng.random_range(0..9) }, at_least)
            }
            58..75 => {
                let count = [1, 1, 1, 2, 3, 60][self.rng.random_range(0..6)];
                (format!("write {count}, {death:?}"), Box::pin(actors::write(view, count, death)))
            }
            75..93 if end > 0 && self.event_rates.changes => {
                let (seq, oversleeps) = (recent.min(end), self.rng.random_bool(0.25));
                let what = format!("change {seq}, {death:?}, oversleeps: {oversleeps}");
                (what, Box::pin(actors::change(view, seq, death, oversleeps)))
            }
            _ => {
                let event = *self.truth.lock().open_events().last()?;
                (format!("replay {event}"), Box::pin(actors::replay(view, event)))
            }
        })
    }

    async fn advance_at_random(&mut self) {
        let ms = [1, 200, 2_900, 3_100, 6_000, 9_999, 10_001, 15_001][self.rng.random_range(0..8)];
        self.advance(ms).await;
    }

    async fn advance(&mut self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
        self.server.redis.call(self.server.clock_call(self.clock.now().get())).await;
        self.trace.push(format!("{ms} ms pass: {}", self.clock.now().get()));
    }

    async fn make_late(&mut self) {
        if self.stage.late() == 0 {
            return;
        }
        let index = self.rng.random_range(0..self.stage.late());
        self.trace.push("a late command is made".to_owned());
        self.stage.make_late(index).await;
    }

    fn keys(&self, epoch: u64) -> Vec<String> {
        let epoch = if self.epochs.ignored { 1 } else { epoch };
        let name = |part| format!("{{{}:log:{}}}:{epoch}:{part}", self.server.redis.runner.tag(), self.log);
        ["h", "l"].map(name).to_vec()
    }

    async fn evict(&mut self) {
        let mut values = self.dump(self.epochs.present()).await;
        // Mostly the list alone.
        let which = self.rng.random_range(0..6);
        if which > 0 {
            values[1] = Bytes::new();
        }
        if which < 2 {
            values[0] = Bytes::new();
            self.holds.lose();
        }
        self.trace.push(format!("evicted: hash {}, list {}", which < 2, which > 0));
        self.put(self.epochs.present(), values).await;
    }

    /// A node's actors end, wherever they are, and it starts again.
    fn kill(&mut self) {
        let node = self.rng.random_range(0..NODES);
        self.actors.retain(|actor| actor.node != node);
        self.nodes[node] = self.node(node);
        self.trace.push(format!("node {node} dies"));
    }

    async fn save(&mut self) {
        let epoch = self.epochs.present();
        self.saved = Some((epoch, self.dump(epoch).await));
        self.trace.push("saved".to_owned());
    }

    /// A replica that is behind takes over, or nodes cannot reach each other's server: a new epoch begins.
    async fn change_epoch(&mut self) {
        if !self.epochs.are_one() {
            return;
        }
        let is_cut = self.epochs.ignored || self.rng.random_bool(0.7);
        if is_cut
            && let Some((epoch, values)) =
                self.saved.take().filter(|(epoch, _)| *epoch == self.epochs.present())
        {
            self.put(epoch, values).await;
        }
        self.holds.lose();
        self.epochs.raise(is_cut);
        self.truth.lock().raise(self.epochs.present());
        self.trace.push(format!("epoch {}, cut: {is_cut}", self.epochs.present()));
    }

    fn move_node(&mut self) {
        let node = self.rng.random_range(0..NODES);
        self.holds.lose();
        self.epochs.move_node(node);
        self.trace.push(format!("node {node} follows epoch {}", self.epochs.present()));
    }

    async fn dump(&self, epoch: u64) -> Vec<Bytes> {
        let none: [Bytes; 0] = [];
        match self.server.redis.call(ScriptCall::new(&self.server.save, self.keys(epoch), none)).await {
            Reply::List(values) => values.into_iter().map(value).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn put(&self, epoch: u64, values: Vec<Bytes>) {
        self.server.redis.call(ScriptCall::new(&self.server.restore, self.keys(epoch), values)).await;
    }
}

fn value(reply: Reply) -> Bytes {
    match reply {
        Reply::Text(bytes) => bytes,
        Reply::Nothing => Bytes::new(),
        other => panic!("{other:?}"),
    }
}
