//! How far copies have been compared.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Tier, Version, remote::Header};

/// How long a copy may be older than its original, because the change may be in transit: see the table in
/// docs/operate/coherence.md. The writer may be another node that is cut off or dead, which this node does
/// not know.
const BOUND: Duration = Duration::from_secs(11);
/// Most copies that wait to be compared again. A later round finds the others again.
pub(crate) const SUSPECTS_MAX: usize = 1_000;

/// The rounds of one namespace.
#[derive(Debug)]
pub(crate) struct ResyncRounds<K>(pub(crate) Mutex<RoundState<K>>);

#[derive(Debug)]
pub(crate) struct RoundState<K> {
    pub(crate) left: Vec<(Arc<K>, Version)>,
    /// How long it took to find the copies of the round.
    pub(crate) walked_for: Duration,
    pub(crate) suspects: Vec<SuspectCopy<K>>,
    /// Copies of the shared tier that have an age limit.
    pub(crate) aging: Vec<AgingCopy<K>>,
}

/// A copy in the shared tier that must be gone or replaced before it is looked at again. Its value may be
/// right or wrong: changes to such records are not broadcast, so that its age alone bounds how wrong it is.
#[derive(Clone, Debug)]
pub(crate) struct AgingCopy<K> {
    pub(crate) key: K,
    pub(crate) head: Header,
    pub(crate) since: Instant,
}

/// A copy with a known newer version.
#[derive(Clone, Debug)]
pub(crate) struct SuspectCopy<K> {
    pub(crate) key: K,
    pub(crate) tier: Tier,
    pub(crate) version: Version,
    pub(crate) since: Instant,
}

impl<K> Default for ResyncRounds<K> {
    fn default() -> Self {
        let (left, suspects, aging) = (Vec::new(), Vec::new(), Vec::new());
        Self(Mutex::new(RoundState { left, walked_for: Duration::ZERO, suspects, aging }))
    }
}

impl<K> SuspectCopy<K> {
    /// Whether the time has passed for which it may be wrong. `age_max`: the longest age of a copy; changes
    /// to such records are not broadcast, so that every copy may be wrong for that time. `connected_for`:
    /// time before this node was connected does not count.
    pub(crate) fn is_due(&self, age_max: Option<Duration>, connected_for: Duration) -> bool {
        self.since.elapsed().min(connected_for) >= age_max.unwrap_or_default().max(BOUND)
    }
}
