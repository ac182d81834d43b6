//! Puts a node together: stores, tiers, policies and services, in one visible order.

mod policies;
mod shares;

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use kith_cache::Node;
use kith_proto::{
    admin::v1::admin_service_server::AdminServiceServer,
    application::v1::application_service_server::ApplicationServiceServer,
    group::v1::group_service_server::GroupServiceServer,
    member::v1::member_service_server::MemberServiceServer,
    presence::v1::presence_service_server::PresenceServiceServer,
    relation::v1::relation_service_server::RelationServiceServer,
    user::v1::user_service_server::UserServiceServer,
};
use kith_store::{Permissions, StoreError, Stores, Timestamp};
use tokio::{
    sync::mpsc,
    time::{Instant, interval},
};
use tonic::codec::CompressionEncoding;
use uuid::Uuid;

use self::policies::{active_policy, group_policies, member_policies, relation_policies, user_policy};
use crate::{
    admin::{AdminRpc, NodeFacts, Place, Vitals},
    answer_size::MESSAGE_BYTES_MAX,
    application::{self, ApplicationRpc, ApplicationRules, Applications, Closing},
    bulk::Limits,
    cluster::{Cluster, StoreEpochs},
    config::{Backend, Config, MembersConfig, RelationsConfig, UsersConfig},
    edge::Routes,
    group::{GroupRpc, GroupRules, Groups},
    member::{MemberRpc, MemberRules, Members, Roles},
    mutation::{Mutations, WriteLimits},
    observer::Observer,
    page::{PageSizes, PageTokens},
    presence::{self, Keeper, Moved, Online, PresenceRpc},
    relation::{Blocks, Cleanup, Follows, Janitor, RelationRpc, RelationRules, Removals, Upkeep},
    search_quota::SearchQuota,
    secret::{InviteCodes, SecretHasher},
    tasks::Tasks,
    tiers::Tiers,
    user::{UserRpc, UserRules, Users},
};

/// How long a store may take over a write before its outcome counts as unknown.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// What other nodes get to be told at least, when writes took all of the time.
const TELL_LEAST: Duration = Duration::from_millis(500);
/// Records of one import message that are written side by side.
const IMPORT_AT_ONCE: usize = 64;

/// How often memory that a namespace does not use is lent to others.
const LEND_EVERY: Duration = Duration::from_secs(1);

/// What serves calls, and what has to end when the node does.
#[derive(Debug)]
pub struct Services {
    /// All domain services.
    pub routes: Routes,
    /// Writes under way.
    pub mutations: Mutations,
    /// The tiers of this node.
    pub node: Node,
    /// The other nodes, where there may be some.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// What looks whether they see what is written here.
    pub(crate) observer: Option<Observer>,
    /// What ends the follows and blocks of deleted users.
    pub(crate) janitor: Janitor,
    /// What keeps presence beside the calls.
    pub(crate) presence: Keeper,
    /// What brings about what was accepted on a node that died.
    pub(crate) applications: application::Janitor,
    /// What divides memory between the namespaces.
    lending: Tasks,
}

impl Services {
    /// Brings the metrics of tiers and following up to date.
    pub(crate) fn export_metrics(&self) {
        self.node.export_metrics();
        self.presence.export_metrics();
        if let Some(cluster) = &self.cluster {
            cluster.export_metrics();
        }
    }

    /// Lets writes that have begun end, then tells other nodes what they have not been told; both within the
    /// limit. False when writes had to be left behind. What cannot be told is not lost: the change feed has it.
    pub(crate) async fn end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.lending.end().await;
        self.janitor.stop().await;
        self.applications.stop().await;
        if let Some(observer) = &self.observer {
            observer.stop().await;
        }
        let written = self.mutations.drain(limit).await;
        // It is told of those who joined and left by the last writes.
        self.presence.stop().await;
        if let Some(cluster) = &self.cluster {
            cluster.stop(until.saturating_duration_since(Instant::now()).max(TELL_LEAST)).await;
        }
        written
    }
}

