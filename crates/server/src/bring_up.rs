//! From an open store to a node that answers, and whether it still does.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use kith_store::{StoreError, Stores, Timestamp};
use rand::Rng as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::Vitals,
    config::Config,
    edge::Edge,
    health::{Reporter, State},
    wiring::{self, Services},
};

/// Longest pause between two tries to bring up a node whose store is away.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How often the store is asked whether it answers, and for how long.
const PING_PERIOD: Duration = Duration::from_millis(500);
const PING_LIMIT: Duration = Duration::from_secs(1);
/// How long a store may not answer before the node says that it does not either.
const AWAY: Duration = Duration::from_secs(3);

/// How often requests that are remembered long enough are forgotten.
const FORGET_PERIOD: Duration = Duration::from_secs(10 * 60);

/// What it takes to bring a node up.
#[derive(Clone, Debug)]
pub(crate) struct BringUp {
    pub(crate) config: Arc<Config>,
    pub(crate) stores: Stores,
    pub(crate) health: Reporter,
    pub(crate) edge: Edge,
    pub(crate) services: Arc<OnceLock<Services>>,
    pub(crate) end: CancellationToken,
}

impl BringUp {
    /// Migrates, builds the services, serves them, and watches over the store from then on.
    pub(crate) async fn now(self) -> Result<(), StoreError> {
        self.serve().await?;
        let end = self.end.clone();
        tokio::spawn(async move { end.run_until_cancelled(self.keep()).await });
        Ok(())
    }

    /// The same, as often as it takes: the store may come later.
    pub(crate) fn patiently(self) {
        let end = self.end.clone();
        tokio::spawn(async move {
            end.run_until_cancelled(async {
                let mut told = false;
                while let Err(error) = self.serve().await {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "the store is not there yet; trying until it is");
                    }
                    sleep(pause()).await;
                }
                self.keep().await;
            })
            .await
        });
    }

    async fn serve(&self) -> Result<(), StoreError> {
        for migration in self.stores.migrations.migrate().await? {
            tracing::info!(number = migration.number, name = migration.name, "migrated");
        }
        let vitals = Vitals::new(self.health.clone(), self.edge.load(), &self.stores);
        let services = wiring::services(&self.stores, &self.config, vitals).await?;
        self.edge.open(services.routes.clone());
        self.services.get_or_init(|| services);
        self.health.set(State::Serving);
        tracing::info!("kith serves");
        Ok(())
    }

    /// What goes on beside the calls for as long as the node runs.
    async fn keep(&self) {
        tokio::join!(self.watch(), self.forget());
    }

    /// A store forgets a bounded number at a time; it is asked again at once while there is more.
    async fn forget(&self) {
        loop {
            while matches!(self.stores.node.forget_requests(Timestamp::now()).await, Ok(1..)) {}
            sleep(FORGET_PERIOD).await;
        }
    }

    async fn watch(&self) {
        let mut answered = Instant::now();
        loop {
            sleep(PING_PERIOD).await;
            match self.stores.node.ping(PING_LIMIT).await {
                Ok(()) => {
                    answered = Instant::now();
                    self.turn(State::Serving);
                }
                Err(_) if answered.elapsed() > AWAY => self.turn(State::StoreAway),
                Err(_) => {}
            }
        }
    }

    fn turn(&self, state: State) {
        if !matches!(
            (self.health.state(), state),
            (State::Serving, State::StoreAway) | (State::StoreAway, State::Serving)
        ) {
            return;
        }
        match state {
            State::StoreAway => tracing::error!("the store does not answer"),
            _ => tracing::info!("the store answers again"),
        }
        self.health.set(state);
    }
}

/// Random, so that the nodes of a cluster do not all knock at one time.
fn pause() -> Duration {
    RETRY_MAX.mul_f64(rand::rng().random_range(0.25..1.0))
}
