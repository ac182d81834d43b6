//! A run: worlds of one conversation each, and random steps in them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex as StdMutex},
    time::Duration,
};

use bytes::Bytes;
use kith_cache::{
    Clock as _,
    fake::ManualClock,
    remote::redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
};
use kith_delivery::{RedisWindows, Span, WindowLimits, Windows};
use kith_store::{ConversationId, GroupId, MessageStore, Seq};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::{
    actors::{self, Holds, NodeView},
    connection::{connected, name},
    log::{ModelLog, OldestFirst},
    mutants::Mutant,
    stage::{Program, Stage, Verdict},
    stepped::{EpochOf, Epochs, Stepped},
    truth::Truth,
};

const NODES: usize = 3;
/// Steps of one world.
const STEPS: usize = 160;
/// Programs at one time.
const ACTORS: usize = 6;
/// What the clock of the server says when the test begins.
const BEGIN_MS: u64 = 1_790_000_000_000;
/// Steps that are shown of a world in which something was wrong.
const SHOWN: usize = 60;

/// What happened in a run in which nothing was wrong.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) steps: usize,
    /// Programs that ended.
    pub(crate) ended: usize,
    /// What Redis answered.
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

/// The real Redis, with scripts whose clock is set.
struct Server {
    runner: Arc<ScriptRunner>,
    name: String,
    edits: Vec<(String, String)>,
    /// Texts of scripts after the edits: each is kept for ever, and so is made once.
    edited: StdMutex<HashMap<&'static str, &'static str>>,
    set: RedisScript,
    save: RedisScript,
    restore: RedisScript,
}

impl Server {
    async fn connect(mutant: Option<&Mutant>) -> Self {
        let runner = Arc::new(connected().await);
        let name = name(&runner).await;
        let clock = format!("{{'{0}:s', '{0}:us'}}", clock_key(&runner));
        let clock = format!("redis.call('MGET', unpack({clock}))");
        let mut edits = vec![("redis.call('TIME')".to_owned(), clock)];
        let of_mutant = mutant.map_or(&[][..], |mutant| mutant.edits).iter();
        edits.extend(of_mutant.map(|(from, to)| ((*from).to_owned(), (*to).to_owned())));
        let edited = StdMutex::default();
        let set = RedisScript::new("return redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])");
        let save = RedisScript::new("return { redis.call('DUMP', KEYS[1]), redis.call('DUMP', KEYS[2]) }");
        let restore = RedisScript::new(
            "for place = 1, 2 do
                redis.call('DEL', KEYS[place])
                if ARGV[place] ~= '' then redis.call('RESTORE', KEYS[place], 0, ARGV[place]) end
            end
            return 0",
        );
        Self { runner, name, edits, edited, set, save, restore }
    }

    fn clock_call(&self, passed_ms: u64) -> ScriptCall<'_> {
        let now = BEGIN_MS + passed_ms;
        let key = clock_key(&self.runner);
        let keys = vec![format!("{key}:s"), format!("{key}:us")];
        ScriptCall::new(&self.set, keys, [(now / 1_000).to_string(), (now % 1_000 * 1_000).to_string()])
    }

    async fn call(&self, call: ScriptCall<'_>) -> Reply {
        self.runner.run(&[call]).await.remove(0).unwrap()
    }

    fn edit(&self, text: &'static str) -> &'static str {
        let mut edited = self.edited.lock().unwrap();
        edited.entry(text).or_insert_with(|| {
            let replaced = self.edits.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
            Box::leak(replaced.into_boxed_str())
        })
    }

    /// Whether each edit has changed a script.
    fn is_edited(&self) -> bool {
        let edited = self.edited.lock().unwrap();
        self.edits.iter().all(|(from, _)| edited.keys().any(|text| text.contains(from)))
    }
}

/// In the keys' slot is not needed: the server of the tests is no cluster.
fn clock_key(runner: &ScriptRunner) -> String {
    format!("{{{}}}:clock", runner.tag())
}

struct Actor {
    id: usize,
    node: usize,
    what: String,
    program: Program,
}

