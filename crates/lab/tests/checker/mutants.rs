//! Long histories: sound ones pass, and each that was broken in one place is caught by the check that is
//! there for it, and by no other.

use kith_lab::checker::check;
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    breaks::{self, Break},
    builder, message_breaks, relation_breaks,
    world::{BOUNDS, history},
};

/// How many histories must pass.
const SOUND: u64 = 40;
/// How many histories are broken, for each way to break a history.
const BROKEN: u64 = 8;

/// Each break is caught in several histories. Not every history has a place for each.
fn all_are_caught(breaks: &[(&str, &str, Break)]) {
    let mut left = vec![BROKEN; breaks.len()];
    for seed in 0..10 * BROKEN {
        let sound = history(seed);
        for ((number, name, break_one), left) in breaks.iter().zip(&mut left).filter(|(_, left)| **left > 0) {
            let mut events = sound.clone();
            let Some(place) = break_one(&mut events, &mut StdRng::seed_from_u64(seed)) else { continue };
            let report = check(&events, &BOUNDS);
            assert_eq!(builder::failed_checks(&report), [*number], "{name}, seed {seed}, {place}: {report}");
            *left -= 1;
        }
        if left.iter().all(|left| *left == 0) {
            return;
        }
    }
    let names = breaks.iter().map(|(_, name, _)| name);
    panic!("histories without a place for a break: {:?}", names.zip(left).collect::<Vec<_>>());
}

#[test]
fn a_store_that_is_right_passes_every_check() {
    for seed in 0..SOUND {
        let events = history(seed);
        let report = check(&events, &BOUNDS);
        assert!(report.holds(), "seed {seed}: {report}");
        assert!(report.checks.iter().all(|check| check.judged > 0), "seed {seed}: {report}");
        assert!(report.events > 5_000 && report.open > 30 && report.refused > 30, "seed {seed}: {report}");
    }
}

#[test]
fn each_break_of_users_is_caught() {
    all_are_caught(&breaks::ALL);
}

#[test]
fn each_break_of_relations_is_caught() {
    all_are_caught(&relation_breaks::ALL);
}

#[test]
fn each_break_of_messages_is_caught() {
    all_are_caught(&message_breaks::ALL);
}
