//! An audience at a moment.

use std::sync::Arc;

use kith_store::{Audience, Timestamp};

/// An audience, and which of the times of its notices have passed.
#[derive(Clone, Debug)]
pub(super) struct AudienceView {
    pub(super) audience: Arc<Audience>,
    pub(super) now: Timestamp,
    /// The last publish or expire time that has passed.
    pub(super) turned: Timestamp,
    /// The first one that has not.
    turns: Option<Timestamp>,
}

impl AudienceView {
    pub(super) fn new(audience: Arc<Audience>, now: Timestamp) -> Self {
        let times =
            || audience.entries.iter().flat_map(|entry| [Some(entry.publish), entry.expire]).flatten();
        let turned = times().filter(|time| *time <= now).max().unwrap_or_default();
        let turns = times().filter(|time| *time > now).min();
        Self { audience, now, turned, turns }
    }

    /// Advances to a later time. An older copy than the present one is ignored. No cost if nothing has changed.
    pub(super) fn update(&mut self, audience: &Arc<Audience>, now: Timestamp) {
        let is_newer = audience.version > self.audience.version;
        let has_turned = now < self.turned || self.turns.is_some_and(|turns| turns <= now);
        if is_newer {
            *self = Self::new(Arc::clone(audience), now);
        } else if has_turned {
            *self = Self::new(Arc::clone(&self.audience), now);
        }
        self.now = now;
    }
}
