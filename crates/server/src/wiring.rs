//! Puts a node together: stores, tiers, policies and services, in one visible order.

mod shares;

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use kith_cache::{ListEpoch, ListPolicies, Node, Policy};
use kith_presence::Distribution;
use kith_proto::{
    admin::v1::admin_service_server::AdminServiceServer,
    application::v1::application_service_server::ApplicationServiceServer,
    group::v1::group_service_server::GroupServiceServer,
    member::v1::member_service_server::MemberServiceServer,
    presence::v1::presence_service_server::PresenceServiceServer,
    relation::v1::relation_service_server::RelationServiceServer,
    user::v1::user_service_server::UserServiceServer,
};
use kith_store::{Block, Follow, Group, Member, Permissions, Roster, StoreError, Stores, Timestamp, User};
use tokio::{sync::mpsc, time::Instant};
use tonic::codec::CompressionEncoding;
use uuid::Uuid;

use self::shares::{
    ACTIVE_SHARES, BLOCK_PAGE_SHARES, BLOCK_SHARES, FOLLOW_PAGE_SHARES, FOLLOW_SHARES, GROUP_SHARES,
    LIST_EPOCH_SHARES, MEMBER_EPOCH_SHARES, MEMBER_PAGE_SHARES, MEMBER_SHARES, ROSTER_SHARES,
    SEARCH_EPOCH_SHARES, SEARCH_PAGE_SHARES, SHARES, USER_SHARES,
};
use crate::{
    admin::{AdminRpc, NodeFacts, Place, Vitals},
    application::{self, ApplicationRpc, ApplicationRules, Applications, Closing},
    bulk::Limits,
    cluster::{Cluster, StoreEpochs},
    config::{Backend, CacheConfig, Config, MembersConfig, RelationsConfig, UsersConfig},
    edge::Routes,
    group::{GROUPS, GroupPolicies, GroupRpc, Groups, SEARCH_EPOCHS, SEARCH_PAGES, page_weight},
    member::{
        MEMBER_EPOCHS, MEMBER_PAGES, MEMBERS, MEMBERSHIP_EPOCHS, MEMBERSHIP_PAGES, MemberPolicies, MemberRpc,
        MemberRules, Members, ROSTERS, Roles, member_page_weight, membership_page_weight,
    },
    mutation::{Mutations, WriteLimits},
    observer::Observer,
    page::{PageSizes, PageTokens},
    presence::{self, ACTIVE, Keeper, Moved, Online, PresenceRpc, active_weight},
    relation::{
        BLOCK_EPOCHS, BLOCK_PAGES, BLOCKS, Blocks, Cleanup, FOLLOW_EPOCHS, FOLLOW_PAGES, FOLLOWS, Follows,
        Janitor, RelationPolicies, RelationRpc, RelationRules, Removals, Upkeep, block_page_weight,
        follow_page_weight,
    },
    search_quota::SearchQuota,
    secret::{InviteCodes, SecretHasher},
    tiers::Tiers,
    user::{USERS, UserRpc, UserRules, Users},
};

/// How long a store may take over a write before its outcome counts as unknown.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// What other nodes get to be told at least, when writes took all of the time.
const TELL_LEAST: Duration = Duration::from_millis(500);
/// Records of one import message that are written side by side.
const IMPORT_AT_ONCE: usize = 64;
/// Counts stand among the pages of their list and go with its time: they are right within this of the last change.
const FOLLOW_PAGE_TTL: Duration = Duration::from_secs(10);
/// Who of a group is online is told when it changes, but not where presence is lost.
const ACTIVE_TTL: Duration = Duration::from_secs(10);

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
    let mutations = match observer.as_ref().and_then(Observer::samples) {
        Some(samples) => mutations.sampled(samples),
        None => mutations,
    };
    let hasher = SecretHasher::new(std::thread::available_parallelism().map_or(1, usize::from));
    let pages = PageTokens::new(shared_key(stores, "page_tokens").await?);
    let codes = InviteCodes::new(match config.secrets.invite_code_key_bytes() {
        Some(key) => key,
        None => shared_key(stores, "invite_codes").await?,
    });
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
    Ok(Services {
        routes,
        mutations,
        node,
        cluster,
        observer,
        janitor,
        applications: unfinished,
        presence: keeper,
    })
}

fn users(
    stores: &Stores,
    config: &Config,
    tiers: &Tiers,
    to_write: (Mutations, SecretHasher),
    removals: Removals,
) -> Users {
    let of_users = policy(USERS, &config.cache, USER_SHARES, User::weight);
    Users::new(stores, tiers, of_users, to_write, removals, user_rules(&config.users, config.ids.block))
}

