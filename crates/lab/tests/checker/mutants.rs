//! Long histories: sound ones pass, and each that was broken in one place is caught by the check that is there
//! for it, and by no other.

use kith_lab::{checker::check, history::Event};
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    breaks::{self, Break},
    enmities, losses, tale,
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
    let mut left = BROKEN;
    // Not every history has a place for each.
    for seed in 0..10 * BROKEN {
        let mut events = history(seed);
        let Some(told) = breaks(&mut events, &mut StdRng::seed_from_u64(seed)) else { continue };
        left -= 1;
        assert_eq!(broken(&events), [number], "seed {seed}, {told}: {}", check(&events, &BOUNDS));
        if left == 0 {
            return;
        }
    }
    panic!("{left} of {BROKEN} histories have a place to break them");
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
fn pinned_read_that_goes_back_is_caught() {
    caught_by("C1", breaks::pinned_read_goes_back);
}

#[test]
fn a_read_below_its_token_is_caught() {
    caught_by("C1", breaks::read_is_below_its_token);
}

#[test]
fn read_that_misses_own_write_is_caught() {
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
fn strong_read_missing_live_record_is_caught() {
    caught_by("C4", breaks::strong_read_finds_nothing);
}

#[test]
fn a_write_without_effect_is_caught() {
    caught_by("C5", breaks::last_write_is_dropped);
}

#[test]
fn records_swapped_at_the_end_are_caught() {
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
fn a_list_that_lacks_a_fan_is_caught() {
    caught_by("C12", enmities::fan_is_missing);
}

#[test]
fn a_list_that_has_who_follows_no_more_is_caught() {
    caught_by("C12", enmities::follow_stays_in_a_list);
}

#[test]
fn a_list_of_an_older_follow_is_caught() {
    caught_by("C12", enmities::list_is_of_an_older_follow);
}

#[test]
fn follow_lost_without_unfollow_is_caught() {
    caught_by("C12", enmities::follow_is_lost);
}

#[test]
fn count_that_differs_from_its_list_is_caught() {
    caught_by("C13", enmities::count_differs);
}

#[test]
fn a_count_below_zero_is_caught() {
    caught_by("C13", enmities::count_is_below_zero);
}

#[test]
fn a_blocked_user_who_is_let_through_is_caught() {
    caught_by("C14", enmities::blocked_is_allowed);
}

#[test]
fn settings_from_before_a_change_are_caught() {
    caught_by("C14", enmities::old_settings_are_read);
}

#[test]
fn overwritten_settings_change_is_caught() {
    caught_by("C5", enmities::change_is_written_over);
}

#[test]
fn follow_seen_long_after_its_end_is_caught() {
    caught_by("C3", enmities::ended_follow_is_seen);
}

#[test]
fn follow_version_that_does_not_rise_is_caught() {
    caught_by("C4", enmities::version_does_not_rise);
}

#[test]
fn a_request_with_two_effects_is_caught() {
    caught_by("C16", breaks::request_has_two_effects);
}

#[test]
fn messages_swapped_at_the_end_are_caught() {
    caught_by("C9", losses::messages_are_swapped);
}

#[test]
fn a_message_that_was_not_sent_is_caught() {
    caught_by("C9", losses::message_is_invented);
}

#[test]
fn a_page_that_leaves_a_message_out_is_caught() {
    caught_by("C9", losses::message_is_left_out);
}

#[test]
fn answer_with_wrong_message_number_is_caught() {
    caught_by("C9", losses::number_is_wrong);
}

#[test]
fn a_stream_that_leaves_a_message_out_is_caught() {
    caught_by("C10", losses::delivery_is_left_out);
}

#[test]
fn a_mark_that_falls_is_caught() {
    caught_by("C15", losses::mark_falls);
}

#[test]
fn a_badge_that_counts_too_many_is_caught() {
    caught_by("C15", losses::badge_is_wrong);
}

#[test]
fn a_code_that_is_not_allowed_is_caught() {
    caught_by("C17", breaks::code_of_a_bug);
    caught_by("C17", breaks::code_without_a_fault);
}
