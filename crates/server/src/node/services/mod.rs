//! Assembles a node: stores, caches, domains and their services, in one visible order.

mod caches;
mod groups;
mod messages;
mod notices;
mod presence;
mod relations;
mod routes;
mod sequences;
mod users;

use std::{sync::Arc, time::Duration};

use kith_cache::{Node, NodeConfig};
use kith_delivery::Windows;
use kith_service::{
    application::{self, ApplicationCloser, Applications},
    change::{self, KeptChanges},
    conversation, dialog,
    domain_context::DomainContext,
    group::{self, Groups, member::Members},
    message::{FanOutRetries, Messages, Notes, Receiving, documents, reaction},
    notice::{self, LiveTotals, NoticeCleanup},
    presence::{Background, MembershipForwarder},
    relation::{self, Blocks, Follows, RelationUpkeep},
    rpc::{page_token::PageTokens, secret::SecretHasher},
    schema_agreement::SchemaAgreement,
    user::{self, AccountCleanup, Deletions, Users},
    write::{
        caches::CacheFactory,
        feed_mapping::FeedMapping,
        mutations::{Mutations, WriteLimits},
        removal_time::RemovalTime,
        tasks::BackgroundJob,
    },
};
use kith_store::{StoreError, Stores, Timestamp};
use tokio::time::Instant;

use self::routes::UpperDomains;
use crate::{
    admin::{AdminContext, AdminRpc, ConversationLogs, NodeFacts, NodeStatus},
    cluster::{Cluster, NodeKeys, StoreEpochs, observer::Observer},
    config::{Backend, Config},
    edge::{AccessGuard, Routes},
    telemetry::instance,
};

/// Time limit for a store write, after which its outcome counts as unknown.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Minimum time to publish to other nodes, if writes took the whole time.
const PUBLISH_LEAST: Duration = Duration::from_millis(500);

/// The services, and the background tasks that end with the node.
#[derive(Debug)]
pub struct Services {
    /// All domain services.
    pub routes: Routes,
    /// Running writes.
    pub mutations: Mutations,
    /// This node's tiers.
    pub node: Node,
    /// The other nodes, in a cluster.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Observes this node's writes on the other nodes.
    pub(crate) observer: Option<Observer>,
    /// The clean-up for deleted users. Idle until it is started.
    pub cleanup: BackgroundJob,
    /// Ends what is open for users who are no longer let in.
    pub access: BackgroundJob,
    /// The background tasks for presence.
    pub(crate) presence: Background,
    /// Completes applications that a dead node left incomplete.
    pub(crate) applications: BackgroundJob,
    /// Retries failed deliveries.
    pub repeats: FanOutRetries,
    /// The messages on this node.
    pub messages: Messages,
    /// Delivers messages that other nodes left undelivered.
    pub(crate) resumption: BackgroundJob,
    /// The users' streams.
    pub(crate) receiving: Receiving,
    /// The background tasks for receivers.
    pub receivers: BackgroundJob,
    /// Notifies senders of read messages.
    pub receipts: BackgroundJob,
    /// The message upkeep. Idle until it is started.
    pub message_upkeep: BackgroundJob,
    /// The notice upkeep. Idle until it is started.
    pub notice_upkeep: BackgroundJob,
    /// Removes old kept changes. Idle until it is started.
    pub(crate) change_upkeep: BackgroundJob,
    /// The time by which old data are removed.
    pub(crate) removal_time: RemovalTime,
}

impl Services {
    /// Brings the metrics for tiers and following up to date.
    pub(crate) fn export_metrics(&self) {
        self.node.export_metrics();
        self.presence.export_metrics();
        if let Some(cluster) = &self.cluster {
            cluster.export_metrics();
        }
    }

    /// Starts the background tasks.
    pub(crate) fn start(&self) {
        if let Some(observer) = &self.observer {
            observer.start();
        }
        self.cleanup.start();
        self.access.start();
        self.presence.start();
        self.applications.start();
        self.message_upkeep.start();
        self.notice_upkeep.start();
        self.change_upkeep.start();
        self.repeats.start();
        self.resumption.start();
        self.receivers.start();
        self.receipts.start();
    }

