//! Presence, as configured: in Redis, or without Redis in this node's memory.

use std::sync::Arc;

use kith_service::{
    presence::{self, Background, MembershipUpdate, PresenceDependencies, PresenceRpc},
    rpc::{batch::Limits, page_token::PageTokens},
};
use tokio::sync::mpsc;

use super::{Assembly, Domains, caches::cache_defaults};

/// Issues call tokens, and bounds calls.
pub(super) struct CallRules {
    pub(super) pages: PageTokens,
    pub(super) gateways: PageTokens,
    /// Shared with the other domains: all count a user's records together.
    pub(super) limits: Limits,
}

pub(super) fn presence(
    parts: Assembly<'_>,
    domains: &Domains,
    rules: CallRules,
    moved: mpsc::Receiver<MembershipUpdate>,
) -> (PresenceRpc, Background) {
    let Assembly { context, config, .. } = parts;
    let presences = match parts.cluster {
        Some(cluster) => cluster.presences().clone(),
        None => presence::in_memory(&config.presence),
    };
    let online = PresenceDependencies {
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
        node_id: parts.node_id,
        among: parts.among(),
        membership_updates: moved,
    };
    presence::build(online, &config.presence)
}
