//! What a node that died left undone of an application: its effect, or its end when it ran out.
//!
//! The store notes what may be left undone before it begins. Every node, of several the one that has the lease, looks at what
//! is older than a moment, and does it. Twice is as good as once, so that the lease only spares work.

use std::{sync::Arc, time::Duration};

use kith_store::{
    ApplicationChange, ApplicationEffect, ApplicationStore, DueApplication, Stores, Timestamp, Write,
};
use tokio::time::{Instant, sleep};

use super::{Applications, applications::store_error};
use crate::{
    error::Error,
    metric,
    write::{lease::Lease, tasks::Tasks},
};

/// How often it runs, about. Together with the lease, and with the time that is left to the node that made a change,
/// the work of a dead node is done within 11 s.
const PERIOD: Duration = Duration::from_secs(2);
/// Most that is looked at in one go.
const DUE_MAX: usize = 500;
/// Most that is forgotten in one go, of applications and of logs, and how often once nothing is left.
const FORGOTTEN_MAX: usize = 1_000;
const FORGOTTEN_EVERY: Duration = Duration::from_secs(60);
/// How often it is noted where the next search begins: after a change of the lease as much is looked at again.
const NOTED_EVERY: Duration = Duration::from_secs(30);
/// Name of the lease, and of the mark where the next search begins.
const LEASE: &str = "applications";
/// A few times as long as it takes to look.
const LEASE_LASTS: Duration = Duration::from_secs(5);

/// Does what is due.
#[derive(Debug)]
pub struct Janitor {
    rounds: Rounds,
    task: Tasks,
}

impl Janitor {
    /// It does nothing yet. `among`: the id of this node, where there are others.
    pub fn new(stores: &Stores, applications: Applications, among: Option<&str>) -> Self {
        metric::count_from_zero(metric::APPLICATIONS_RESUMED, &[]);
        metric::count_from_zero(metric::APPLICATION_EFFECTS, &["done", "refused", "failed"]);
        let rounds = Rounds {
            applications,
            store: Arc::clone(&stores.applications),
            lease: Lease::new(&stores.coordination, LEASE, among, LEASE_LASTS),
            led: false,
            mark: None,
            noted: None,
            forgot: None,
        };
        Self { rounds, task: Tasks::default() }
    }

    /// Begins, once.
    pub fn start(&self) {
        self.task.spawn_first(self.rounds.clone().run());
    }

    /// Begins with nothing more. What the store is doing is a write like any other, and runs to its end.
    pub async fn stop(&self) {
        self.task.end().await;
    }
}

#[derive(Clone, Debug)]
struct Rounds {
    applications: Applications,
    store: Arc<dyn ApplicationStore>,
    /// Of who looks.
    lease: Lease,
    /// Whether this node looked the last time.
    led: bool,
    /// Where the next search begins.
    mark: Option<Vec<u8>>,
    /// When that was noted.
    noted: Option<Instant>,
    /// When it was last looked for what need not be kept.
    forgot: Option<Instant>,
}

impl Rounds {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "applications of which something is outstanding cannot be looked for");
            }
            let pause = PERIOD.mul_f64(rand::random_range(0.75..1.25));
            sleep(pause).await;
        }
    }

    /// Does what is due, if that is this node's part.
    async fn round(&mut self) -> Result<(), Error> {
        let led = self.led;
        if !self.leads().await {
            return Ok(());
        }
        if !led || self.mark.is_none() {
            self.mark = self.lease.mark().await.map_err(store_error)?;
        }
        let now = Timestamp::now();
        let found =
            self.store.due_applications(self.mark.as_deref(), now, DUE_MAX).await.map_err(store_error)?;
        for due in found.due {
            // Others may fare better.
            drop(self.take_up(due).await.inspect_err(tell));
            if !self.leads().await {
                return Ok(());
            }
        }
        self.note(found.mark).await;
        self.forget(now).await
    }

    async fn forget(&mut self, now: Timestamp) -> Result<(), Error> {
        if self.forgot.is_some_and(|forgot| forgot.elapsed() < FORGOTTEN_EVERY) {
            return Ok(());
        }
        let some = self.store.forget_applications(now, FORGOTTEN_MAX).await.map_err(store_error)?;
        let events = self.applications.forget_log(now, FORGOTTEN_MAX).await?;
        // As much as may be in one go: there may be more, and the next round goes on.
        if some.max(events) < u64::try_from(FORGOTTEN_MAX).unwrap_or(u64::MAX) {
            self.forgot = Some(Instant::now());
        }
        Ok(())
    }

    async fn take_up(&self, due: DueApplication) -> Result<(), Error> {
        let now = Timestamp::now();
        let Some(found) = self.store.resume_application(due, now).await.map_err(store_error)? else {
            return Ok(());
        };
        let this = self.applications.clone();
        let work = async move {
            if found.effect == ApplicationEffect::Outstanding {
                metrics::counter!(metric::APPLICATIONS_RESUMED.name).increment(1);
                return this.finish(found).await.map(drop);
            }
            let change = ApplicationChange::Expire(found.id);
            this.change(found.asks.receiver(), change, Write::at(now)).await.map(drop)
        };
        self.applications.mutations.run(Instant::now() + LEASE_LASTS, Box::pin(work)).await
    }

    /// Notes where the next search begins, for the next holder of the lease.
    async fn note(&mut self, mark: Option<Vec<u8>>) {
        let Some(mark) = mark else { return };
        self.mark = Some(mark.clone());
        if self.noted.is_some_and(|noted| noted.elapsed() < NOTED_EVERY) {
            return;
        }
        if matches!(self.lease.set_mark(&mark).await, Ok(true)) {
            self.noted = Some(Instant::now());
        }
    }

    async fn leads(&mut self) -> bool {
        self.led = self.lease.is_held().await.unwrap_or(false);
        self.led
    }
}

fn tell(error: &Error) {
    tracing::warn!(%error, "an application could not be brought to its end; it is tried again");
}
