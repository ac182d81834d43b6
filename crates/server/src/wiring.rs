//! Puts a node together: stores, tiers, policies and services, in one visible order.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use kith_cache::{ListEpoch, ListPolicies, Node, Policy};
use kith_proto::{
    admin::v1::admin_service_server::AdminServiceServer, group::v1::group_service_server::GroupServiceServer,
    relation::v1::relation_service_server::RelationServiceServer,
    user::v1::user_service_server::UserServiceServer,
};
use kith_store::{Block, Follow, Group, Permissions, StoreError, Stores, Timestamp, User};
use tokio::time::Instant;
use tonic::{codec::CompressionEncoding, service::Routes};
use uuid::Uuid;

use crate::{
    admin::{AdminRpc, NodeFacts, Place, Vitals},
    bulk::Limits,
    cluster::{Cluster, StoreEpochs},
    config::{Backend, CacheConfig, Config, RelationsConfig, UsersConfig},
    group::{GROUPS, GroupPolicies, GroupRpc, Groups, SEARCH_EPOCHS, SEARCH_PAGES, page_weight},
    mutation::{Mutations, WriteLimits},
    observer::Observer,
    page::{PageSizes, PageTokens},
    relation::{
        BLOCK_EPOCHS, BLOCK_PAGES, BLOCKS, Blocks, FOLLOW_EPOCHS, FOLLOW_PAGES, FOLLOWS, Follows, Janitor,
        RelationPolicies, RelationRpc, RelationRules, Removals, Upkeep, block_page_weight,
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
/// Parts that the memory tier is shared out in.
const SHARES: u64 = 64;
/// Users are read far more often than groups.
const USER_SHARES: u64 = 32;
const GROUP_SHARES: u64 = 7;
/// Pages of searches are ids: with 256 MiB, some 12,000 pages of 50.
const SEARCH_PAGE_SHARES: u64 = 2;
/// Names of epochs: some 15,000 buckets.
const SEARCH_EPOCH_SHARES: u64 = 1;
/// Records of pairs are small: with 256 MiB, some 150,000 follows, and absences of them.
const FOLLOW_SHARES: u64 = 8;
/// What is asked for every message.
const BLOCK_SHARES: u64 = 8;
/// Pages of follows: some 3,000 of 100.
const FOLLOW_PAGE_SHARES: u64 = 4;
const BLOCK_PAGE_SHARES: u64 = 1;
/// Of lists of follows, and of blocks: half a share each.
const LIST_EPOCH_SHARES: u64 = 1;
const _: () = assert!(
    USER_SHARES
        + GROUP_SHARES
        + SEARCH_PAGE_SHARES
        + SEARCH_EPOCH_SHARES
        + FOLLOW_SHARES
        + BLOCK_SHARES
        + FOLLOW_PAGE_SHARES
        + BLOCK_PAGE_SHARES
        + LIST_EPOCH_SHARES
        == SHARES
);
/// Counts stand among the pages of their list and go with its time: they are right within this of the last change.
const FOLLOW_PAGE_TTL: Duration = Duration::from_secs(10);

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
}

impl Services {
    /// Brings the metrics of tiers and following up to date.
    pub(crate) fn export_metrics(&self) {
        self.node.export_metrics();
        if let Some(cluster) = &self.cluster {
            cluster.export_metrics();
        }
    }

    /// Lets writes that have begun end, then tells other nodes what they have not been told; both within the
    /// limit. False when writes had to be left behind. What cannot be told is not lost: the change feed has it.
    pub(crate) async fn end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.janitor.stop();
        if let Some(observer) = &self.observer {
            observer.stop();
        }
        let written = self.mutations.drain(limit).await;
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

    let of_users = policy(USERS, &config.cache, USER_SHARES, User::weight);
    let (removals, deleted) = Removals::new(stores);
    let users = Users::new(
        stores,
        &tiers,
        of_users,
        (mutations.clone(), hasher.clone()),
        removals,
        user_rules(&config.users, config.ids.block),
    );
    let of_groups = group_policies(&config.cache);
    let groups =
        Groups::new(stores, &tiers, of_groups, mutations.clone(), (hasher.clone(), codes), config.ids.block);
    let rules = relation_rules(&config.relations);
    let of_relations = relation_policies(&config.cache);
    let to_write = (mutations.clone(), hasher);
    let of_blocks = (of_relations.blocks, of_relations.block_lists);
    let blocks = Blocks::new(stores, &tiers, of_blocks, to_write.clone(), rules.default_permissions);
    let of_follows = (of_relations.follows, of_relations.follow_lists);
    let follows = Follows::new(stores, &tiers, of_follows, to_write, users.clone(), rules);
    let upkeep = Upkeep::new(stores, &tiers, &follows, &blocks);
    let among = cluster.as_ref().map(|cluster| cluster.card().id.as_str());
    let janitor = Janitor::new(stores, upkeep.clone(), deleted, among);
    let epochs = StoreEpochs(Arc::clone(&stores.node));
    let canary = observer.as_ref().map(|observer| observer.record().clone());
    let observed = observer.as_ref().map(Observer::observed);
    let place = Place { node: tiers.node().clone(), epochs, cluster: cluster.clone(), canary, observed };
    let admin = AdminRpc::new(place, facts, mutations.clone(), vitals, config.limits.watchers, upkeep);

    let searches = NonZeroU32::new(config.limits.searches_per_minute).unwrap_or(NonZeroU32::MIN);
    let searches = SearchQuota::per_minute(searches);
    let users = UserRpc::new(users, pages.clone(), limits, searches.clone());
    let groups = GroupRpc::new(groups, pages.clone(), limits, searches);
    let relations = RelationRpc::new(follows, blocks, pages, limits);
    let bytes = config.limits.batch_message_bytes;
    let routes = Routes::default()
        .add_service(compressed!(UserServiceServer::new(users), bytes))
        .add_service(compressed!(GroupServiceServer::new(groups), bytes))
        .add_service(compressed!(RelationServiceServer::new(relations), bytes))
        .add_service(compressed!(AdminServiceServer::new(admin), config.limits.message_bytes));
    Ok(Services { routes, mutations, node: tiers.node().clone(), cluster, observer, janitor })
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

fn relation_policies(cache: &CacheConfig) -> RelationPolicies {
    let pages = policy(FOLLOW_PAGES, cache, FOLLOW_PAGE_SHARES, follow_page_weight);
    let half = |policy: Policy<ListEpoch>| Policy { memory_bytes: policy.memory_bytes / 2, ..policy };
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
