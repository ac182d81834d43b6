//! Groups and their members, as configured.

use std::{num::NonZeroU32, sync::Arc};

use kith_service::{
    conversation::ConversationRecords,
    group::{
        GroupListener, GroupListeners, GroupRules, Groups, RenameListener, cache,
        member::{
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

/// The listeners for changes to groups and members.
pub(super) struct MemberAndGroupListeners {
    /// Listeners for joins and leaves.
    pub(super) members: Vec<Arc<dyn MembershipListener>>,
    /// Listens to joins and leaves and to new names, after the others.
    pub(super) events: Option<Arc<GroupEvents>>,
    /// Listens to other group changes.
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
    let policies = member::cache::policies(&cache_defaults(parts.config));
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
    let policies = member::cache::policies(&defaults);
    let (rules, changed) = (group_rules(config), GroupListeners { renames, changes });
    let groups = Groups::new(context, cache::policies(&defaults), roles.clone(), codes, rules, changed);
    let dependencies = MemberDependencies { roles, groups: groups.clone(), users, conversations };
    let members = Members::new(context, policies.lists, dependencies, listeners, member_rules(config));
    (groups, members)
}

/// Encrypts invite codes with the configured key, or with a key in the store.
pub(super) async fn invite_codes(parts: Assembly<'_>) -> Result<InviteCodes, StoreError> {
    let key = match parts.config.secrets.invite_code_key_bytes() {
        Some(key) => key,
        None => shared_key(parts.context.stores, "invite_codes").await?,
    };
    Ok(InviteCodes::new(key))
}

/// Group secrets have the bounds for users' secrets.
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