    /// Waits for running writes, then publishes queued changes to other nodes; both within the limit. Returns
    /// false if writes were abandoned. Unpublished changes are not lost: the change feed has them.
    pub(crate) async fn end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.access.stop().await;
        self.cleanup.stop().await;
        self.applications.stop().await;
        self.message_upkeep.stop().await;
        self.notice_upkeep.stop().await;
        self.change_upkeep.stop().await;
        self.resumption.stop().await;
        if let Some(observer) = &self.observer {
            observer.stop().await;
        }
        self.messages.stop_own_marks().await;
        self.receiving.end_lost().await;
        let written = self.mutations.drain(limit).await;
        self.receipts.stop().await;
        self.receivers.stop().await;
        // Deliveries that failed for the last writes are retried once.
        self.repeats.stop().await;
        // It is notified of joins and leaves in the last writes.
        self.presence.stop().await;
        if let Some(cluster) = &self.cluster {
            cluster.stop(until.saturating_duration_since(Instant::now()).max(PUBLISH_LEAST)).await;
        }
        written
    }
}

/// Builds all domain services in single-node mode over migrated stores. Raises the epoch: tokens from this
/// node's earlier runs are not valid for its empty memory. Begins or ends the keeping of changes, as
/// configured.
///
/// # Errors
/// If the store cannot answer.
pub async fn services(
    stores: &Stores,
    config: &Config,
    node_status: NodeStatus,
) -> Result<Services, StoreError> {
    let seen = stores.node.epoch().await?.number;
    let epoch = stores.node.raise_epoch(seen, "").await?.number;
    change::keep_as_configured(stores.changes.as_ref(), &config.changes).await?;
    let tokens = NodeKeys::of(stores, config).await?.token_issuer();
    let memory_bytes = config.cache.memory_bytes;
    let node = Node::new(NodeConfig { tokens, memory_bytes, ..NodeConfig::local(epoch) });
    build(stores, config, node_status, NodeMode::Single(node)).await
}

/// Like [`services`], but for a cluster node. Its memory is trusted after it follows.
///
/// # Errors
/// If the store cannot answer.
pub(crate) async fn services_of_cluster(
    stores: &Stores,
    config: &Config,
    node_status: NodeStatus,
    cluster: Cluster,
) -> Result<Services, StoreError> {
    build(stores, config, node_status, NodeMode::Cluster(Arc::new(cluster))).await
}

/// Single node or cluster.
enum NodeMode {
    Single(Node),
    Cluster(Arc<Cluster>),
}

impl NodeMode {
    fn caches(&self) -> CacheFactory {
        match self {
            Self::Single(node) => CacheFactory::alone(node.clone()),
            Self::Cluster(cluster) => cluster.caches().clone(),
        }
    }

    fn facts(&self, stores: &Stores) -> NodeFacts {
        let backend = stores.node.backend();
        match self {
            Self::Single(_) => NodeFacts { node_id: instance::node_id(), started: Timestamp::now(), backend },
            Self::Cluster(cluster) => {
                let node_info = cluster.node_info();
                NodeFacts { node_id: node_info.id.clone(), started: node_info.started, backend }
            }
        }
    }

