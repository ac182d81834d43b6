//! Users, as configured.

use std::{collections::BTreeSet, num::NonZeroU32};

use kith_service::user::{Deletions, UserRules, Users, cache};

use super::{Assembly, caches::cache_defaults};
use crate::config::Config;

pub(super) fn users(parts: Assembly<'_>, deletions: Deletions) -> Users {
    let policies = cache::policies(&cache_defaults(parts.config));
    Users::new(parts.context, policies, deletions, rules(parts.config))
}

pub(super) fn rules(config: &Config) -> UserRules {
    let users = &config.users;
    UserRules {
        reserved_names: users.reserved_names.clone(),
        name_kept: users.name_kept,
        secret_params: users.secret_params.iter().cloned().collect::<BTreeSet<_>>(),
        user_params: users.user_params.iter().cloned().collect(),
        tries_per_minute: NonZeroU32::new(users.verify_tries_per_minute).unwrap_or(NonZeroU32::MIN),
        id_block: config.ids.block,
    }
}
