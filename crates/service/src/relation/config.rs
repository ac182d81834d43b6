//! The configuration of relations, with its defaults.

use std::time::Duration;

use kith_store::Permissions;
use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, all_hold};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Follows, friends and blocks.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelationsConfig {
    /// Whether following needs consent.
    pub mode: RelationMode,
    /// Which acting users may list or count the followed users, fans and friends of a user. Services may
    /// always.
    pub lists: ListReaders,
    /// Maximum friends of a user in friend mode. Above 0.
    pub friends_max: u64,
    /// How long after its end a new follow of the same user gets its former position in lists; clocks of
    /// nodes must differ by less. Not below 5min.
    #[serde(skip)]
    pub place_kept: Duration,
    /// What others may do if a user has set nothing: a sum of 1 (view posts), 2 (see the location), 4 (like),
    /// 8 (comment), 16 (share) and 32 (ask to be a friend).
    pub default_permissions: u32,
    /// How long events of ended friendships and changed permissions are kept.
    #[serde(skip)]
    pub log_kept: Duration,
}

impl Default for RelationsConfig {
    fn default() -> Self {
        Self {
            mode: RelationMode::Community,
            lists: ListReaders::Everyone,
            friends_max: 2_000,
            place_kept: Duration::from_secs(60 * 60),
            default_permissions: u32::from(Permissions::ALL.bits()),
            log_kept: 180 * DAY,
        }
    }
}

/// Whether following needs consent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationMode {
    /// Users follow without consent.
    #[default]
    Community,
    /// A service writes both sides of a friendship, after consent
    Friend,
}

/// Which acting users may read the follow lists of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListReaders {
    /// Every user may do it.
    #[default]
    Everyone,
    /// The user and its friends, unless one has blocked the other.
    Friends,
    /// The user alone.
    Own,
}

impl RelationsConfig {
    /// Checks each value, and their combination.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let permissions = Permissions::new(self.default_permissions);
        all_hold(&[
            ("relations.default_permissions", permissions.is_ok(), "must be a sum of 1, 2, 4, 8, 16 and 32"),
            ("relations.friends_max", self.friends_max > 0, "must be above 0"),
        ])
    }
}
