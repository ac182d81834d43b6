//! Identifies this program: its version, its commit and the commit's date.

use kith_service::metric::BUILD_INFO;

/// The release version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit's first digits; `unknown` if it was built without git.
pub const COMMIT: &str = env!("KITH_COMMIT");
/// The commit's day; `unknown` if it was built without git.
pub const DATE: &str = env!("KITH_COMMIT_DATE");
/// The version for people: `0.1.0 (24701eb2aa, 2026-11-27)`.
pub const LONG: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("KITH_COMMIT"), ", ", env!("KITH_COMMIT_DATE"), ")");
/// The version for operators who compare nodes, in semantic form: `0.1.0+24701eb2aa`.
pub const FULL: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("KITH_COMMIT"));

/// Exports it as metric labels.
pub(crate) fn export() {
    metrics::gauge!(BUILD_INFO.name, "version" => VERSION, "commit" => COMMIT, "date" => DATE).set(1.0);
}
