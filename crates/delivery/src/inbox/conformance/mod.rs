//! The suite for everything that keeps inboxes.
//!
//! A keeper is given by a function that opens an empty keeper with the default limits:
//!
//! ```ignore
//! async fn open() -> Subject { … }
//! kith_delivery::conformance!(open);
//! ```

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, reason = "a suite of tests")]

pub mod abandoned;
pub mod catch_up;
pub mod entries;
pub mod losses;
mod sample;
pub mod wakes;

pub use sample::{Faults, Part, Subject};

/// Makes a test for every case, over the keeper that `$open` returns. Further attributes are put on each.
#[macro_export]
macro_rules! conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::cases!($open, [$($attribute),*], entries:
            ranges_are_contiguous
            repeated_fan_out_is_idempotent
            no_inbox_no_entry
            inboxes_among_many_users_are_entered
            positions_survive_trim
            first_entry_is_read
            entries_are_read_in_pages
            notes_are_entries
            concurrent_fan_outs_leave_one_order);
        $crate::cases!($open, [$($attribute),*], losses:
            stream_evicted
            hash_evicted
            both_expired
            position_of_another_generation_is_reset);
        $crate::cases!($open, [$($attribute),*], catch_up:
            first_marks_enter_nothing
            missing_mark_is_a_new_conversation
            receivers_that_begin_together_miss_nothing
            catch_up_before_fan_out_repeats_nothing
            fan_out_before_catch_up_repeats_nothing
            catch_up_hides_nothing_from_other_device
            marks_never_fall
            marks_of_another_generation_are_reset);
        $crate::cases!($open, [$($attribute),*], wakes:
            one_publish_per_node
            wake_carries_small_entries
            signal_leaves_no_entry
            users_with_receivers_are_found_among_many
            closed_node_is_not_woken
            node_is_opened_once
            note_wakes_every_node
            registered_nodes_are_named
            wake_is_for_its_node);
        $crate::cases!($open, [$($attribute),*], abandoned:
            last_confirmed_position_is_found
            node_that_runs_is_not_abandoned
            abandoned_users_are_found_in_turns);
    };
}

/// Makes one file's tests; used by the list of cases.
#[macro_export]
macro_rules! cases {
    ($open:ident, $attributes:tt, $file:ident: $($case:ident)+) => {
        mod $file { $($crate::case!($open, $attributes, $file, $case);)+ }
    };
}

/// Makes one test; used by [`cases!`](crate::cases).
#[macro_export]
macro_rules! case {
    ($open:ident, [$($attribute:meta),*], $file:ident, $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])*
        async fn $case() {
            $crate::conformance::$file::$case(super::$open().await).await;
        }
    };
}
