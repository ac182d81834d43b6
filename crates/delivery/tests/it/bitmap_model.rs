//! Random bitmap histories: marks, unmarks and fills whose steps are interleaved, lost bitmaps, and time that
//! passes. When all have ended, a complete bitmap has exactly what the store has. The scripts run on a real
//! Redis; the test notices rules that are taken away from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kith_delivery::{FillTicket, ReaderBitmaps, ReaderSection, RedisBitmaps, SectionBits};
use kith_store::{AudienceId, ReaderOrdinal, Slot};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::{
    model::{EditedScripts, TestRedis},
    stage::Epochs,
};

const SLOTS: [Slot; 2] = [3, 70];
const READERS: ReaderOrdinal = 4;
const STEPS: usize = 40;
const HISTORIES: u64 = 120;
/// A time after which incomplete bitmaps are gone, and fills that have begun are late.
const LONG: i64 = 40_000;

/// A rule that is taken away.
struct Mutant {
    name: &'static str,
    edits: &'static [(&'static str, &'static str)],
    /// Whether a mark is in the bitmap before it is in the store.
    answers_before_store: bool,
}

const PRODUCT: Mutant = Mutant { name: "none", edits: &[], answers_before_store: false };

static MUTANTS: [Mutant; 6] = [
    Mutant {
        name: "fill without the generation",
        edits: &[("~= tonumber(ARGV[1])", "== 'never'")],
        ..PRODUCT
    },
    Mutant {
        name: "fill after 20 s",
        edits: &[("> tonumber(ARGV[2]) + tonumber(ARGV[3])", "> 1e18")],
        ..PRODUCT
    },
    Mutant {
        name: "fill without the bits that are there",
        edits: &[("'OR', KEYS[1], KEYS[1], KEYS[3]", "'OR', KEYS[1], KEYS[3], KEYS[3]")],
        ..PRODUCT
    },
    Mutant {
        name: "incomplete bitmaps keep no marks",
        edits: &[("redis.call('PEXPIRE', key, ARGV[2])", "redis.call('DEL', key)")],
        ..PRODUCT
    },
    Mutant {
        name: "invalidation refuses no fill",
        edits: &[("redis.call('INCR', KEYS[1])", "redis.call('SET', KEYS[1], '0')")],
        ..PRODUCT
    },
    Mutant { name: "answer before the store", answers_before_store: true, ..PRODUCT },
];

/// An operation under way, by how far it is.
enum Running {
    Mark { reader: ReaderOrdinal, slot: Slot },
    Unmark { reader: ReaderOrdinal, slot: Slot },
    Begun { ticket: FillTicket },
    Scanned { ticket: FillTicket, bits: Vec<(Slot, SectionBits)> },
}

struct Run<'a> {
    bitmaps: RedisBitmaps,
    redis: &'a TestRedis,
    epoch: u64,
    mutant: &'static Mutant,
    store: BTreeMap<Slot, BTreeSet<ReaderOrdinal>>,
    running: Vec<Running>,
}

fn section() -> ReaderSection {
    ReaderSection { audience: AudienceId::new(1).unwrap(), number: 0 }
}

