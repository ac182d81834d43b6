//! Starts a node from an open store until it serves, and then watches over the store.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use kith_service::write::removal_time::RemovalTime;
use kith_store::{Migration, StoreError, Stores};
use parking_lot::Mutex;
use rand::Rng as _;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "embedded")]
use crate::node::sandbox::{HostState, Sandboxes};
use crate::{
    admin::NodeStatus,
    auth::Callers,
    cluster::{self, CallersDigest, Cluster, DatabaseLease, NodeInfo, NodeKeys, PublishedNode, SharedServer},
    config::{Config, Migrate},
    edge::{Edge, Routes},
    health::{self, HealthCause, Reporter, State},
    node::{
        clock::ClockWatch,
        services::{self, Services},
        store::{self, OpenStore, RelationsUnfit, StoreFailure, StoreInfo, StoreObstacle},
        store_remarks::StoreRemarks,
    },
    start_error::StartError,
};

/// Longest pause between two attempts to start a node whose store is unavailable.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How often to check a file that waits for `kith migrate`.
const MIGRATED_POLL: Duration = Duration::from_millis(500);
/// How often the store is pinged, and the time limit for a ping.
const PING_PERIOD: Duration = Duration::from_millis(500);
const PING_LIMIT: Duration = Duration::from_secs(1);
/// How long a store may not answer before the node reports that it does not serve.
const AWAY: Duration = Duration::from_secs(3);

/// How long a new database's first node may take to begin the change feeds.
const FEEDS_BEGIN: Duration = Duration::from_secs(5);
/// How long a node that starts waits for the others before it serves without them.
const FOLLOWS: Duration = Duration::from_secs(1);
/// How long a start waits until the nodes agree on the schema.
const AGREES: Duration = Duration::from_secs(1);

/// How often expired requests are deleted.
const FORGET_PERIOD: Duration = Duration::from_secs(10 * 60);

/// An open store, closed by the code that ends the node. Empty while the node has released its file.
pub(crate) type StoreSlot = Arc<Mutex<Option<OpenStore>>>;

/// The dependencies for starting a node.
#[derive(Clone, Debug)]
pub(crate) struct Startup {
    pub(crate) config: Arc<Config>,
    pub(crate) stores: Stores,
    pub(crate) info: StoreInfo,
    pub(crate) slot: StoreSlot,
    pub(crate) health: Reporter,
    pub(crate) edge: Edge,
    pub(crate) callers: Arc<Callers>,
    pub(crate) services: Arc<OnceLock<Services>>,
    pub(crate) database_lease: Arc<OnceLock<DatabaseLease>>,
    /// The address for gRPC.
    pub(crate) listens: SocketAddr,
    /// Receives the reason if waiting for the store cannot succeed.
    pub(crate) fatal: watch::Sender<Option<StartError>>,
    pub(crate) end: CancellationToken,
    /// Used by a node for tests.
    #[cfg(feature = "embedded")]
    pub(crate) sandboxes: Option<Sandboxes>,
}

/// The reason why a node does not serve yet.
enum StartupError {
    Store(StoreError),
    Pending(Migration),
    /// Others have it, or a node that was just killed.
    Claimed(ClaimedResource),
    /// The node cannot serve with its configuration.
    Refused(StartError),
}

/// The resource that a node claims for itself or its cluster.
#[derive(Clone, Copy)]
enum ClaimedResource {
    Database,
    /// The prefix in Redis.
    Prefix,
}

impl From<StoreError> for StartupError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Startup {
    /// Migrates, builds the services, serves them, and watches over the store from then on. If a migration
    /// must be applied by a person, the node releases its file, and serves after the migration has been
    /// applied.
    pub(crate) async fn serve_once(self) -> Result<(), StartError> {
        let end = self.end.clone();
        match self.serve().await {
            Ok(()) => {
                tokio::spawn(async move { end.run_until_cancelled(self.run_background_tasks()).await });
            }
            Err(StartupError::Pending(migration)) => {
                self.report_pending(&migration);
                self.release().await;
                tokio::spawn(async move { end.run_until_cancelled(Box::pin(self.when_migrated())).await });
            }
            Err(StartupError::Store(error)) => return Err(self.info.failure(&error).await.line()),
            Err(StartupError::Claimed(what)) => return Err(self.claim_error(what)),
            Err(StartupError::Refused(line)) => return Err(line),
        }
        Ok(())
    }

