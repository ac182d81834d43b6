//! Presence, as configured: by Redis, or without one in the memory of this node.

use std::sync::Arc;

use kith_service::{
    domain_context::DomainContext,
    presence::{self, Background, Moved, Online, PresenceRpc},
    rpc::{batch::Limits, page_token::PageTokens},
};
use tokio::sync::mpsc;

use super::{Domains, caches::cache_defaults};
use crate::{cluster::Cluster, config::Config};

/// What seals the tokens of calls, and bounds calls.
pub(super) struct CallRules {
    /// Tokens of pages.
    pub(super) pages: PageTokens,
    /// Tokens of gateways.
    pub(super) gateways: PageTokens,
    /// Shared with the other domains: all of them count the records of a user together.
    pub(super) limits: Limits,
}

pub(super) fn presence(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Arc<Cluster>>,
    domains: &Domains,
    rules: CallRules,
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
        page_tokens: rules.pages,
        gateway_tokens: rules.gateways,
        limits: rules.limits,
        coordination: Arc::clone(&context.stores.coordination),
        among: cluster.map(|cluster| cluster.node_info().id.as_str()),
        moved,
    };
    presence::build(online, &config.presence)
}