/// Builds all domain services of a node alone over migrated stores. Raises the epoch: tokens of an earlier life
/// of this node do not vouch for its empty memory.
///
/// # Errors
/// When the store cannot answer.
pub async fn services(stores: &Stores, config: &Config, vitals: Vitals) -> Result<Services, StoreError> {
    let seen = stores.node.epoch().await?.number;
    let epoch = stores.node.raise_epoch(seen, "").await?.number;
    build(stores, config, vitals, Site::Alone(Node::local(epoch))).await
}

/// The same of a node that shares a server with others. Its memory is trusted once it follows.
///
/// # Errors
/// When the store cannot answer.
pub(crate) async fn services_of_cluster(
    stores: &Stores,
    config: &Config,
    vitals: Vitals,
    cluster: Cluster,
) -> Result<Services, StoreError> {
    build(stores, config, vitals, Site::Among(Arc::new(cluster))).await
}

/// Where a node stands.
enum Site {
    Alone(Node),
    Among(Arc<Cluster>),
}

impl Site {
    fn tiers(&self) -> Tiers {
        match self {
            Self::Alone(node) => Tiers::alone(node.clone()),
            Self::Among(cluster) => cluster.tiers().clone(),
        }
    }

    fn facts(&self, stores: &Stores) -> NodeFacts {
        let backend = stores.node.backend();
        match self {
            Self::Alone(_) => {
                NodeFacts { node_id: Uuid::new_v4().to_string(), started: Timestamp::now(), backend }
            }
            Self::Among(cluster) => {
                let card = cluster.card();
                NodeFacts { node_id: card.id.clone(), started: card.started, backend }
            }
        }
    }

    fn cluster(self) -> Option<Arc<Cluster>> {
        match self {
            Self::Alone(_) => None,
            Self::Among(cluster) => Some(cluster),
        }
    }
}

async fn build(stores: &Stores, config: &Config, vitals: Vitals, site: Site) -> Result<Services, StoreError> {
    let tiers = site.tiers();
    let (facts, cluster) = (site.facts(stores), site.cluster());
    let mutations = Mutations::new(tiers.node().clone(), &write_limits(config));
    let observer =
        cluster.as_ref().map(|cluster| Observer::new(stores, config, &tiers, cluster, mutations.clone()));
    let mutations = sampled(mutations, observer.as_ref());
    let hasher = SecretHasher::new(std::thread::available_parallelism().map_or(1, usize::from));
    let pages = PageTokens::new(shared_key(stores, "page_tokens").await?);
    let codes = invite_codes(stores, config).await?;
    let limits = limits(config);

    let (removals, deleted) = Removals::new(stores);
    let to_write = (mutations.clone(), hasher.clone());
    let users = users(stores, config, &tiers, to_write.clone(), removals);
    let closing = Closing::new(stores, mutations.clone(), application_rules(config));
    let of = (&users, &closing);
    let (groups, members) = groups_and_members(stores, config, &tiers, &to_write, codes, of);
    let (moves, moved) = presence::moves(config.presence.fan_out_wait);
    let members = members.telling(moves);
    let (follows, blocks) = relations(stores, config, &tiers, to_write.clone(), (&users, &closing));
    let (edges, of) = ((&follows, &blocks), (&users, &members));
    let rules = application_rules(config);
    let applications = Applications::new(stores, edges, of, &closing, to_write, rules);
    let tokens = (pages.clone(), PageTokens::new(shared_key(stores, "gateway_tokens").await?));
    let of = (&users, &members, &follows, &blocks);
    let (online, keeper) = online((stores, config), &tiers, cluster.as_ref(), of, (tokens, moved));
    let upkeep = Upkeep::new(stores, &tiers, &follows, &blocks);
    let among = cluster.as_ref().map(|cluster| cluster.card().id.as_str());
    let cleanup = Cleanup::new(&upkeep, &members, &closing, &online.sessions);
    let janitor = Janitor::new(stores, cleanup, deleted, among);
    let unfinished = application::Janitor::new(stores, applications.clone(), among);
    let epochs = StoreEpochs(Arc::clone(&stores.node));
    let canary = observer.as_ref().map(|observer| observer.record().clone());
    let observed = observer.as_ref().map(Observer::observed);
    let place = Place { node: tiers.node().clone(), epochs, cluster: cluster.clone(), canary, observed };
    let admin = AdminRpc::new(place, facts, mutations.clone(), vitals, config.limits.watchers, upkeep);

    let searches = NonZeroU32::new(config.limits.searches_per_minute).unwrap_or(NonZeroU32::MIN);
    let searches = SearchQuota::per_minute(searches);
    let users = UserRpc::new(users, pages.clone(), limits, searches.clone());
    let groups = GroupRpc::new(groups, members.clone(), pages.clone(), limits, searches);
    let among = members.clone();
    let members = MemberRpc::new(members, pages.clone(), limits);
    let applications = ApplicationRpc::new(applications, pages.clone(), limits);
    let relations = RelationRpc::new(follows, blocks, among, pages, limits);
    let bytes = config.limits.batch_message_bytes;
    let routes = Routes::default()
        .add_service(compressed!(UserServiceServer::new(users), bytes))
        .add_service(compressed!(GroupServiceServer::new(groups), bytes))
        .add_service(compressed!(RelationServiceServer::new(relations), bytes))
        .add_service(compressed!(MemberServiceServer::new(members), bytes))
        .add_service(compressed!(PresenceServiceServer::new(online), bytes))
        .add_service(compressed!(ApplicationServiceServer::new(applications), bytes))
        .add_service(compressed!(AdminServiceServer::new(admin), config.limits.message_bytes));
    let node = tiers.node().clone();
    let lending = Tasks::default();
    lending.spawn(lend_memory(node.clone()));
    Ok(Services {
        routes,
        mutations,
        node,
        cluster,
        observer,
        janitor,
        applications: unfinished,
        presence: keeper,
        lending,
    })
}

