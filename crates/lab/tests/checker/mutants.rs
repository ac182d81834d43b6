//! Long histories: sound ones pass, and each that was broken in one place is caught by the check that is there
//! for it, and by no other.

use kith_lab::{checker::check, history::Event};
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    breaks::{self, Break},
    tale,
    world::{BOUNDS, history},
};

/// Of the histories that pass.
const SOUND: u64 = 40;
/// Of those that are broken, for each way to break one.
const BROKEN: u64 = 8;

fn broken(events: &[Event]) -> Vec<&'static str> {
    tale::broken(&check(events, &BOUNDS))
}

fn caught_by(number: &str, breaks: Break) {
    for seed in 0..BROKEN {
        let mut events = history(seed);
        let told = breaks(&mut events, &mut StdRng::seed_from_u64(seed)).expect("a place to break it");
        assert_eq!(broken(&events), [number], "seed {seed}, {told}: {}", check(&events, &BOUNDS));
    }
}

#[test]
fn a_store_that_is_right_passes_every_check() {
    for seed in 0..SOUND {
        let events = history(seed);
        let report = check(&events, &BOUNDS);
        assert!(report.holds(), "seed {seed}: {report}");
        assert!(report.checks.iter().all(|check| check.looked_at > 0), "seed {seed}: {report}");
        assert!(report.events > 5_000 && report.open > 30 && report.refused > 30, "seed {seed}: {report}");
    }
}

#[test]
fn a_pinned_read_older_than_the_one_before_is_caught() {
    caught_by("C1", breaks::pinned_read_goes_back);
}

#[test]
fn a_read_below_its_token_is_caught() {
    caught_by("C1", breaks::read_is_below_its_token);
}

#[test]
fn a_read_that_misses_the_clients_own_write_is_caught() {
    caught_by("C2", breaks::own_write_is_not_seen);
}

#[test]
fn a_cached_read_older_than_its_bound_is_caught() {
    caught_by("C3", breaks::cached_read_is_too_old);
}

#[test]
fn a_strong_read_that_is_old_is_caught() {
    caught_by("C4", breaks::strong_read_is_old);
}

#[test]
fn a_strong_read_that_does_not_find_a_living_record_is_caught() {
    caught_by("C4", breaks::strong_read_finds_nothing);
}

#[test]
fn a_write_without_effect_is_caught() {
    caught_by("C5", breaks::last_write_is_dropped);
}

#[test]
fn records_that_are_confused_at_the_end_are_caught() {
    caught_by("C5", breaks::ends_are_swapped);
}

#[test]
fn a_value_that_nobody_wrote_is_caught() {
    caught_by("C6", breaks::value_is_invented);
}

#[test]
fn a_memory_that_differs_at_the_end_is_caught() {
    caught_by("C7", breaks::memory_differs);
}

#[test]
fn a_name_with_two_owners_is_caught() {
    caught_by("C8", breaks::name_has_two_owners);
}

#[test]
fn a_request_with_two_effects_is_caught() {
    caught_by("C16", breaks::request_has_two_effects);
}

#[test]
fn a_code_that_is_not_allowed_is_caught() {
    caught_by("C17", breaks::code_of_a_bug);
    caught_by("C17", breaks::code_without_a_fault);
}
