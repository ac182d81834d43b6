//! Presence, as configured: by Redis, or without one in the memory of this node.

use std::sync::Arc;

use kith_service::{
    domain_context::DomainContext,
    presence::{self, Background, Moved, Online, PresenceRpc},
    rpc::page_token::PageTokens,
};
use tokio::sync::mpsc;

use super::{Domains, caches::cache_defaults, routes::limits};
use crate::{cluster::Cluster, config::Config};

/// The keys that seal tokens.
pub(super) struct SealingTokens {
    /// Of pages.
    pub(super) pages: PageTokens,
    /// Of gateways.
    pub(super) gateways: PageTokens,
}

pub(super) fn presence(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Arc<Cluster>>,
    domains: &Domains,
    tokens: SealingTokens,
    moved: mpsc::Receiver<Moved>,
) -> (PresenceRpc, Background) {
    let presences = match cluster {
        Some(cluster) => cluster.presences().clone(),
        None => presence::in_memory(&config.presence),
    };
    let online = Online {
        stores: presences,
        caches: context.caches,
        policy: presence::cache::policy(&cache_defaults(config)),
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
        page_tokens: tokens.pages,
        gateway_tokens: tokens.gateways,
        limits: limits(config),
        coordination: Arc::clone(&context.stores.coordination),
        among: cluster.map(|cluster| cluster.card().id.as_str()),
        moved,
    };
    presence::build(online, &config.presence)
}
