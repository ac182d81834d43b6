//! The suite that every backend passes, and every decorator around a backend.
//!
//! A backend has a function that opens empty, migrated stores, and returns with them what must exist
//! as long as they are used (a temporary folder, a database that is dropped at the end; `()` if nothing):
//!
//! ```ignore
//! async fn open() -> (Stores, TempDir) { … }
//! kith_store::conformance!(open);
//! // or, each test with further attributes:
//! kith_store::conformance!(open, #[ignore = "needs a server"]);
//! ```
//!
//! A backend that keeps some record kinds has `records_conformance!` or `relations_conformance!` instead. A
//! backend that nodes share has `shared_conformance!` as well.
//!
//! A case is a `pub async fn` in a file under [`records`], [`relations`] or [`shared`]. `build.rs` finds it
//! there and adds it to its folder's macro, so that no case is forgotten. Each case is a separate test in a
//! module named after its file, over fresh stores.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, reason = "a suite of tests")]

mod application_sample;
mod dialog_sample;
mod member_sample;
pub mod message_sample;
mod notice_sample;
mod record_sample;
pub mod records;
pub mod relation_sample;
pub mod relations;
pub mod sample;
pub mod shared;

include!(concat!(env!("OUT_DIR"), "/conformance.rs"));

/// Makes a test from every case for records and relations, over the stores that `$open` returns. Further
/// attributes (`ignore = "…"`) are put on each test.
#[macro_export]
macro_rules! conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::records_conformance!($open $(, #[$attribute])*);
        $crate::relations_conformance!($open $(, #[$attribute])*);
    };
}

/// Makes one test; used by the macros that `build.rs` writes.
#[macro_export]
macro_rules! conformance_case {
    ($open:ident, [$($attribute:meta),*], $folder:ident, $file:ident, $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])*
        async fn $case() {
            let (stores, _guard) = super::$open().await;
            $crate::conformance::$folder::$file::$case(stores).await;
        }
    };
}
