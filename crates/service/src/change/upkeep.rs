//! Begins and ends the keeping of changes as configured, and removes old ones. The node that holds a lease
//! removes them.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use kith_store::{ChangesStore, StoreError, Timestamp};

use super::ChangesConfig;
use crate::{
    domain_context::DomainContext,
    metric::CHANGES_AGE,
    write::{lease::Lease, removal_time::RemovalTime, rounds::Rounds, tasks::BackgroundJob},
};

const ROUNDS: Rounds = Rounds {
    lease: "changes",
    lease_lasts: Duration::from_secs(60),
    period: Duration::from_secs(20),
    failed: "old changes could not be removed",
};

/// Begins to keep changes, or ends it, if the store does not do as configured. Changes of before are then not
/// kept: all cursors end.
///
/// # Errors
/// If the store cannot answer.
pub async fn keep_as_configured(store: &dyn ChangesStore, config: &ChangesConfig) -> Result<(), StoreError> {
    let kept = store.changes_extent().await?;
    if config.kept.is_zero() {
        if kept.is_some() {
            store.end_changes().await?;
            tracing::info!("changes are no longer kept, because changes.kept is 0: all cursors have ended");
        }
        return Ok(());
    }
    if kept.is_none_or(|kept| kept.dialogs != config.dialogs) {
        store.begin_generation(config.dialogs).await?;
        tracing::info!(dialogs = config.dialogs, "changes are kept from now on: earlier cursors have ended");
    }
    Ok(())
}

/// The job that removes old changes. `node_id`: this node's id in a cluster.
#[must_use]
pub fn upkeep_job(
    context: DomainContext<'_>,
    config: ChangesConfig,
    time: RemovalTime,
    node_id: Option<&str>,
) -> BackgroundJob {
    metrics::gauge!(CHANGES_AGE.name).set(0.0);
    if config.kept.is_zero() {
        return BackgroundJob::new([]);
    }
    let upkeep = ChangesUpkeep { store: Arc::clone(&context.stores.changes), config, time };
    let round = async move |lease: &mut Lease| upkeep.round(lease).await;
    BackgroundJob::new([ROUNDS.run(&context.stores.coordination, node_id, round).boxed()])
}

#[derive(Debug)]
struct ChangesUpkeep {
    store: Arc<dyn ChangesStore>,
    config: ChangesConfig,
    time: RemovalTime,
}

impl ChangesUpkeep {
    async fn round(&self, lease: &mut Lease) -> Result<(), StoreError> {
        self.note_age().await?;
        while lease.is_held().await? {
            let kept = self.config.kept + self.behind().await?;
            if !self.store.trim_changes(kept, self.config.bytes_max).await? {
                break;
            }
        }
        Ok(())
    }

    /// How far the time by which old data are removed is behind the clock: a clock that jumps ahead removes
    /// nothing early.
    async fn behind(&self) -> Result<Duration, StoreError> {
        let behind = Timestamp::now().0.saturating_sub(self.time.now().await?.0);
        Ok(Duration::from_millis(u64::try_from(behind).unwrap_or_default()))
    }

    async fn note_age(&self) -> Result<(), StoreError> {
        let Some(extent) = self.store.changes_extent().await? else { return Ok(()) };
        let mut newest: Option<Timestamp> = None;
        for (feed, kept) in extent.feeds {
            let last = self.store.changes_after(&feed, kept.last - 1).await?;
            newest = newest.max(last.last().map(|entry| entry.written));
        }
        if let Some(newest) = newest {
            let age = Timestamp::now().0.saturating_sub(newest.0);
            let age = Duration::from_millis(u64::try_from(age).unwrap_or_default());
            metrics::gauge!(CHANGES_AGE.name).set(age.as_secs_f64());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::fake::FakeChanges;

    fn config(seconds: u64, dialogs: bool) -> ChangesConfig {
        ChangesConfig { kept: Duration::from_secs(seconds), dialogs, ..ChangesConfig::default() }
    }

    #[tokio::test]
    async fn store_keeps_what_is_configured() {
        let store = FakeChanges::default();
        let generation = async || store.changes_extent().await.unwrap().map(|extent| extent.generation);
        keep_as_configured(&store, &config(0, false)).await.unwrap();
        assert_eq!(generation().await, None);
        keep_as_configured(&store, &config(60, false)).await.unwrap();
        let first = generation().await;
        keep_as_configured(&store, &config(120, false)).await.unwrap();
        assert_eq!((generation().await, first.is_some()), (first, true), "the same generation goes on");
        keep_as_configured(&store, &config(60, true)).await.unwrap();
        let second = generation().await;
        assert!(second.is_some() && second != first, "changes to dialogs were missed");
        keep_as_configured(&store, &config(0, true)).await.unwrap();
        assert_eq!(generation().await, None);
    }
}
