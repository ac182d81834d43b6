//! The configuration of members of groups, and its defaults.

use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, above_zero};

/// Members of groups.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MembersConfig {
    /// Maximum members of a group. Above 0.
    pub members_max: u32,
    /// Maximum banned users of a group.
    #[serde(skip)]
    pub bans_max: u32,
    /// Tries of one group's code by a user in a minute.
    #[serde(skip)]
    pub code_tries_per_minute: u32,
    /// Whom AddMembers by a user adds.
    pub added_by_users: AddedByUsers,
}

/// Whom a user may add to its groups without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedByUsers {
    /// Its friends. All others are invited.
    #[default]
    Friends,
    /// Every user, also one who has blocked it.
    Everybody,
}

impl Default for MembersConfig {
    fn default() -> Self {
        Self {
            members_max: 100_000,
            bans_max: 10_000,
            code_tries_per_minute: 5,
            added_by_users: AddedByUsers::Friends,
        }
    }
}

impl MembersConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        above_zero(&[("members.members_max", self.members_max == 0)])
    }
}