    fn cluster(self) -> Option<Arc<Cluster>> {
        match self {
            Self::Single(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }
}

/// Each domain's invalidations for changes in the store.
pub(crate) fn feed_mappings(stores: &Stores, windows: &Windows) -> Arc<[Arc<dyn FeedMapping>]> {
    let mut all = user::feed_mappings();
    all.extend(group::feed_mappings(stores));
    all.extend(relation::feed_mappings());
    all.extend(conversation::feed_mappings());
    all.extend(dialog::feed_mappings());
    all.extend(notice::feed_mappings());
    all.extend(documents::feed_mappings(windows.clone()));
    all.extend(reaction::feed_mappings());
    all.into()
}

/// Builds the domains, from those that know no other to those that know all.
async fn build(
    stores: &Stores,
    config: &Config,
    node_status: NodeStatus,
    mode: NodeMode,
) -> Result<Services, StoreError> {
    let (caches, facts, cluster) = (mode.caches(), mode.facts(stores), mode.cluster());
    let (mutations, observer) = writes(stores, config, &caches, cluster.as_ref());
    let hasher = SecretHasher::new(std::thread::available_parallelism().map_or(1, usize::from));
    let context = DomainContext { stores, caches: &caches, mutations: &mutations, hasher: &hasher };
    let (removal_time, node_id) = (removal_time(stores, cluster.as_deref()), &*facts.node_id);
    let cluster_node = cluster.as_deref();
    let parts = Assembly { context, config, cluster: cluster_node, node_id, removal_time: &removal_time };
    let page_tokens = PageTokens::new(shared_key(stores, "page_tokens").await?);
    let gateway_tokens = PageTokens::new(shared_key(stores, "gateway_tokens").await?);

    let (deletions, deleted) = Deletions::new(stores);
    let (moves, moved) = kith_service::presence::membership_forwarder(config.presence.fan_out_wait);
    let users = users::users(parts, deletions);
    let LowerDomains { domains, closing, sending, upkeep } = lower_domains(parts, users, moves).await?;
    let limits = routes::limits(config, caches.node().clone());
    let rules =
        presence::CallRules { pages: page_tokens.clone(), gateways: gateway_tokens, limits: limits.clone() };
    let (online, background) = presence::presence(parts, &domains, rules, moved);
    let log_kept = config.relations.log_kept;
    let applications =
        Applications::new(context, domains.deciders(&sending.notes), &closing, config.applications, log_kept);
    let (notices, notice_upkeep) = notices::notices(parts, &domains.users);
    let totals = LiveTotals::new(notices.clone());
    let sessions = Arc::new(background.node_sessions());
    let streams = messages::StreamParts { pages: page_tokens.clone(), totals, sessions };
    let messaging = messages::messaging(parts, sending, &domains, streams);
    let (messages, receiving) = (messaging.calls.messages.clone(), messaging.calls.receiving.clone());
    let unfinished = application::cleanup_job(stores, applications.clone(), parts.among());
    let mut cleaned: Vec<Arc<dyn AccountCleanup>> = vec![
        Arc::new(upkeep.clone()),
        Arc::new(domains.members.clone()),
        Arc::new(closing),
        Arc::new(online.sessions.clone()),
        Arc::new(NoticeCleanup::new(notices.clone())),
    ];
    cleaned.extend(messaging.cleanup);
    cleaned.extend(messages::erasure_cleanup(parts));
    let access = user::access_job(domains.users.accesses(), Arc::new(online.sessions.clone()));
    let cleanup = user::cleanup_job(stores, cleaned, deleted, parts.among());
    let (sequences, changes) = (sequences::sequences(parts), KeptChanges::new(&stores.changes));
    let change_upkeep = change::upkeep_job(context, config.changes, removal_time.clone(), parts.among());

    let admin_context = admin_context(stores, &caches, cluster.as_ref(), observer.as_ref());
    let admin =
        AdminRpc::new(admin_context, facts, mutations.clone(), node_status, config.limits.watchers, upkeep);
    let upper =
        UpperDomains { applications, online, messaging: messaging.calls, notices, sequences, changes };
    let guard = AccessGuard::new(domains.users.accesses().clone());
    let routes = routes::routes(domains, upper, admin, page_tokens, limits, config);
    Ok(Services {
        routes: routes.guarded_by(guard),
        access,
        mutations,
        node: caches.node().clone(),
        cluster,
        observer,
        cleanup,
        applications: unfinished,
        repeats: messaging.repeats,
        messages,
        resumption: messaging.resumption,
        receiving,
        receivers: messaging.receivers,
        receipts: messaging.receipt_notifier,
        message_upkeep: messaging.upkeep,
        notice_upkeep,
        change_upkeep,
        presence: background,
        removal_time: removal_time.clone(),
    })
}

fn removal_time(stores: &Stores, cluster: Option<&Cluster>) -> RemovalTime {
    RemovalTime::new(&stores.coordination, cluster.map(|cluster| cluster.node_info().id.as_str()))
}

/// The parts that a node's domains are built with.
#[derive(Clone, Copy)]
struct Assembly<'a> {
    context: DomainContext<'a>,
    config: &'a Config,
    /// `None`: single-node mode.
    cluster: Option<&'a Cluster>,
    /// New for each start in single-node mode.
    node_id: &'a str,
    /// The time by which old data are removed.
    removal_time: &'a RemovalTime,
}

impl<'a> Assembly<'a> {
    /// This node's name among the other nodes, if there may be some.
    fn among(&self) -> Option<&'a str> {
        self.cluster.map(|cluster| cluster.node_info().id.as_str())
    }

