//! Groups and their members, as configured.

use std::{num::NonZeroU32, sync::Arc};

use kith_service::{
    conversation::ConversationRecords,
    group::{
        GroupListener, GroupListeners, GroupRules, Groups, RenameListener, cache,
        members::{
            self, MemberDependencies, MemberRules, Members, MembershipListener, MembershipListeners, Roles,
        },
    },
    message::GroupEvents,
    rpc::secret::InviteCodes,
    user::{UserRules, Users},
};
use kith_store::StoreError;

use super::{Assembly, caches::cache_defaults, shared_key};
use crate::config::Config;

/// The listeners of changes of groups and members.
pub(super) struct MemberAndGroupListeners {
    /// Listeners of joins and leaves.
    pub(super) members: Vec<Arc<dyn MembershipListener>>,
    /// Listener of these and of new names, after the others.
    pub(super) events: Option<Arc<GroupEvents>>,
    /// Listener of other changes of groups.
    pub(super) changes: Arc<dyn GroupListener>,
}

/// The domains below groups.
pub(super) struct GroupDependencies {
    pub(super) users: Users,
    pub(super) roles: Roles,
    pub(super) conversations: ConversationRecords,
}

/// Roles in groups.
pub(super) fn roles(parts: Assembly<'_>, users: &Users) -> Roles {
    let policies = members::cache::policies(&cache_defaults(parts.config));
    Roles::new(parts.context, policies.members, policies.rosters, users)
}

pub(super) fn groups_and_members(
    parts: Assembly<'_>,
    dependencies: GroupDependencies,
    codes: InviteCodes,
    MemberAndGroupListeners { members: mut listeners, events, changes }: MemberAndGroupListeners,
) -> (Groups, Members) {
    let Assembly { context, config, .. } = parts;
    let GroupDependencies { users, roles, conversations } = dependencies;
    let renames = events.clone().map(|events| -> Arc<dyn RenameListener> { events });
    listeners.extend(events.map(|events| -> Arc<dyn MembershipListener> { events }));
    let listeners = MembershipListeners::new(listeners);
    let defaults = cache_defaults(config);
    let policies = members::cache::policies(&defaults);
    let (rules, changed) = (group_rules(config), GroupListeners { renames, changes });
    let groups = Groups::new(context, cache::policies(&defaults), roles.clone(), codes, rules, changed);
    let dependencies = MemberDependencies { roles, groups: groups.clone(), users, conversations };
    let members = Members::new(context, policies.lists, dependencies, listeners, member_rules(config));
    (groups, members)
}

/// Encrypted with the configured key, or with one in the store.
pub(super) async fn invite_codes(parts: Assembly<'_>) -> Result<InviteCodes, StoreError> {
    let key = match parts.config.secrets.invite_code_key_bytes() {
        Some(key) => key,
        None => shared_key(parts.context.stores, "invite_codes").await?,
    };
    Ok(InviteCodes::new(key))
}

/// Secrets of groups are bounded as those of users.
fn group_rules(config: &Config) -> GroupRules {
    let UserRules { secret_params, tries_per_minute, id_block, .. } = super::users::rules(config);
    let user_params = config.users.group_params.iter().cloned().collect();
    GroupRules { secret_params, user_params, tries_per_minute, id_block }
}

fn member_rules(config: &Config) -> MemberRules {
    let members = &config.members;
    MemberRules {
        members_max: members.members_max,
        bans_max: members.bans_max,
        code_tries_per_minute: NonZeroU32::new(members.code_tries_per_minute).unwrap_or(NonZeroU32::MIN),
        added_by_users: members.added_by_users,
    }
}
