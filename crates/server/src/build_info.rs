//! Which program this is: its version, its commit and the date of that.

use kith_service::metric::BUILD_INFO;

/// The version of the release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The first digits of the commit; `unknown` if it was built without git.
pub const COMMIT: &str = env!("KITH_COMMIT");
/// The day of the commit; `unknown` if it was built without git.
pub const DATE: &str = env!("KITH_COMMIT_DATE");
/// For people: `0.1.0 (24701eb2aa, 2026-11-27)`.
pub const LONG: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("KITH_COMMIT"), ", ", env!("KITH_COMMIT_DATE"), ")");
/// For operators who compare nodes, as semantic versions have it: `0.1.0+24701eb2aa`.
pub const FULL: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("KITH_COMMIT"));

/// Exports it as the labels of a metric.
pub(crate) fn export() {
    metrics::gauge!(BUILD_INFO.name, "version" => VERSION, "commit" => COMMIT, "date" => DATE).set(1.0);
}
