//! The test suite for every implementation of presence.
//!
//! An implementation has a function that opens presence in which no user is online, within [`LIMITS`], and returns with
//! it what must exist as long:
//!
//! ```ignore
//! async fn open() -> (Presences, ()) { … }
//! kith_presence::conformance!(open);
//! ```

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, reason = "a suite of tests")]

pub mod gateways;
pub mod groups;
mod sample;
pub mod sessions;

pub use sample::LIMITS;

/// Makes a test of every case, over the presence that `$open` yields. Further attributes are put on each.
#[macro_export]
macro_rules! conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::cases!($open, [$($attribute),*], gateways:
            first_claim_of_gateway_denies_others
            a_dead_gateway_gives_its_id_to_who_comes
            known_incarnation_is_held_after_data_loss
            only_dead_gateway_is_forgotten
            there_are_no_more_gateways_than_may_be
            the_epoch_stays_and_ages);
        $crate::cases!($open, [$($attribute),*], groups:
            who_is_online_counts_once_and_at_each_gateway
            what_comes_late_changes_nothing
            what_is_told_twice_changes_nothing
            who_leaves_is_gone_until_it_is_told_of_again
            online_users_are_paged_by_id
            many_at_once_are_counted_exactly);
        $crate::cases!($open, [$($attribute),*], sessions:
            session_sets_user_online_and_its_end_offline
            two_devices_at_one_gateway_are_told_of_once
            versions_increase_and_events_arrive_in_order
            a_session_that_is_not_renewed_ends
            renewing_what_is_not_there_says_so
            a_user_has_no_more_sessions_than_it_may
            dead_gateway_publishes_one_event_per_user
            groups_are_untold_until_it_is_noted
            who_has_to_be_looked_at_is_due
            of_many_changes_at_once_each_is_one_step);
    };
}

/// Makes the tests of one file; used by the list of cases.
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
            let (presences, _guard) = super::$open().await;
            $crate::conformance::$file::$case(presences).await;
        }
    };
}