/// One conversation, and what runs over it.
struct World<'a> {
    server: &'a Server,
    rng: StdRng,
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
            epochs: Arc::new(Epochs::new(server.name.clone(), NODES, is_ignored)),
            holds: Arc::default(),
            clock: ManualClock::new(),
            log: ConversationId::Group(GroupId::new(rng.random_range(1..i64::MAX)).unwrap()),
            rng,
            store,
            nodes: Vec::new(),
            actors: Vec::new(),
            last_id: 0,
            saved: None,
            ended: 0,
            trace: Vec::new(),
        };
        // The first minute of a server is a time like any other: nothing was acknowledged at 0.
        world.advance(60_000).await;
        world.nodes = (0..NODES).map(|node| world.node(node)).collect();
        assert!(server.is_edited(), "a text that a mutant replaces is in no script");
        world
    }

    /// A node that has just started.
    fn node(&self, number: usize) -> NodeView {
        let epochs = Arc::new(EpochOf { epochs: Arc::clone(&self.epochs), node: number });
        let (limits, clock) = (WindowLimits::default(), Arc::new(self.clock.clone()));
        let runner = Arc::clone(&self.server.runner);
        let keeper = RedisWindows::over(runner, epochs, Arc::<ManualClock>::clone(&clock), limits);
        let keeper = Arc::new(keeper.with_scripts(|text| self.server.edit(text)));
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
        match self.rng.random_range(0..100) {
            0..72 if !self.actors.is_empty() => return self.go_on().await,
            0..90 if self.actors.len() < ACTORS => self.begin(),
            90..93 => self.advance_at_random().await,
            93..95 if self.stage.late() > 0 => self.make_late().await,
            95 => self.evict().await,
            96 => self.kill(),
            97 => self.save().await,
            98 => self.change_epoch().await,
            99 => self.move_node(),
            _ => {}
        }
        Ok(())
    }

    /// One actor goes on up to its next gate.
    async fn go_on(&mut self) -> Result<(), String> {
        let place = self.rng.random_range(0..self.actors.len());
        let verdict = match self.rng.random_range(0..100) {
            0..4 => Verdict::Failed,
            4..9 => Verdict::Late,
            9..12 => Verdict::Unanswered,
            _ => Verdict::Made,
        };
        let actor = &mut self.actors[place];
        self.trace.push(format!("{:?}: {} on node {}", verdict, actor.what, actor.node));
        let Some(ended) = self.stage.step(actor.id, verdict, &mut actor.program).await else { return Ok(()) };
        self.ended += 1;
        let actor = self.actors.swap_remove(place);
        self.trace.push(format!("{} ended", actor.what));
        ended
    }

    fn begin(&mut self) {
        let (node, end) = (self.rng.random_range(0..NODES), self.truth.lock().end());
        let view = self.nodes[node].clone();
        let at_least = if self.rng.random_bool(0.2) { end } else { 0 };
        let recent = self.rng.random_range((end - 110).max(1)..=end + 2);
        let (what, program): (String, Program) = match self.rng.random_range(0..100) {
            0..50 => {
                let last =
                    if self.rng.random_bool(0.5) { Seq::MAX } else { recent + self.rng.random_range(0..9) };
                let asked = Span { first: recent, last };
                (format!("read {asked:?} at least {at_least}"), Box::pin(actors::read(view, asked, at_least)))
            }
            50..58 => {
                (format!("head above {recent}"), Box::pin(actors::read_head(view, recent - 1, at_least)))
            }
            58..80 => {
                let count = [1, 1, 1, 2, 3, 60][self.rng.random_range(0..6)];
                let is_lost = self.rng.random_bool(0.1);
                (format!("write {count}"), Box::pin(actors::write(view, count, is_lost)))
            }
            80..95 if end > 0 => {
                let seq = recent.min(end);
                (format!("change {seq}"), Box::pin(actors::change(view, seq)))
            }
            _ => {
                let open = self.truth.lock().open_events();
                let Some(event) = open.last() else { return };
                (format!("replay {event}"), Box::pin(actors::replay(view, *event)))
            }
        };
        self.last_id += 1;
        let what = format!("#{} {what}", self.last_id);
        self.trace.push(format!("begin {what} on node {node}"));
        self.actors.push(Actor { id: self.last_id, node, what, program });
    }

    async fn advance_at_random(&mut self) {
        let ms = [1, 200, 2_900, 3_100, 6_000, 9_999, 10_001, 15_001][self.rng.random_range(0..8)];
        self.advance(ms).await;
    }

    async fn advance(&mut self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
        self.server.call(self.server.clock_call(self.clock.now().get())).await;
        self.trace.push(format!("{ms} ms pass: {}", self.clock.now().get()));
    }

    async fn make_late(&mut self) {
        let place = self.rng.random_range(0..self.stage.late());
        self.trace.push("a late command is made".to_owned());
        self.stage.make_late(place).await;
    }

    fn keys(&self, epoch: u64) -> Vec<String> {
        let epoch = if self.epochs.ignored { 1 } else { epoch };
        let name = |part| format!("{{{}:log:{}}}:{epoch}:{part}", self.server.runner.tag(), self.log);
        ["h", "l"].map(name).to_vec()
    }

    async fn evict(&mut self) {
        let mut values = self.dump(self.epochs.present()).await;
        let which = self.rng.random_range(0..4);
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

    /// The actors of a node end, wherever they are, and it starts again.
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
        match self.server.call(ScriptCall::new(&self.server.save, self.keys(epoch), none)).await {
            Reply::List(values) => values.into_iter().map(value).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn put(&self, epoch: u64, values: Vec<Bytes>) {
        self.server.call(ScriptCall::new(&self.server.restore, self.keys(epoch), values)).await;
    }
}

fn value(reply: Reply) -> Bytes {
    match reply {
        Reply::Text(bytes) => bytes,
        Reply::Nothing => Bytes::new(),
        other => panic!("{other:?}"),
    }
}
