//! Test builds for the laboratory: the rules in `KITH_MUTANT` are removed (feature `mutants`), and the node dies at a
//! point of `KITH_FAILPOINT`, for example `seated=die@5`: every fifth time (feature `failpoints`). Other builds have
//! none of this.

use kith_store::StoreError;
use scylla::statement::batch::BatchType;

use super::session::{Bound, Client};

/// Whether this rule was removed: `one_batch`, a follow and its entries in both lists are written in one batch;
/// `changed_if_same`, a record of settings is changed only if it is the one that was read; `group_if_same`, the same
/// for members of a group; `docket_if_same`, the same for applications to a receiver; `version_above`, a version is
/// above the previous one.
#[cfg(not(feature = "mutants"))]
pub(in crate::cql) const fn lacks(_: &str) -> bool {
    false
}

#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "only in test builds that take one rule away")]
pub(in crate::cql) fn lacks(rule: &str) -> bool {
    static REMOVED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let removed = REMOVED.get_or_init(|| std::env::var("KITH_MUTANT").unwrap_or_default());
    removed.split(',').any(|removed| removed == rule)
}

/// How far the clock of this node is ahead, in microseconds, if versions need not be above previous ones.
pub(in crate::cql) fn ahead() -> i64 {
    if lacks("version_above") { i64::from(std::process::id() % 7) * 300_000 } else { 0 }
}

/// Dies here, if configured.
#[cfg(not(feature = "failpoints"))]
pub(in crate::cql) const fn reach(_: &str) {}

#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "only in test builds that die on purpose")]
pub(in crate::cql) fn reach(place: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };
    static ASKED: OnceLock<String> = OnceLock::new();
    static TIMES: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.get_or_init(|| std::env::var("KITH_FAILPOINT").unwrap_or_default());
    let every = asked.strip_prefix(place).and_then(|what| what.strip_prefix("=die@")?.parse::<u64>().ok());
    let Some(every) = every.filter(|every| *every > 0) else { return };
    if (TIMES.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every) {
        std::process::abort();
    }
}

impl Client {
    /// Writes one part after the other; the node may die in between.
    pub(in crate::cql) async fn write_apart(
        &self,
        parts: Vec<Bound>,
        timestamp: i64,
    ) -> Result<(), StoreError> {
        for part in parts {
            self.batch(BatchType::Logged, vec![part], timestamp).await?;
            reach("apart");
        }
        Ok(())
    }
}
