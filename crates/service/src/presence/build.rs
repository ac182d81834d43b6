//! Creates the parts that make up presence.

use std::{sync::Arc, time::Duration};

use kith_cache::Policy;
use kith_presence::{Distribution, MemoryPresence, PresenceLimits, Presences};
use kith_store::Coordination;
use tokio::sync::mpsc;

use super::{
    Background, PresenceConfig, PresenceRpc,
    active::Active,
    active_members::ActiveMembers,
    background::BackgroundParts,
    fan_out::FanOut,
    gateways::KnownGateways,
    hub::PresenceHub,
    membership_listener::MembershipUpdate,
    node_sessions::NodeSessions,
    recovery::SessionRecovery,
    sessions::{SessionRules, Sessions},
    sweep::Sweep,
    visibility::Visibility,
    watch_places::WatchPlaces,
};
use crate::{
    group::member::Members,
    relation::{Blocks, Follows},
    rpc::{batch::Limits, page_token::PageTokens},
    user::Users,
    write::caches::CacheFactory,
};

/// How long versions are kept for users who went offline: longer than a node may use an earlier read.
const KEPT: Duration = Duration::from_secs(3600);
/// When a user who closed a session is checked again: by then its groups were notified, or will not be.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The dependencies of presence.
#[derive(Debug)]
pub struct PresenceDependencies<'a> {
    /// The presence storage.
    pub stores: Presences,
    /// This node's caches.
    pub caches: &'a CacheFactory,
    /// The policy for copies of groups' active members.
    pub policy: Policy<Distribution>,
    /// The user accounts.
    pub users: Users,
    /// The group members.
    pub members: Members,
    /// The follow lists and records.
    pub follows: Follows,
    /// The block lists and records.
    pub blocks: Blocks,
    /// Issues page tokens.
    pub page_tokens: PageTokens,
    /// Issues gateway tokens.
    pub gateway_tokens: PageTokens,
    /// The limits for batches and pages.
    pub limits: Limits,
    /// Leases between nodes.
    pub coordination: Arc<dyn Coordination>,
    /// This node's id.
    pub node_id: &'a str,
    /// The node's id, if there are other nodes.
    pub among: Option<&'a str>,
    /// Group joins and leaves.
    pub membership_updates: mpsc::Receiver<MembershipUpdate>,
}

/// The limits for the presence storage.
pub const fn limits(config: &PresenceConfig) -> PresenceLimits {
    PresenceLimits {
        sessions_max: config.sessions_max,
        gateways_max: config.gateways_max,
        kept: KEPT,
        recheck_after: LOOK_AGAIN,
    }
}

/// Presence in single-node mode.
pub fn in_memory(config: &PresenceConfig) -> Presences {
    MemoryPresence::new(limits(config)).presences()
}

/// The service, and its background tasks.
pub fn build(deps: PresenceDependencies<'_>, config: &PresenceConfig) -> (PresenceRpc, Background) {
    let active = Active::new(&deps.stores.active, deps.caches, deps.policy);
    let fan_out =
        FanOut::new(deps.stores.clone(), active.clone(), deps.members.clone(), config.fan_outs_at_once);
    let sweep = Sweep::new(fan_out.clone(), &deps.coordination, deps.among, config.sweep_every);
    let visibility = Visibility::new(deps.follows, deps.blocks);
    let sessions = Sessions {
        stores: deps.stores,
        gateways: Arc::new(KnownGateways::default()),
        recovery: Arc::new(SessionRecovery::new(config.sessions_held)),
        fan_out,
        users: deps.users,
        visibility,
        tokens: deps.gateway_tokens,
        rules: rules(config),
    };
    let places = WatchPlaces::new(config.watchers, config.watchers_of_user);
    let hub = Arc::new(PresenceHub::new(places, config.watch_behind));
    let background = BackgroundParts {
        node_sessions: NodeSessions::new(sessions.clone(), deps.node_id),
        sessions: sessions.clone(),
        hub: Arc::clone(&hub),
        look_every: config.look_every,
        sweep_every: config.sweep_every,
    };
    let active_members = ActiveMembers { active, members: deps.members, sessions: sessions.clone() };
    let rpc = PresenceRpc { sessions, active_members, hub, pages: deps.page_tokens, limits: deps.limits };
    (rpc, Background::new(background, sweep, deps.membership_updates))
}

const fn rules(config: &PresenceConfig) -> SessionRules {
    SessionRules {
        session_ttl: config.session_ttl,
        gateway_ttl: config.gateway_ttl,
        unknown_for: config.unknown_for,
        fan_out_wait: config.fan_out_wait,
        visibility_every: config.visibility_every,
    }
}