fn groups_and_members(
    stores: &Stores,
    config: &Config,
    tiers: &Tiers,
    (mutations, hasher): &(Mutations, SecretHasher),
    codes: InviteCodes,
    (users, closing): (&Users, &Closing),
) -> (Groups, Members) {
    let of_members = member_policies(&config.cache);
    let roles = Roles::new(stores, tiers, (of_members.members, of_members.rosters), users);
    let groups = Groups::new(
        stores,
        tiers,
        group_policies(&config.cache),
        (mutations.clone(), roles.clone()),
        (hasher.clone(), codes),
        config.ids.block,
    );
    let members = Members::new(
        stores,
        tiers,
        (of_members.member_lists, of_members.membership_lists),
        (roles, groups.clone(), users.clone()),
        closing,
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
    let policies = relation_policies(&config.cache);
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
        policy: active_policy(&config.cache),
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

/// Generated servers share no trait; each has these three methods.
macro_rules! compressed {
    ($server:expr, $bytes:expr) => {
        $server
            .max_decoding_message_size($bytes)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
    };
}
use compressed;

fn group_policies(cache: &CacheConfig) -> GroupPolicies {
    GroupPolicies {
        records: policy(GROUPS, cache, GROUP_SHARES, Group::weight),
        searches: ListPolicies {
            epochs: policy(SEARCH_EPOCHS, cache, SEARCH_EPOCH_SHARES, ListEpoch::weight),
            pages: policy(SEARCH_PAGES, cache, SEARCH_PAGE_SHARES, page_weight),
        },
    }
}

fn member_policies(cache: &CacheConfig) -> MemberPolicies {
    MemberPolicies {
        members: Policy {
            strict: true,
            ..seldom_there(policy(MEMBERS, cache, MEMBER_SHARES, Member::weight))
        },
        rosters: Policy { strict: true, ..policy(ROSTERS, cache, ROSTER_SHARES, |_| size_of::<Roster>()) },
        member_lists: ListPolicies {
            epochs: half(policy(MEMBER_EPOCHS, cache, MEMBER_EPOCH_SHARES, ListEpoch::weight)),
            pages: half(policy(MEMBER_PAGES, cache, MEMBER_PAGE_SHARES, member_page_weight)),
        },
        membership_lists: ListPolicies {
            epochs: half(policy(MEMBERSHIP_EPOCHS, cache, MEMBER_EPOCH_SHARES, ListEpoch::weight)),
            pages: half(policy(MEMBERSHIP_PAGES, cache, MEMBER_PAGE_SHARES, membership_page_weight)),
        },
    }
}

fn active_policy(cache: &CacheConfig) -> Policy<Distribution> {
    let policy = policy(ACTIVE, cache, ACTIVE_SHARES, active_weight);
    let ttl = policy.ttl.min(ACTIVE_TTL);
    Policy { ttl, max_stale: policy.max_stale.min(ACTIVE_TTL), ..policy }
}

/// Of two kinds that share what one is given.
fn half<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.memory_bytes /= 2;
    policy
}

fn relation_policies(cache: &CacheConfig) -> RelationPolicies {
    let pages = policy(FOLLOW_PAGES, cache, FOLLOW_PAGE_SHARES, follow_page_weight);
    RelationPolicies {
        follows: seldom_there(policy(FOLLOWS, cache, FOLLOW_SHARES, Follow::weight)),
        blocks: Policy { strict: true, ..seldom_there(policy(BLOCKS, cache, BLOCK_SHARES, Block::weight)) },
        follow_lists: ListPolicies {
            epochs: half(policy(FOLLOW_EPOCHS, cache, LIST_EPOCH_SHARES, ListEpoch::weight)),
            pages: Policy { ttl: pages.ttl.min(FOLLOW_PAGE_TTL), ..pages },
        },
        block_lists: ListPolicies {
            epochs: half(policy(BLOCK_EPOCHS, cache, LIST_EPOCH_SHARES, ListEpoch::weight)),
            pages: policy(BLOCK_PAGES, cache, BLOCK_PAGE_SHARES, block_page_weight),
        },
    }
}

/// Of most pairs of users there is no record, and they are asked for as often as others: that is kept as long as a record.
fn seldom_there<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.negative_ttl = policy.ttl;
    policy
}

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
    WriteLimits { at_once, wait: config.limits.write_wait, takes: WRITE_LIMIT }
}

fn policy<V>(name: &'static str, cache: &CacheConfig, shares: u64, weigh: fn(&V) -> usize) -> Policy<V> {
    Policy {
        ttl: cache.ttl,
        negative_ttl: cache.negative_ttl,
        jitter: cache.jitter,
        max_stale: cache.max_stale,
        memory_bytes: cache.memory_bytes / SHARES * shares,
        soft_timeout: cache.load_soft,
        hard_timeout: cache.load_hard,
        loads_in_flight: cache.loads_in_flight,
        early_refresh: cache.early_refresh,
        ..Policy::new(name, weigh)
    }
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
