//! Follows and blocks, as configured.

use std::sync::Arc;

use kith_service::{
    application::ApplicationCloser,
    message::Notes,
    relation::{Blocks, FollowListeners, Follows, RelationRules, cache},
    user::Users,
};
use kith_store::Permissions;

use super::{Assembly, caches::cache_defaults};
use crate::config::Config;

pub(super) fn blocks(parts: Assembly<'_>, notes: &Notes) -> Blocks {
    let policies = cache::policies(&cache_defaults(parts.config));
    let default = rules(parts.config).default_permissions;
    Blocks::new(parts.context, policies.blocks, policies.block_lists, default, Arc::new(notes.clone()))
}

pub(super) fn follows(
    parts: Assembly<'_>,
    users: &Users,
    requests: &ApplicationCloser,
    notes: &Notes,
) -> Follows {
    let (rules, policies) = (rules(parts.config), cache::policies(&cache_defaults(parts.config)));
    let (records, lists) = (policies.follows, policies.follow_lists);
    let listeners =
        FollowListeners { requests: Arc::new(requests.clone()), follows: Arc::new(notes.clone()) };
    Follows::new(parts.context, records, lists, users.clone(), listeners, rules)
}

fn rules(config: &Config) -> RelationRules {
    let relations = &config.relations;
    RelationRules {
        mode: relations.mode,
        list_readers: relations.lists,
        friends_max: relations.friends_max,
        place_kept: relations.place_kept,
        default_permissions: Permissions::new(relations.default_permissions).unwrap_or(Permissions::ALL),
    }
}
