//! Long histories of relations: those from a correct store pass, and each that was broken in one place is
//! caught by the check that is there for it, and by no other.

use kith_lab::{
    checker::check,
    history::{Event, Fault},
};
use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use crate::{
    builder,
    plan::{BOUNDS, FAULTS},
    relation_breaks::ALL,
    relation_history,
};

/// How many histories must pass.
const SOUND: u64 = 40;
/// How many histories are broken, for each way to break a history.
const BROKEN: u64 = 8;

/// The history with about 2000 calls and with faults, which follows from the seed.
fn history(seed: u64) -> Vec<Event> {
    let turns = FAULTS.iter().flat_map(|fault| [(fault.start, true), (fault.end, false)]);
    let faults = turns.map(|(at, on)| Event::Fault(Fault { at, what: "redis away".to_owned(), on }));
    let mut events: Vec<Event> = faults.chain(relation_history::history(seed)).collect();
    events.shuffle(&mut StdRng::seed_from_u64(seed));
    events
}

#[test]
fn a_store_that_is_right_passes_every_check() {
    for seed in 0..SOUND {
        let report = check(&history(seed), &BOUNDS);
        assert!(report.holds(), "seed {seed}: {report}");
        assert!(report.events > 1_800 && report.open > 10 && report.refused > 10, "seed {seed}: {report}");
    }
}

/// Each break is caught in several histories. Not every history has a place for each.
#[test]
fn each_break_of_relations_is_caught() {
    let mut left = ALL.map(|_| BROKEN);
    for seed in 0..10 * BROKEN {
        if left.iter().all(|left| *left == 0) {
            return;
        }
        let sound = history(seed);
        for ((number, name, break_one), left) in ALL.iter().zip(&mut left).filter(|(_, left)| **left > 0) {
            let mut events = sound.clone();
            let Some(place) = break_one(&mut events, &mut StdRng::seed_from_u64(seed)) else { continue };
            let report = check(&events, &BOUNDS);
            assert_eq!(builder::failed_checks(&report), [*number], "{name}, seed {seed}, {place}: {report}");
            *left -= 1;
        }
    }
    assert_eq!(left, ALL.map(|_| 0), "histories without a place for a break");
}
