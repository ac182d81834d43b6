//! The test suite for every presence implementation.
//!
//! An implementation has a function that opens presence in which no user is online, within [`LIMITS`], and
//! returns with it what must exist as long:
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

/// Makes a test from every case, over the presence that `$open` yields. Adds further attributes to each test.
#[macro_export]
macro_rules! conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::cases!($open, [$($attribute),*], gateways:
            first_claim_of_gateway_denies_others
            id_of_dead_gateway_may_be_claimed
            known_incarnation_is_held_after_data_loss
            only_dead_gateway_is_forgotten
            gateways_are_limited
            the_epoch_stays_and_ages);
        $crate::cases!($open, [$($attribute),*], groups:
            online_user_counts_once_and_per_gateway
            late_update_changes_nothing
            repeated_update_changes_nothing
            leaving_user_is_gone_until_next_update
            online_users_are_paged_by_id
            concurrent_updates_are_counted_exactly);
        $crate::cases!($open, [$($attribute),*], sessions:
            session_sets_user_online_and_its_end_offline
            two_devices_of_a_gateway_publish_one_event
            versions_increase_and_events_arrive_in_order
            a_session_that_is_not_renewed_ends
            renewal_of_absent_session_is_reported
            sessions_of_a_user_are_limited
            dead_gateway_publishes_one_event_per_user
            groups_need_fan_out_until_it_is_recorded
            users_to_check_are_due
            concurrent_changes_are_one_step_each);
    };
}

/// Makes one file's tests. The list of cases uses it.
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
