//! Reader ordinals that a node has reserved.

use std::{collections::HashMap, ops::Range};

use kith_store::AudienceId;
use parking_lot::Mutex;

/// Ordinals that this node has taken and not used, by audience.
#[derive(Debug, Default)]
pub(in crate::mongo) struct ReservedOrdinals(Mutex<HashMap<AudienceId, Range<i64>>>);

impl ReservedOrdinals {
    /// Up to `most` that are left.
    pub(super) fn take(&self, audience: AudienceId, most: usize) -> Vec<i64> {
        let mut left = self.0.lock();
        left.get_mut(&audience).map_or_else(Vec::new, |range| range.take(most).collect())
    }

    pub(super) fn keep(&self, audience: AudienceId, rest: Range<i64>) {
        if !rest.is_empty() {
            self.0.lock().insert(audience, rest);
        }
    }
}
