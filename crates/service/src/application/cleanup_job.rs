//! Completes applications that a dead node left incomplete: their effect, or their end after expiry.
//!
//! The store records work before it begins. A node (of several, the lease's holder) processes records of a
//! certain age. The work is idempotent, so the lease only saves work.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use kith_store::{
    ApplicationChange, ApplicationEffect, ApplicationStore, DueApplication, Stores, Timestamp, Write,
};
use tokio::time::Instant;

use super::{Applications, applications::store_error};
use crate::{
    error::Error,
    metric,
    write::{lease::Lease, rounds::Rounds, tasks::BackgroundJob},
};

/// With the time that is left to the node that made a change, a dead node's work is done within 11 s.
const ROUNDS: Rounds = Rounds {
    lease: "applications",
    lease_lasts: LEASE_LASTS,
    period: Duration::from_secs(2),
    failed: "applications of which something is outstanding cannot be looked for",
};
/// The most applications that a round handles.
const DUE_MAX: usize = 500;
/// The most application or log entries that are deleted at once, and the period when none are left.
const FORGOTTEN_MAX: usize = 1_000;
const FORGOTTEN_EVERY: Duration = Duration::from_secs(60);
/// How often the begin of the next search is stored: after a change of the holder, this much is searched
/// again.
const NOTED_EVERY: Duration = Duration::from_secs(30);
/// A few times as long as a search takes.
const LEASE_LASTS: Duration = Duration::from_secs(5);

/// The job that does the due work. `node_id`: this node's id, if there are others.
#[must_use]
pub fn cleanup_job(stores: &Stores, applications: Applications, node_id: Option<&str>) -> BackgroundJob {
    metric::count_from_zero(metric::APPLICATIONS_RESUMED, &[]);
    metric::count_from_zero(metric::APPLICATION_EFFECTS, &["done", "refused", "failed"]);
    let mut cleanup = ApplicationCleanup {
        applications,
        store: Arc::clone(&stores.applications),
        turn: 0,
        mark: None,
        noted: None,
        forgot: None,
    };
    let round = async move |lease: &mut Lease| cleanup.round(lease).await;
    BackgroundJob::new([ROUNDS.run(&stores.coordination, node_id, round).boxed()])
}

#[derive(Debug)]
struct ApplicationCleanup {
    applications: Applications,
    store: Arc<dyn ApplicationStore>,
    /// The lease's turn in which this node did the last search.
    turn: u64,
    /// Where the next search begins. It is stored with the lease.
    mark: Option<Vec<u8>>,
    /// When that was stored.
    noted: Option<Instant>,
    /// When expired entries were last searched.
    forgot: Option<Instant>,
}

impl ApplicationCleanup {
    /// Does the due work.
    async fn round(&mut self, lease: &mut Lease) -> Result<(), Error> {
        if self.turn != lease.turn() || self.mark.is_none() {
            self.mark = lease.mark().await.map_err(store_error)?;
            self.turn = lease.turn();
        }
        let now = Timestamp::now();
        let found =
            self.store.due_applications(self.mark.as_deref(), now, DUE_MAX).await.map_err(store_error)?;
        for due in found.due {
            // Others may succeed.
            drop(self.complete(due).await.inspect_err(log));
            if !lease.is_held().await.unwrap_or(false) {
                return Ok(());
            }
        }
        self.note(found.mark, lease).await;
        self.forget(now).await
    }

    async fn forget(&mut self, now: Timestamp) -> Result<(), Error> {
        if self.forgot.is_some_and(|forgot| forgot.elapsed() < FORGOTTEN_EVERY) {
            return Ok(());
        }
        let some = self.store.forget_applications(now, FORGOTTEN_MAX).await.map_err(store_error)?;
        let events = self.applications.forget_log(now, FORGOTTEN_MAX).await?;
        // The round is full: there may be more, and the next round continues.
        if some.max(events) < u64::try_from(FORGOTTEN_MAX).unwrap_or(u64::MAX) {
            self.forgot = Some(Instant::now());
        }
        Ok(())
    }

    async fn complete(&self, due: DueApplication) -> Result<(), Error> {
        let now = Timestamp::now();
        let Some(found) = self.store.resume_application(due, now).await.map_err(store_error)? else {
            return Ok(());
        };
        let this = self.applications.clone();
        let work = async move {
            if found.effect == ApplicationEffect::Outstanding {
                metrics::counter!(metric::APPLICATIONS_RESUMED.name).increment(1);
                return this.finish_effect(found).await.map(drop);
            }
            let change = ApplicationChange::Expire(found.id);
            this.change(found.purpose.receiver(), change, Write::at(now)).await.map(drop)
        };
        self.applications.mutations.run(Instant::now() + LEASE_LASTS, Box::pin(work)).await
    }

    /// Stores where the next search begins, for the lease's next holder.
    async fn note(&mut self, mark: Option<Vec<u8>>, lease: &Lease) {
        let Some(mark) = mark else { return };
        self.mark = Some(mark.clone());
        if self.noted.is_some_and(|noted| noted.elapsed() < NOTED_EVERY) {
            return;
        }
        if matches!(lease.set_mark(&mark).await, Ok(true)) {
            self.noted = Some(Instant::now());
        }
    }
}

fn log(error: &Error) {
    tracing::warn!(%error, "an application could not be finished; it is retried");
}
