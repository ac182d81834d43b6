//! The suite that every backend passes, and every decorator of one.
//!
//! A backend writes `async fn open() -> Stores` (empty stores, migrated) and
//! `kith_store::conformance!(open);` The list of cases stands in the macros of this folder and nowhere
//! else, so that no backend can forget one. Each case is a test of its own; it asks for fresh stores.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, reason = "a suite of tests")]

/// Makes a test of every case, over the stores that `$open` yields. Further attributes (`ignore = "…"`)
/// are put on each test.
#[macro_export]
macro_rules! conformance {
    ($open:ident $(, #[$attribute:meta])*) => {
        $crate::user_conformance!($open $(, #[$attribute])*);
        $crate::group_conformance!($open $(, #[$attribute])*);
        $crate::node_conformance!($open $(, #[$attribute])*);
    };
}

/// Makes the tests of one domain; used by the lists of cases.
#[macro_export]
macro_rules! conformance_cases {
    ($domain:ident, $open:ident, [$($attribute:meta),*]: $($case:ident)+) => { mod $domain { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])*
        async fn $case() {
            $crate::conformance::$domain::$case(super::$open().await).await;
        }
    )+ } };
}
