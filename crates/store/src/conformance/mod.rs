//! The suite that every backend passes, and every decorator of one.
//!
//! A backend writes a function that opens empty, migrated stores, and hands back with them what must live
//! as long as they are used (a temporary folder, a database that is dropped at the end; `()` if nothing):
//!
//! ```ignore
//! async fn open() -> (Stores, TempDir) { … }
//! kith_store::conformance!(open);
//! // or, each test with further attributes:
//! kith_store::conformance!(open, #[ignore = "needs a server"]);
//! ```
//!
//! Who keeps only a part of it calls [`records_conformance!`](crate::records_conformance) or
//! [`relations_conformance!`](crate::relations_conformance) in the same way.
//!
//! The lists of cases stand in the macros of this folder and nowhere else, so that no backend can forget
//! one. Each case is a test of its own, in a module named after its file; it asks for fresh stores.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, reason = "a suite of tests")]

pub mod application;
pub mod application_at_once;
pub mod application_lists;
mod application_sample;
pub mod block;
pub mod block_at_once;
pub mod block_lists;
pub mod block_requests;
pub mod conversation;
pub mod coordination;
pub mod dialog;
pub mod dialog_reduced;
mod dialog_sample;
pub mod edges;
pub mod erasure;
pub mod fan_out_note;
pub mod follow;
pub mod follow_at_once;
pub mod follow_counts;
pub mod follow_import;
pub mod follow_lists;
pub mod follow_requests;
pub mod group;
pub mod group_at_once;
pub mod group_requests;
pub mod group_search;
pub mod member;
pub mod member_at_once;
pub mod member_bans;
pub mod member_lists;
pub mod member_ranges;
pub mod member_requests;
mod member_sample;
pub mod message;
pub mod message_at_once;
pub mod message_changes;
pub mod message_erase;
pub mod message_heads;
pub mod message_pages;
mod message_sample;
pub mod message_trim;
pub mod node;
pub mod notice;
pub mod notice_reader;
mod notice_sample;
pub mod read_marks;
pub mod relation_log;
mod relation_sample;
mod sample;
pub mod secret;
pub mod sequence;
pub mod user;
pub mod user_at_once;
pub mod user_ids;
pub mod user_names;
pub mod user_requests;
pub mod user_search;

/// Makes a test of every case, over the stores that `$open` yields. Further attributes (`ignore = "…"`)
/// are put on each test.
#[macro_export]
macro_rules! conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::records_conformance!($open $(, #[$attribute])*);
        $crate::relations_conformance!($open $(, #[$attribute])*);
    };
}

/// The part of [`conformance!`](crate::conformance) about users, groups, dialogs, messages, notices, secrets, sequences and
/// nodes.
#[macro_export]
macro_rules! records_conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::conversation_conformance!($open, [$($attribute),*]);
        $crate::coordination_conformance!($open, [$($attribute),*]);
        $crate::dialog_conformance!($open, [$($attribute),*]);
        $crate::dialog_reduced_conformance!($open, [$($attribute),*]);
        $crate::erasure_conformance!($open, [$($attribute),*]);
        $crate::group_conformance!($open, [$($attribute),*]);
        $crate::group_at_once_conformance!($open, [$($attribute),*]);
        $crate::group_requests_conformance!($open, [$($attribute),*]);
        $crate::group_search_conformance!($open, [$($attribute),*]);
        $crate::message_conformance!($open, [$($attribute),*]);
        $crate::message_at_once_conformance!($open, [$($attribute),*]);
        $crate::message_changes_conformance!($open, [$($attribute),*]);
        $crate::message_erase_conformance!($open, [$($attribute),*]);
        $crate::message_heads_conformance!($open, [$($attribute),*]);
        $crate::message_pages_conformance!($open, [$($attribute),*]);
        $crate::message_trim_conformance!($open, [$($attribute),*]);
        $crate::node_conformance!($open, [$($attribute),*]);
        $crate::notice_conformance!($open, [$($attribute),*]);
        $crate::notice_reader_conformance!($open, [$($attribute),*]);
        $crate::read_marks_conformance!($open, [$($attribute),*]);
        $crate::secret_conformance!($open, [$($attribute),*]);
        $crate::sequence_conformance!($open, [$($attribute),*]);
        $crate::user_conformance!($open, [$($attribute),*]);
        $crate::user_at_once_conformance!($open, [$($attribute),*]);
        $crate::user_ids_conformance!($open, [$($attribute),*]);
        $crate::user_names_conformance!($open, [$($attribute),*]);
        $crate::user_requests_conformance!($open, [$($attribute),*]);
        $crate::user_search_conformance!($open, [$($attribute),*]);
    };
}

/// The part of [`conformance!`](crate::conformance) about applications, follows, blocks, members, logs and their upkeep.
#[macro_export]
macro_rules! relations_conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::application_conformance!($open, [$($attribute),*]);
        $crate::application_at_once_conformance!($open, [$($attribute),*]);
        $crate::application_lists_conformance!($open, [$($attribute),*]);
        $crate::block_conformance!($open, [$($attribute),*]);
        $crate::block_at_once_conformance!($open, [$($attribute),*]);
        $crate::block_lists_conformance!($open, [$($attribute),*]);
        $crate::block_requests_conformance!($open, [$($attribute),*]);
        $crate::edges_conformance!($open, [$($attribute),*]);
        $crate::follow_conformance!($open, [$($attribute),*]);
        $crate::follow_at_once_conformance!($open, [$($attribute),*]);
        $crate::follow_counts_conformance!($open, [$($attribute),*]);
        $crate::follow_import_conformance!($open, [$($attribute),*]);
        $crate::follow_lists_conformance!($open, [$($attribute),*]);
        $crate::follow_requests_conformance!($open, [$($attribute),*]);
        $crate::member_conformance!($open, [$($attribute),*]);
        $crate::member_at_once_conformance!($open, [$($attribute),*]);
        $crate::member_bans_conformance!($open, [$($attribute),*]);
        $crate::member_lists_conformance!($open, [$($attribute),*]);
        $crate::member_ranges_conformance!($open, [$($attribute),*]);
        $crate::member_requests_conformance!($open, [$($attribute),*]);
        $crate::relation_log_conformance!($open, [$($attribute),*]);
    };
}

/// Makes the tests of one file; used by the lists of cases.
#[macro_export]
macro_rules! conformance_cases {
    ($file:ident, $open:ident, $attributes:tt: $($case:ident)+) => {
        mod $file { $($crate::conformance_case!($file, $open, $attributes, $case);)+ }
    };
}

/// Makes one test; used by [`conformance_cases!`](crate::conformance_cases).
#[macro_export]
macro_rules! conformance_case {
    ($file:ident, $open:ident, [$($attribute:meta),*], $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])*
        async fn $case() {
            let (stores, _guard) = super::$open().await;
            $crate::conformance::$file::$case(stores).await;
        }
    };
}
