use std::sync::Arc;

use kith_cache::{Change, Consistency, Version, WriteGuard};
use proptest::prelude::*;
use tokio::task::JoinHandle;

use crate::{
    gate::Gate,
    stage::{SECOND, Stage, value},
};

/// Keys of a history.
const SLOTS: usize = 3;
const KEYS: u64 = 3;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Read(u64),
    ReadMany,
    Strong(u64),
    /// A read whose load is held until `Open`.
    Hold(u64),
    Open(usize),
    Begin(u64),
    /// Commits in the store, without a call to the cache yet.
    Commit(usize),
    /// Gives the verdict: 0 put, 1 invalidate with version, 2 without, 3 unknown, 4 dropped.
    Verdict(usize, u8),
    /// A change made by another node, received with or without its version.
    Elsewhere(u64, bool),
    /// An old message that comes late.
    Late(u64),
    Flush,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    prop_oneof![
        4 => key().prop_map(Step::Read),
        1 => Just(Step::ReadMany),
        1 => key().prop_map(Step::Strong),
        3 => key().prop_map(Step::Hold),
        3 => (0..4_usize).prop_map(Step::Open),
        2 => key().prop_map(Step::Begin),
        2 => (0..4_usize).prop_map(Step::Commit),
        2 => (0..4_usize, 0..5_u8).prop_map(|(write, verdict)| Step::Verdict(write, verdict)),
        1 => (key(), any::<bool>()).prop_map(|(key, versioned)| Step::Elsewhere(key, versioned)),
        1 => key().prop_map(Step::Late),
        1 => Just(Step::Flush),
        1 => (1..40_u64).prop_map(Step::Wait),
    ]
}

struct Write {
    key: u64,
    guard: WriteGuard<u64, String>,
    committed: Option<u64>,
}

/// The invariant: a read never gives less than was acknowledged when it began.
struct World {
    stage: Stage,
    acknowledged: [u64; SLOTS],
    held: Vec<(u64, Gate, JoinHandle<()>)>,
    writes: Vec<Write>,
}

impl World {
    fn new() -> Self {
        let stage = Stage::new();
        (0..KEYS).for_each(|key| stage.store.put(key, 1));
        Self { stage, acknowledged: [1; SLOTS], held: Vec::new(), writes: Vec::new() }
    }

    fn floor(&self, key: u64) -> u64 {
        self.acknowledged[usize::try_from(key).unwrap()]
    }

    fn acknowledge(&mut self, key: u64, version: u64) {
        let floor = &mut self.acknowledged[usize::try_from(key).unwrap()];
        *floor = version.max(*floor);
    }

    fn commit(&self, key: u64) -> u64 {
        let version = self.stage.store.version(key) + 1;
        self.stage.store.put(key, version);
        version
    }

    async fn run_step(&mut self, step: Step) {
        match step {
            Step::Read(key) => self.read(key, &Consistency::Cached).await,
            Step::Strong(key) => self.read(key, &Consistency::Strong).await,
            Step::ReadMany => self.read_many().await,
            Step::Hold(key) => self.hold(key).await,
            Step::Open(index) if index < self.held.len() => {
                let (_, gate, read) = self.held.swap_remove(index);
                gate.open();
                read.await.unwrap();
            }
            Step::Begin(key) => {
                let guard = self.stage.cache.begin_write(&[key]).await;
                self.writes.push(Write { key, guard, committed: None });
            }
            Step::Commit(index) if index < self.writes.len() && self.writes[index].committed.is_none() => {
                self.writes[index].committed = Some(self.commit(self.writes[index].key));
            }
            Step::Verdict(index, verdict) if index < self.writes.len() => {
                let write = self.writes.swap_remove(index);
                self.conclude(write, verdict).await;
            }
            Step::Elsewhere(key, versioned) => {
                let version = self.commit(key);
                self.stage.invalidate(key, if versioned { version } else { 0 }).await;
                self.acknowledge(key, version);
            }
            Step::Late(key) => self.stage.invalidate(key, 1).await,
            Step::Flush => self.stage.node.flush(),
            Step::Wait(seconds) => self.stage.clock.advance(u32::try_from(seconds).unwrap() * SECOND),
            Step::Open(_) | Step::Commit(_) | Step::Verdict(..) => {}
        }
    }

    async fn read(&self, key: u64, consistency: &Consistency) {
        // A held load that it may join is another's: it has to come to an end by itself.
        if *consistency == Consistency::Cached && self.held.iter().any(|(held, ..)| *held == key) {
            let cached = self.stage.cached(key);
            assert!(
                cached.is_none_or(|cached| cached >= self.floor(key)),
                "{cached:?} below {}",
                self.floor(key)
            );
            return;
        }
        let read = self.stage.read_with(key, consistency).await.unwrap();
        assert!(read >= self.floor(key), "{read} below {}", self.floor(key));
        if *consistency == Consistency::Strong {
            assert_eq!(read, self.stage.store.version(key));
        }
    }

    async fn read_many(&self) {
        if self.held.is_empty() {
            let keys: Vec<u64> = (0..KEYS).collect();
            for (key, answer) in
                self.stage.cache.get_many(&keys, &Consistency::Cached).await.into_iter().enumerate()
            {
                assert!(answer.unwrap().unwrap().version.get() >= self.acknowledged[key]);
            }
        }
    }

    async fn hold(&mut self, key: u64) {
        let mut gate = self.stage.store.gate();
        let (cache, floor) = (self.stage.cache.clone(), self.floor(key));
        let strong = Consistency::Strong;
        let read = tokio::spawn(async move {
            let read = cache.get_with(&key, &strong).await.unwrap().unwrap().version.get();
            assert!(read >= floor, "{read} below {floor}");
        });
        gate.entered().await;
        self.held.push((key, gate, read));
    }

    async fn conclude(&mut self, write: Write, verdict: u8) {
        let Write { key, guard, committed } = write;
        let Some(version) = committed else { return guard.aborted().await };
        let known = Version::new(version);
        let change = match verdict {
            0 => Change::Put { value: Arc::new(value(key, version)), version: known },
            1 => Change::Invalidate { version: Some(known) },
            2 => Change::Invalidate { version: None },
            3 => {
                guard.unknown().await.unwrap();
                return self.acknowledge(key, version);
            }
            _ => {
                drop(guard);
                return self.acknowledge(key, version);
            }
        };
        guard.committed(vec![(key, change)]).await.unwrap();
        self.acknowledge(key, version);
    }

    async fn end(mut self) {
        for (_, gate, read) in std::mem::take(&mut self.held) {
            gate.open();
            read.await.unwrap();
        }
        for key in 0..KEYS {
            self.read(key, &Consistency::Cached).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_history_reads_older_than_acknowledged(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in steps {
                world.run_step(step).await;
            }
            world.end().await;
        });
    }
}
