//! Puts a node together: stores, tiers, policies and services, in one visible order.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use kith_cache::{Node, Policy};
use kith_proto::{
    admin::v1::admin_service_server::AdminServiceServer, group::v1::group_service_server::GroupServiceServer,
    user::v1::user_service_server::UserServiceServer,
};
use kith_store::{Group, StoreError, Stores, Timestamp, User};
use tonic::{codec::CompressionEncoding, service::Routes};

use crate::{
    admin::{AdminRpc, NodeFacts, Vitals},
    bulk::Limits,
    config::{CacheConfig, Config, UsersConfig},
    group::{GroupRpc, Groups},
    mutation::Mutations,
    page::{PageSizes, PageTokens},
    search_quota::SearchQuota,
    secret::{InviteCodes, SecretHasher},
    user::{UserRpc, UserRules, Users},
};

/// How long a store may take over a write before its outcome counts as unknown.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Records of one import message that are written side by side.
const IMPORT_AT_ONCE: usize = 64;
/// Shares of the memory tier, in quarters: users are read far more often than groups.
const USER_QUARTERS: u64 = 3;

/// What serves calls, and what has to end when the node does.
#[derive(Debug)]
pub struct Services {
    /// All domain services.
    pub routes: Routes,
    /// Writes under way.
    pub mutations: Mutations,
    /// The tiers of this node.
    pub node: Node,
}

/// Builds all domain services over migrated stores. Raises the epoch: tokens of an earlier life of this
/// node do not vouch for its empty memory.
///
/// # Errors
/// When the store cannot answer.
pub async fn services(stores: &Stores, config: &Config, vitals: Vitals) -> Result<Services, StoreError> {
    let node = Node::local(stores.node.raise_epoch(stores.node.epoch().await?).await?);
    let mutations = Mutations::new(node.clone(), WRITE_LIMIT);
    let hasher = SecretHasher::new(std::thread::available_parallelism().map_or(1, usize::from));
    let pages = PageTokens::new(shared_key(stores, "page_tokens").await?);
    let codes = InviteCodes::new(match config.secrets.invite_code_key_bytes() {
        Some(key) => key,
        None => shared_key(stores, "invite_codes").await?,
    });
    let limits = limits(config);

    let of_users = policy("user", &config.cache, USER_QUARTERS, User::weight);
    let users = Users::new(
        stores,
        &node,
        of_users,
        mutations.clone(),
        hasher.clone(),
        user_rules(&config.users, config.ids.block),
    );
    let of_groups = policy("group", &config.cache, 4 - USER_QUARTERS, Group::weight);
    let groups = Groups::new(stores, &node, of_groups, mutations.clone(), (hasher, codes), config.ids.block);
    let facts = NodeFacts {
        node_id: uuid::Uuid::new_v4().to_string(),
        started: Timestamp::now(),
        backend: stores.node.backend(),
    };
    let admin = AdminRpc::new(node.clone(), facts, mutations.clone(), vitals);

    let searches = NonZeroU32::new(config.limits.searches_per_minute).unwrap_or(NonZeroU32::MIN);
    let searches = SearchQuota::per_minute(searches);
    let users = UserRpc::new(users, pages.clone(), limits, searches.clone());
    let groups = GroupRpc::new(groups, pages, limits, searches);
    let bytes = config.limits.batch_message_bytes;
    let routes = Routes::default()
        .add_service(compressed!(UserServiceServer::new(users), bytes))
        .add_service(compressed!(GroupServiceServer::new(groups), bytes))
        .add_service(compressed!(AdminServiceServer::new(admin), config.limits.message_bytes));
    Ok(Services { routes, mutations, node })
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

fn policy<V>(name: &'static str, cache: &CacheConfig, quarters: u64, weigh: fn(&V) -> usize) -> Policy<V> {
    Policy {
        ttl: cache.ttl,
        negative_ttl: cache.negative_ttl,
        jitter: cache.jitter,
        max_stale: cache.max_stale,
        memory_bytes: cache.memory_bytes / 4 * quarters,
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