impl Run<'_> {
    /// Plays one history. Fails with what a count says that the store does not.
    async fn play(&mut self, rng: &mut StdRng) -> Result<(), String> {
        for _ in 0..STEPS {
            match rng.random_range(0..10) {
                0..4 => self.begin_mark(rng),
                4 => self.begin_fill().await,
                5 => self.lose(rng).await,
                6 => self.pass_time().await,
                _ => self.go_on(rng).await,
            }
        }
        while !self.running.is_empty() {
            self.go_on(rng).await;
        }
        let counts = self.bitmaps.count(&[section()], &SLOTS).await.unwrap().remove(0);
        for (slot, count) in SLOTS.iter().zip(counts) {
            let expected = self.store.get(slot).map_or(0, BTreeSet::len);
            let expected = u64::try_from(expected).unwrap();
            if count.is_some_and(|count| count != expected) {
                return Err(format!("slot {slot}: {count:?} of {expected}"));
            }
        }
        Ok(())
    }

    /// One pair's operations follow each other, as its record's versions do.
    fn begin_mark(&mut self, rng: &mut StdRng) {
        let (reader, slot) = (rng.random_range(0..READERS), *SLOTS.choose(rng).unwrap());
        let is_of_pair = |running: &Running| match running {
            Running::Mark { reader: other, slot: of } | Running::Unmark { reader: other, slot: of } => {
                (*other, *of) == (reader, slot)
            }
            Running::Begun { .. } | Running::Scanned { .. } => false,
        };
        if self.running.iter().any(is_of_pair) {
            return;
        }
        let of_slot = self.store.entry(slot).or_default();
        if rng.random_bool(0.7) {
            if !self.mutant.answers_before_store {
                of_slot.insert(reader);
            }
            self.running.push(Running::Mark { reader, slot });
        } else {
            of_slot.remove(&reader);
            self.running.push(Running::Unmark { reader, slot });
        }
    }

    async fn begin_fill(&mut self) {
        let ticket = self.bitmaps.begin_fill(section()).await.unwrap();
        self.running.push(Running::Begun { ticket });
    }

    /// Lets one go a step further.
    async fn go_on(&mut self, rng: &mut StdRng) {
        if self.running.is_empty() {
            return;
        }
        let at = rng.random_range(0..self.running.len());
        match self.running.swap_remove(at) {
            Running::Mark { reader, slot } => {
                self.bitmaps.mark(reader, section(), &[slot]).await.unwrap();
                if self.mutant.answers_before_store {
                    // The store has it a while later.
                    self.pass_time().await;
                    if rng.random_bool(0.5) {
                        self.fill_now().await;
                    }
                    self.store.entry(slot).or_default().insert(reader);
                }
            }
            Running::Unmark { slot, .. } => self.bitmaps.invalidate(section(), &[slot]).await.unwrap(),
            Running::Begun { ticket } => {
                let bits = self.scan();
                self.running.push(Running::Scanned { ticket, bits });
            }
            Running::Scanned { ticket, bits } => {
                self.bitmaps.fill(section(), &ticket, bits, Duration::from_secs(600)).await.unwrap();
            }
        }
    }

    async fn fill_now(&self) {
        let ticket = self.bitmaps.begin_fill(section()).await.unwrap();
        self.bitmaps.fill(section(), &ticket, self.scan(), Duration::from_secs(600)).await.unwrap();
    }

    fn scan(&self) -> Vec<(Slot, SectionBits)> {
        let bits = |slot: &Slot| {
            let mut bits = SectionBits::default();
            self.store.get(slot).into_iter().flatten().for_each(|reader| bits.set(*reader));
            (*slot, bits)
        };
        SLOTS.iter().map(bits).collect()
    }

    /// Redis loses a bitmap.
    async fn lose(&self, rng: &mut StdRng) {
        let slot = SLOTS.choose(rng).unwrap();
        self.run("redis.call('DEL', KEYS[1]) return 0", *slot).await;
    }

    /// Lets more time pass than incomplete bitmaps are kept for.
    async fn pass_time(&mut self) {
        for slot in SLOTS {
            let text =
                "if redis.call('GETBIT', KEYS[1], 0) == 0 then redis.call('DEL', KEYS[1]) end return 0";
            self.run(text, slot).await;
        }
        for running in &mut self.running {
            if let Running::Begun { ticket } | Running::Scanned { ticket, .. } = running {
                ticket.began_ms -= LONG;
            }
        }
    }

    async fn run(&self, text: &'static str, slot: Slot) {
        let key = format!("{{{}:notice:1:0}}:{}:of:{slot}", self.redis.runner.tag(), self.epoch);
        self.redis.eval(text, vec![key], []).await;
    }
}

/// Plays histories until one fails, at most so many. Returns what failed.
async fn histories(redis: &TestRedis, mutant: &'static Mutant) -> Option<String> {
    let scripts = EditedScripts::new(mutant.edits.iter().copied());
    for seed in 0..HISTORIES {
        let epoch = rand::random_range(1..u64::MAX >> 12);
        let bitmaps = RedisBitmaps::over(Arc::clone(&redis.runner), Epochs::of(redis, epoch));
        let bitmaps = bitmaps.with_scripts(|text| scripts.edit(text));
        assert!(scripts.is_edited(), "{}: the scripts are others", mutant.name);
        let mut run = Run { bitmaps, redis, epoch, mutant, store: BTreeMap::new(), running: Vec::new() };
        if let Err(wrong) = run.play(&mut StdRng::seed_from_u64(seed)).await {
            return Some(format!("seed {seed}: {wrong}"));
        }
    }
    None
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn bitmaps_equal_store_after_all_calls_end() {
    let redis = TestRedis::connect().await;
    assert_eq!(histories(&redis, &PRODUCT).await, None);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn every_rule_that_is_taken_away_is_noticed() {
    let redis = TestRedis::connect().await;
    for mutant in &MUTANTS {
        let found = histories(&redis, mutant).await;
        assert!(found.is_some(), "{} is not noticed", mutant.name);
    }
}
