//! What is configured about members of groups, with its defaults.

use serde::{Deserialize, Serialize};

use super::{
    Config,
    wrong::{Wrong, wrong},
};

/// Members of groups.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MembersConfig {
    /// Most members of a group. Above 0.
    pub members_max: u32,
    /// How often a user may try the code of one group in a minute. Above 0.
    pub code_tries_per_minute: u32,
}

impl Default for MembersConfig {
    fn default() -> Self {
        Self { members_max: 100_000, code_tries_per_minute: 5 }
    }
}

pub(super) fn check(config: &Config) -> Result<(), Wrong> {
    if config.members.members_max == 0 {
        return wrong("members.members_max", "must be above 0");
    }
    if config.members.code_tries_per_minute == 0 {
        return wrong("members.code_tries_per_minute", "must be above 0");
    }
    Ok(())
}
