//! Test builds for the laboratory. With the feature `mutants`, the rules that `KITH_MUTANT` names are
//! removed. With the feature `failpoints`, the node dies at the point that `KITH_FAILPOINT` names:
//! `follow_slot_taken=die@5` means every fifth time at `follow_slot_taken`. Other builds have neither.

/// Whether this rule was removed:
///
/// - `one_batch`: a follow and its entries in both lists are written in one batch;
/// - `changed_if_same`: a settings record is changed only if it is the record that was read;
/// - `group_if_same`: the same for group members;
/// - `docket_if_same`: the same for applications to a receiver;
/// - `version_above`: a version is above the previous version.
#[cfg(not(feature = "mutants"))]
pub(in crate::cql) const fn lacks(_: &str) -> bool {
    false
}

#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "only in test builds that remove a rule")]
pub(in crate::cql) fn lacks(rule: &str) -> bool {
    static REMOVED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let removed = REMOVED.get_or_init(|| std::env::var("KITH_MUTANT").unwrap_or_default());
    removed.split(',').any(|removed| removed == rule)
}

/// How far this node's clock is ahead, in microseconds. 0 unless the rule `version_above` is removed.
pub(in crate::cql) fn ahead() -> i64 {
    if lacks("version_above") { i64::from(std::process::id() % 7) * 300_000 } else { 0 }
}

/// Ends the process at this point if `KITH_FAILPOINT` names it.
#[cfg(not(feature = "failpoints"))]
pub(in crate::cql) const fn fail_point(_: &str) {}

#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "only in test builds that die on purpose")]
pub(in crate::cql) fn fail_point(name: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };
    static SETTING: OnceLock<String> = OnceLock::new();
    static TIMES: AtomicU64 = AtomicU64::new(0);
    let setting = SETTING.get_or_init(|| std::env::var("KITH_FAILPOINT").unwrap_or_default());
    let every = setting.strip_prefix(name).and_then(|rest| rest.strip_prefix("=die@")?.parse::<u64>().ok());
    let Some(every) = every.filter(|every| *every > 0) else { return };
    if (TIMES.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every) {
        std::process::abort();
    }
}