    /// Whether there is a relation store.
    fn has_relations(&self) -> bool {
        self.cluster.is_none() || !self.config.store.cql.contact_points.is_empty()
    }

    /// Whether the cluster's nodes agree on its schema. In single-node mode they always do.
    fn agreement(&self) -> SchemaAgreement {
        self.cluster.map_or_else(SchemaAgreement::reached, |cluster| cluster.agreement().clone())
    }
}

/// The domains that others are built over, and their further dependencies.
struct LowerDomains {
    domains: Domains,
    closing: ApplicationCloser,
    sending: messages::Sending,
    upkeep: RelationUpkeep,
}

/// Builds users, groups, members and relations, and the message append, which they use. `moves` is the
/// presence listener for joins and leaves.
async fn lower_domains(
    parts: Assembly<'_>,
    users: Users,
    moves: MembershipForwarder,
) -> Result<LowerDomains, StoreError> {
    let Assembly { context, config, .. } = parts;
    let stores = context.stores;
    let closing = ApplicationCloser::new(stores, context.mutations.clone(), config.applications);
    let sending = messages::sending(parts, &users);
    let listeners = groups::MemberAndGroupListeners {
        members: vec![Arc::new(moves), Arc::new(closing.clone()), Arc::new(sending.notes.clone())],
        events: messages::group_events(&sending.queue, config),
        changes: Arc::new(sending.notes.clone()),
    };
    let codes = groups::invite_codes(parts).await?;
    let dependencies = groups::GroupDependencies {
        users: users.clone(),
        roles: sending.roles.clone(),
        conversations: sending.records.conversations.clone(),
    };
    let (groups, members) = groups::groups_and_members(parts, dependencies, codes, listeners);
    let follows = relations::follows(parts, &users, &closing, &sending.notes);
    let blocks = sending.blocks.clone();
    let upkeep = RelationUpkeep::new(stores, context.caches, &follows, &blocks);
    Ok(LowerDomains {
        domains: Domains { users, groups, members, follows, blocks },
        closing,
        sending,
        upkeep,
    })
}

fn admin_context(
    stores: &Stores,
    caches: &CacheFactory,
    cluster: Option<&Arc<Cluster>>,
    observer: Option<&Observer>,
) -> AdminContext {
    AdminContext {
        node: caches.node().clone(),
        epochs: StoreEpochs(Arc::clone(&stores.node)),
        logs: ConversationLogs::new(stores),
        cluster: cluster.cloned(),
        canary: observer.map(|observer| observer.record().clone()),
        observed: observer.map(Observer::observed),
    }
}

/// The domains that others are built over.
struct Domains {
    users: Users,
    groups: Groups,
    members: Members,
    follows: Follows,
    blocks: Blocks,
}

impl Domains {
    fn deciders(&self, notes: &Notes) -> application::ApplicationDependencies {
        application::ApplicationDependencies {
            users: self.users.clone(),
            members: self.members.clone(),
            follows: self.follows.clone(),
            blocks: self.blocks.clone(),
            listener: Arc::new(notes.clone()),
        }
    }
}

/// The mutations, and the observer for a sample of these on other nodes.
fn writes(
    stores: &Stores,
    config: &Config,
    caches: &CacheFactory,
    cluster: Option<&Arc<Cluster>>,
) -> (Mutations, Option<Observer>) {
    let mutations = Mutations::new(caches.node().clone(), &write_limits(config));
    let observer = cluster.map(|cluster| Observer::new(stores, config, caches, cluster, mutations.clone()));
    let mutations = match observer.as_ref().and_then(Observer::samples) {
        Some(samples) => mutations.with_listener(samples),
        None => mutations,
    };
    (mutations, observer)
}

fn write_limits(config: &Config) -> WriteLimits {
    let most = config.limits.writes_in_flight;
    let at_once = match config.store.backend {
        Backend::Sqlite => most,
        // More would only wait for a connection.
        Backend::Cluster => most.min(usize::try_from(config.store.mongodb.pool_max).unwrap_or(most)),
    };
    let (wait, answer) = (config.limits.write_wait, config.limits.write_answer);
    WriteLimits { at_once, wait, takes: WRITE_LIMIT, answer }
}

/// The key with this name. The first node makes it at its first start.
async fn shared_key(stores: &Stores, name: &str) -> Result<[u8; 32], StoreError> {
    stores.node.key(name, rand::random()).await
}