    /// Like [`Self::serve_once`], but with retries: the store may come later. Returns after the first
    /// attempt, or after `limit`.
    pub(crate) async fn serve_with_retries(self, limit: Duration) {
        let end = self.end.clone();
        let (tried, first) = oneshot::channel();
        let serving = Box::pin(self.retry_until_it_serves(tried));
        tokio::spawn(async move { end.run_until_cancelled(serving).await });
        // A timeout, and the node's end, do not matter here.
        drop(timeout(limit, first).await);
    }

    async fn retry_until_it_serves(self, tried: oneshot::Sender<()>) {
        let (mut tried, since, mut claimed) = (Some(tried), SystemTime::now(), None);
        let message = format!("opens {}", self.info.data().place);
        self.health.set_with_cause(State::Starting, health::cause(State::Starting, Some(message), since));
        // A server without transactions would accept the migrations and fail the writes.
        if let Some(line) = self.info.unfit().await {
            self.fatal.send_replace(Some(line));
            return;
        }
        for tries in 1_u64.. {
            match self.serve().await {
                Ok(()) => break,
                Err(StartupError::Pending(migration)) => self.report_pending(&migration),
                Err(StartupError::Store(error)) => match self.info.failure(&error).await {
                    StoreFailure::Temporary(line) => self.report_away(&line, tries, since),
                    StoreFailure::Permanent(line) => {
                        self.fatal.send_replace(Some(line));
                        return;
                    }
                },
                Err(StartupError::Claimed(what)) => {
                    // Until then it may be a killed node's.
                    let first = *claimed.get_or_insert_with(|| {
                        tracing::warn!("waits: {}", self.claim_text(what));
                        Instant::now()
                    });
                    if first.elapsed() > cluster::PATIENCE {
                        self.fatal.send_replace(Some(self.claim_error(what)));
                        return;
                    }
                    self.report_claimed(what, since);
                }
                Err(StartupError::Refused(line)) => {
                    self.fatal.send_replace(Some(line));
                    return;
                }
            }
            drop(tried.take());
            sleep(pause()).await;
        }
        drop(tried);
        self.run_background_tasks().await;
    }

    /// Waits until another process has migrated the file, which this node must not hold during that time.
    async fn when_migrated(mut self) {
        loop {
            sleep(MIGRATED_POLL).await;
            let Ok(None) = store::pending_in_file(&self.config).await else { continue };
            // The migrating process may still have it.
            let Ok(opened) = OpenStore::open(&self.config).await else { continue };
            self.stores = opened.stores();
            self.slot.lock().replace(opened);
            match self.serve().await {
                Ok(()) => break,
                Err(_) => self.release().await,
            }
        }
        self.run_background_tasks().await;
    }

    async fn release(&self) {
        let opened = self.slot.lock().take();
        if let Some(opened) = opened {
            opened.close().await;
        }
    }

    fn report_pending(&self, migration: &Migration) {
        let line =
            format!("migration {:04} {} pending: run `kith migrate`", migration.number, migration.name);
        if self.health.state() == State::MigrationPending {
            return;
        }
        tracing::warn!("{line}");
        let cause = health::cause(State::MigrationPending, Some(line), SystemTime::now());
        self.health.set_with_cause(State::MigrationPending, cause);
    }

    /// Logged less and less often, and always returned on request.
    fn report_away(&self, line: &StartError, tries: u64, since: SystemTime) {
        if tries.is_power_of_two() {
            tracing::warn!(tries, "waiting: {line}");
        }
        health::report_store(self.info.store(), false);
        let message = format!("{line} ({tries} tries)");
        self.health.set_with_cause(State::Starting, HealthCause { reason: "store_away", message, since });
    }

    fn report_claimed(&self, what: ClaimedResource, since: SystemTime) {
        let reason = match what {
            ClaimedResource::Database => "store_claimed",
            ClaimedResource::Prefix => "redis_prefix_taken",
        };
        self.health
            .set_with_cause(State::Starting, HealthCause { reason, message: self.claim_text(what), since });
    }

    fn claim_text(&self, what: ClaimedResource) -> String {
        match what {
            ClaimedResource::Database => format!("another node has a claim on {}", self.info.data().place),
            ClaimedResource::Prefix => {
                format!("nodes of another database use the prefix {} in Redis", self.config.redis.prefix)
            }
        }
    }