/// The same writes, of which the observer looks for some on other nodes.
fn sampled(mutations: Mutations, observer: Option<&Observer>) -> Mutations {
    match observer.and_then(Observer::samples) {
        Some(samples) => mutations.sampled(samples),
        None => mutations,
    }
}

/// Sealed by the configured key, else by one that the store keeps.
async fn invite_codes(stores: &Stores, config: &Config) -> Result<InviteCodes, StoreError> {
    let key = match config.secrets.invite_code_key_bytes() {
        Some(key) => key,
        None => shared_key(stores, "invite_codes").await?,
    };
    Ok(InviteCodes::new(key))
}

async fn lend_memory(node: Node) {
    let mut ticks = interval(LEND_EVERY);
    loop {
        ticks.tick().await;
        node.lend_memory();
    }
}

fn users(
    stores: &Stores,
    config: &Config,
    tiers: &Tiers,
    to_write: (Mutations, SecretHasher),
    removals: Removals,
) -> Users {
    Users::new(
        stores,
        tiers,
        user_policy(config),
        to_write,
        removals,
        user_rules(&config.users, config.ids.block),
    )
}

fn groups_and_members(
    stores: &Stores,
    config: &Config,
    tiers: &Tiers,
    (mutations, hasher): &(Mutations, SecretHasher),
    codes: InviteCodes,
    (users, closing): (&Users, &Closing),
) -> (Groups, Members) {
    let of_members = member_policies(config);
    let roles = Roles::new(stores, tiers, (of_members.members, of_members.rosters), users);
    let groups = Groups::new(
        stores,
        tiers,
        group_policies(config),
        (mutations.clone(), roles.clone()),
        (hasher.clone(), codes),
        group_rules(&config.users, config.ids.block),
    );
    let members = Members::new(
        stores,
        tiers,
        (of_members.member_lists, of_members.membership_lists),
        (roles, groups.clone(), users.clone(), closing.clone()),
        (mutations.clone(), hasher.clone()),
        member_rules(&config.members),
    );
    (groups, members)
}

fn relations(
    stores: &Stores,
    config: &Config,
    tiers: &Tiers,
    to_write: (Mutations, SecretHasher),
    (users, closing): (&Users, &Closing),
) -> (Follows, Blocks) {
    let rules = relation_rules(&config.relations);
    let policies = relation_policies(config);
    let of_blocks = (policies.blocks, policies.block_lists);
    let blocks = Blocks::new(stores, tiers, of_blocks, to_write.clone(), rules.default_permissions);
    let of_follows = (policies.follows, policies.follow_lists);
    let follows = Follows::new(stores, tiers, of_follows, to_write, (users.clone(), closing.clone()), rules);
    (follows, blocks)
}

