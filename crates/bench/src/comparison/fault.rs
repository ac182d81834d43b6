//! The comparison's faults, and the maximum read age that Kith promises under each. The bounds must agree
//! with docs/operate/coherence.md.

use std::time::Duration;

use anyhow::Result;
use kith_lab_servers::proxy::{Mode, Tampering};
use serde::{Deserialize, Serialize};

use super::{
    plan::{Schedule, Sizes},
    site::SchemeSite,
};

/// The maximum delay of a read from the store by default, and when loads are raced.
const STORE_LATE: Duration = Duration::from_millis(2);
const RACES_LATE: Duration = Duration::from_millis(30);
/// The read age that Kith promises without a fault: docs/operate/coherence.md.
const HEALTHY_BOUND: Duration = Duration::from_secs(1);
const FAULT_BOUND: Duration = Duration::from_secs(3);
const DEAD_WRITER_BOUND: Duration = Duration::from_secs(11);

/// The fault that affects a run's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// No fault happens.
    Nothing,
    /// No node has the records yet, and reads from the store are answered up to 30 ms after they were made:
    /// writes overtake loads.
    Races,
    /// All nodes but the first cannot subscribe: their subscriptions are reset, and so is each new attempt.
    SubscriptionCut,
    /// One message in a hundred does not reach a node.
    LostOneInHundred,
    /// One message in ten does not reach a node.
    LostOneInTen,
    /// Redis hangs: its connections stay open, nothing is answered.
    RedisFrozen,
    /// One write in ten is committed by a writer that dies before it publishes the change.
    WriterDies,
}

impl Fault {
    /// All faults, in the order in which they run.
    pub const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Races,
        Self::SubscriptionCut,
        Self::LostOneInHundred,
        Self::LostOneInTen,
        Self::RedisFrozen,
        Self::WriterDies,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no fault",
            Self::Races => "loads 0-30 ms late",
            Self::SubscriptionCut => "subscriptions cut",
            Self::LostOneInHundred => "1 % of messages lost",
            Self::LostOneInTen => "10 % of messages lost",
            Self::RedisFrozen => "Redis frozen",
            Self::WriterDies => "writers die at commit",
        }
    }

    /// The maximum age of a read from Kith during the fault and after it, as its documents promise.
    #[must_use]
    pub const fn bound(self) -> Duration {
        match self {
            Self::Nothing | Self::Races => HEALTHY_BOUND,
            Self::SubscriptionCut | Self::LostOneInHundred | Self::LostOneInTen | Self::RedisFrozen => {
                FAULT_BOUND
            }
            Self::WriterDies => DEAD_WRITER_BOUND,
        }
    }

    /// How long it lasts: longer for cut or hung connections.
    pub(super) const fn lasts(self, sizes: &Sizes) -> Duration {
        match self {
            Self::SubscriptionCut | Self::RedisFrozen => sizes.outage,
            _ => sizes.fault,
        }
    }

    /// The maximum delay of a read from the store.
    pub(super) const fn late(self) -> Duration {
        match self {
            Self::Races => RACES_LATE,
            _ => STORE_LATE,
        }
    }

    pub(super) const fn schedule(self) -> Schedule {
        match self {
            Self::Races => Schedule::Cold,
            Self::WriterDies => Schedule::Dying,
            _ => Schedule::Warm,
        }
    }

    pub(super) fn begin(self, site: &SchemeSite) -> Result<()> {
        match self {
            Self::SubscriptionCut => {
                site.links[1..].iter().for_each(|link| link.set_subscriptions(Mode::Refuse))
            }
            Self::LostOneInHundred => site.links.iter().for_each(|link| link.tamper(Tampering::Lose(100))),
            Self::LostOneInTen => site.links.iter().for_each(|link| link.tamper(Tampering::Lose(10))),
            Self::RedisFrozen => site.redis.pause()?,
            // The store and the writers implement these faults.
            Self::Nothing | Self::Races | Self::WriterDies => {}
        }
        Ok(())
    }

    pub(super) fn end(self, site: &SchemeSite) -> Result<()> {
        for link in &site.links {
            link.set_subscriptions(Mode::Pass);
            link.tamper(Tampering::Nothing);
        }
        if self == Self::RedisFrozen {
            site.redis.resume()?;
        }
        Ok(())
    }
}