    fn claim_error(&self, what: ClaimedResource) -> StartError {
        let place = &self.info.data().place;
        let prefix = &self.config.redis.prefix;
        if let ClaimedResource::Prefix = what {
            return StartError::new(format!(
                "the prefix {prefix} in Redis is used by nodes of another database than {place}; give these another \
                 redis.prefix, or stop those"
            ));
        }
        StartError::new(match self.config.redis.url {
            None => format!(
                "{place} is used by another node, which this one would not hear of; stop that one, or give both \
                 the same redis.url"
            ),
            Some(_) => format!(
                "{place} is used by nodes that do not share Redis under the prefix {prefix}; stop them, give all \
                 the same redis.url and redis.prefix, or choose another store.mongodb.database"
            ),
        })
    }

    async fn serve(&self) -> Result<(), StartupError> {
        self.migrate().await?;
        // This comes before any time is stored.
        self.clock(None).compare().await;
        let found = NodeKeys::of(&self.stores, &self.config).await;
        let digest = |keys| CallersDigest::new(keys, Arc::clone(&self.callers));
        let callers = found.as_ref().ok().map(digest);
        // A node that shares nothing serves without them.
        let keys = if self.config.redis.url.is_some() { Some(found?) } else { None };
        self.acquire_database_lease(keys.as_ref()).await?;
        let node_status = NodeStatus::new(self.health.clone(), self.edge.load(), &self.stores);
        let node_status = node_status.with_callers(callers);
        let services = Box::pin(self.build(node_status, keys)).await?;
        if let Some(cluster) = &services.cluster {
            let calls = cluster.calls().clone();
            self.edge.trust_nodes(move |proof, method| calls.verifies(proof, method));
            cluster.begin_feeds(FEEDS_BEGIN).await;
            cluster.start(self.health.clone());
            // The node also serves without Redis.
            if cluster.follows_within(FOLLOWS).await {
                cluster.agrees_within(AGREES).await;
            }
        }
        self.edge.serve_sessions(services.node.clone());
        self.edge.open(self.with_sandboxes(services.routes.clone()));
        services.start();
        self.services.get_or_init(|| services);
        self.health.set(State::Serving);
        tracing::info!("kith serves");
        Ok(())
    }

    /// `keys` is set for nodes that share Redis.
    async fn build(&self, node_status: NodeStatus, keys: Option<NodeKeys>) -> Result<Services, StartupError> {
        let (stores, config) = (&self.stores, &*self.config);
        let Some(keys) = keys else { return Ok(services::services(stores, config, node_status).await?) };
        let server = SharedServer::connect(config, &keys).await.map_err(StartupError::Refused)?;
        if let Some(refused) = server.refusal().await.filter(|refused| refused.lasts) {
            return Err(StartupError::Refused(StartError::new(refused.line)));
        }
        // While Redis is unavailable, other owners are unknown; the node checks again as long as it runs.
        if let Ok(true) = server.prefix_taken().await {
            return Err(StartupError::Claimed(ClaimedResource::Prefix));
        }
        let known = stores.migrations.status().await?;
        let schema = known.last().map_or(0, |newest| newest.number);
        let node_info = NodeInfo::new(config, self.listens, schema);
        let mappings = |windows: &_| services::feed_mappings(stores, windows);
        let callers = CallersDigest::new(&keys, Arc::clone(&self.callers));
        let cluster =
            Cluster::new(server, &keys, stores, config, PublishedNode { node_info, callers }, mappings);
        Ok(services::services_of_cluster(stores, config, node_status, cluster).await?)
    }