/// Who is online: by Redis where nodes share one, else by the memory of this node.
fn online(
    (stores, config): (&Stores, &Config),
    tiers: &Tiers,
    cluster: Option<&Arc<Cluster>>,
    (users, members, follows, blocks): (&Users, &Members, &Follows, &Blocks),
    (tokens, moved): ((PageTokens, PageTokens), mpsc::Receiver<Moved>),
) -> (PresenceRpc, Keeper) {
    let presences = match cluster {
        Some(cluster) => cluster.presences().clone(),
        None => presence::in_memory(&config.presence),
    };
    let online = Online {
        stores: presences,
        tiers,
        policy: active_policy(config),
        users: users.clone(),
        members: members.clone(),
        relations: (follows.clone(), blocks.clone()),
        tokens,
        limits: limits(config),
        coordination: Arc::clone(&stores.coordination),
        among: cluster.map(|cluster| cluster.card().id.as_str()),
        moved,
    };
    presence::assemble(online, &config.presence)
}

/// Generated servers share no trait; each has these methods.
macro_rules! compressed {
    ($server:expr, $bytes:expr) => {
        $server
            .max_decoding_message_size($bytes)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
    };
}
use compressed;

fn relation_rules(relations: &RelationsConfig) -> RelationRules {
    RelationRules {
        mode: relations.mode,
        friends_max: relations.friends_max,
        place_kept: relations.place_kept,
        default_permissions: Permissions::new(relations.default_permissions).unwrap_or(Permissions::ALL),
    }
}

fn member_rules(members: &MembersConfig) -> MemberRules {
    MemberRules {
        members_max: members.members_max,
        bans_max: members.bans_max,
        code_tries_per_minute: NonZeroU32::new(members.code_tries_per_minute).unwrap_or(NonZeroU32::MIN),
    }
}

fn application_rules(config: &Config) -> ApplicationRules {
    let applications = &config.applications;
    ApplicationRules {
        pending_max: applications.pending_max,
        pending_for: applications.pending_for,
        kept: applications.kept,
        log_kept: config.relations.log_kept,
    }
}

fn write_limits(config: &Config) -> WriteLimits {
    let most = config.limits.writes_in_flight;
    let at_once = match config.store.backend {
        Backend::Sqlite => most,
        // More would but wait for a connection.
        Backend::Cluster => most.min(usize::try_from(config.store.mongodb.pool_max).unwrap_or(most)),
    };
    let (wait, answer) = (config.limits.write_wait, config.limits.write_answer);
    WriteLimits { at_once, wait, takes: WRITE_LIMIT, answer }
}

fn user_rules(users: &UsersConfig, id_block: u32) -> UserRules {
    UserRules {
        reserved_names: users.reserved_names.clone(),
        name_kept: users.name_kept,
        secret_params: users.secret_params.iter().cloned().collect::<BTreeSet<_>>(),
        tries_per_minute: NonZeroU32::new(users.verify_tries_per_minute).unwrap_or(NonZeroU32::MIN),
        id_block,
    }
}

/// Secrets of groups are bounded as those of users.
fn group_rules(users: &UsersConfig, id_block: u32) -> GroupRules {
    let UserRules { secret_params, tries_per_minute, .. } = user_rules(users, id_block);
    GroupRules { secret_params, tries_per_minute, id_block }
}

fn limits(config: &Config) -> Limits {
    Limits {
        batch_ids: config.limits.batch_ids,
        import_records: config.limits.import_records,
        import_at_once: IMPORT_AT_ONCE,
        import_patience: config.limits.deadline_max,
        tokens: config.limits.tokens,
        pages: PageSizes { default: config.limits.page_default, max: config.limits.page_max },
    }
}

/// The key of this name, made at the first start of the first node.
async fn shared_key(stores: &Stores, name: &str) -> Result<[u8; 32], StoreError> {
    stores.node.key(name, rand::random()).await
}
