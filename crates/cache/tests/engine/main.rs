//! Nodes with the real cache over fakes for what they share, in virtual time: whatever is lost, late or cut,
//! no cached read is wrong for longer than its bound. Every run follows from its seed.
//!
//! `KITH_SEEDS=10000` sets how many runs are made, `KITH_SEED=7` selects a run.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// Prints the events of a run under inspection (`KITH_TRACE=1`).
macro_rules! trace {
    ($($what:tt)*) => {
        if crate::traced() {
            eprintln!($($what)*);
        }
    };
}
pub(crate) use trace;

mod aged;
mod chance;
mod faults;
mod feed;
mod frames;
#[path = "../cache/gate.rs"]
mod gate;
mod holds;
mod loads;
mod losses;
#[path = "../remote/number_codec.rs"]
mod number_codec;
mod orders;
mod peer;
mod phase;
mod run;
mod store;
mod store_loader;
mod strict;
mod truth;
#[path = "../remote/virtual_clock.rs"]
mod virtual_clock;
mod wire;
mod world;

/// Runs that a test of all packages makes.
const SEEDS: u64 = 300;

/// Failing runs after which no more are tried.
const FAILED_MAX: usize = if cfg!(feature = "mutants") { 1 } else { 5 };

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn traced() -> bool {
    static TRACED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *TRACED.get_or_init(|| number("KITH_TRACE").is_some())
}

fn number(wanted: &str) -> Option<u64> {
    std::env::vars().find(|(name, _)| name == wanted).map(|(_, value)| value.parse().unwrap())
}

/// The seed that is asked for, or as many as are; at first this many.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    match number("KITH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KITH_SEEDS").unwrap_or(usual),
    }
}

#[test]
fn cached_read_is_never_wrong_past_its_bound() {
    let seeds = seeds(SEEDS);
    let (tried, mut healthy, mut failed) = (seeds.end - seeds.start, (0, 0), Vec::new());
    for seed in seeds {
        match runtime().block_on(run::run(seed)) {
            Ok(result) => healthy = (healthy.0 + result.healthy.0, healthy.1 + result.healthy.1),
            Err(why) => failed.push(format!("KITH_SEED={seed}: {why}")),
        }
        if failed.len() >= FAILED_MAX {
            break;
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(
        healthy.1 * 100 <= healthy.0,
        "without faults {} of {} reads are later than 50 ms",
        healthy.1,
        healthy.0
    );
    println!("{tried} seeds of {} operations: 0 violations", run::STEPS);
}

#[test]
fn a_seed_is_replayed_exactly() {
    for seed in 0..10 {
        let result = || runtime().block_on(run::run(seed));
        assert_eq!(result(), result(), "seed {seed}");
    }
}