    async fn acquire_database_lease(&self, keys: Option<&NodeKeys>) -> Result<(), StartupError> {
        if self.database_lease.get().is_none()
            && let Some(lease) = DatabaseLease::of(&self.config, &self.stores, keys)
        {
            self.database_lease.get_or_init(|| lease);
        }
        match self.database_lease.get() {
            Some(lease) if !lease.acquire().await? => Err(StartupError::Claimed(ClaimedResource::Database)),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the node if its database was claimed by another: it was suspended for longer than its claim
    /// lasts.
    async fn keep_database_lease(&self) {
        if let Some(lease) = self.database_lease.get() {
            lease.keep().await;
            tracing::error!("the claim on the database is lost");
            self.fatal.send_replace(Some(self.claim_error(ClaimedResource::Database)));
        }
    }

    async fn migrate(&self) -> Result<(), StartupError> {
        if self.config.store.migrate == Migrate::Manual {
            let all = self.stores.migrations.status().await?;
            let pending = all.into_iter().find(|migration| migration.applied.is_none());
            return pending.map_or(Ok(()), |migration| Err(StartupError::Pending(migration)));
        }
        for migration in self.stores.migrations.migrate().await? {
            tracing::info!(number = migration.number, name = migration.name, "migrated");
        }
        match self.stores.migrations.restore_indexes().await {
            Err(error @ StoreError::Internal { .. }) => {
                Err(StartupError::Refused(self.info.index_failure(&error).await))
            }
            restored => Ok(restored?),
        }
    }

    #[cfg(feature = "embedded")]
    fn with_sandboxes(&self, routes: Routes) -> Routes {
        match &self.sandboxes {
            Some(sandboxes) => sandboxes
                .route_sandboxes(routes, HostState { health: self.health.clone(), load: self.edge.load() }),
            None => routes,
        }
    }

    #[cfg(not(feature = "embedded"))]
    #[expect(clippy::unused_self, reason = "a build without a store in memory has no sandboxes")]
    const fn with_sandboxes(&self, routes: Routes) -> Routes {
        routes
    }

    /// Runs the background tasks while the node runs.
    async fn run_background_tasks(&self) {
        tokio::join!(
            self.watch(),
            self.watch_relations(),
            self.watch_clock(),
            self.forget_requests(),
            self.keep_database_lease()
        );
    }

    /// Reports in the log and in `/readyz` when relations are not available, and when they are again. All
    /// other calls are served.
    async fn watch_relations(&self) {
        let mut reported: Option<RelationsUnfit> = None;
        loop {
            let unfit = self.info.relations_unfit(PING_LIMIT).await;
            if self.info.has_cql() {
                health::report_store("cql", unfit.is_none());
            }
            if unfit != reported {
                self.report_relations(reported, unfit);
                reported = unfit;
            }
            if unfit.is_some_and(|unfit| unfit.configured) {
                return;
            }
            sleep(PING_PERIOD).await;
        }
    }

    fn report_relations(&self, before: Option<RelationsUnfit>, now: Option<RelationsUnfit>) {
        if let Some(before) = before {
            self.health.end_remark(before.reason);
        }
        let Some(RelationsUnfit { reason, message, configured }) = now else {
            tracing::info!("the store of relations answers again");
            return;
        };
        if configured {
            tracing::warn!("{message}");
        } else {
            tracing::error!("{message}");
        }
        self.health.remark(HealthCause { reason, message: message.to_owned(), since: SystemTime::now() });
    }

    async fn watch_clock(&self) {
        self.clock(self.removal_time()).run().await;
    }

    fn clock<'a>(&'a self, removals: Option<&'a RemovalTime>) -> ClockWatch<'a> {
        ClockWatch { store: &*self.stores.node, removals, health: &self.health }
    }

    fn removal_time(&self) -> Option<&RemovalTime> {
        self.services.get().map(|services| &services.removal_time)
    }

    /// A store forgets a bounded number at a time; it is asked again at once while there is more.
    async fn forget_requests(&self) {
        let Some(time) = self.removal_time() else { return };
        loop {
            while let Ok(now) = time.now().await
                && matches!(self.stores.node.forget_requests(now).await, Ok(1..))
            {}
            sleep(FORGET_PERIOD).await;
        }
    }

    async fn watch(&self) {
        let mut answered = (Instant::now(), SystemTime::now());
        let mut remarks = StoreRemarks::new(self.health.clone(), self.info.clone());
        loop {
            sleep(PING_PERIOD).await;
            match self.stores.node.ping(PING_LIMIT).await {
                Ok(()) => {
                    answered = (Instant::now(), SystemTime::now());
                    health::report_store(self.info.store(), true);
                    self.change_state(State::Serving, answered.1);
                }
                Err(_) => {
                    let is_certain = self.info.obstacle().is_some_and(|obstacle| obstacle.certain);
                    if is_certain || answered.0.elapsed() > AWAY {
                        health::report_store(self.info.store(), false);
                        self.change_state(State::StoreAway, answered.1);
                    }
                }
            }
            remarks.look();
        }
    }

    fn change_state(&self, state: State, since: SystemTime) {
        if !matches!(
            (self.health.state(), state),
            (State::Serving, State::StoreAway) | (State::StoreAway, State::Serving)
        ) {
            return;
        }
        let place = self.info.pinged_place();
        let cause = match self.info.obstacle() {
            Some(StoreObstacle { reason, message, .. }) => HealthCause { reason, message, since },
            None => health::cause(state, Some(format!("the store does not answer: {place}")), since),
        };
        match state {
            State::StoreAway => tracing::error!("{}", cause.message),
            _ => tracing::info!("the store answers again"),
        }
        self.health.set_with_cause(state, cause);
    }
}

/// The pause is random, so that a cluster's nodes do not all connect at the same time.
fn pause() -> Duration {
    RETRY_MAX.mul_f64(rand::rng().random_range(0.25..1.0))
}
