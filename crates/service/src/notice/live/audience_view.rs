//! An audience at a moment.

use std::sync::Arc;

use kith_store::{Audience, Timestamp};

/// An audience, and which of its notices' times have passed.
#[derive(Clone, Debug)]
pub(super) struct AudienceView {
    pub(super) audience: Arc<Audience>,
    pub(super) now: Timestamp,
    /// The last publish or expire time that has passed.
    pub(super) last_time: Timestamp,
    /// The first time that has not passed.
    next_time: Option<Timestamp>,
}

impl AudienceView {
    pub(super) fn new(audience: Arc<Audience>, now: Timestamp) -> Self {
        let times =
            || audience.entries.iter().flat_map(|entry| [Some(entry.publish), entry.expire]).flatten();
        let last_time = times().filter(|time| *time <= now).max().unwrap_or_default();
        let next_time = times().filter(|time| *time > now).min();
        Self { audience, now, last_time, next_time }
    }

    /// Advances to a later time. A copy older than the present is ignored. No cost if nothing has changed.
    pub(super) fn update(&mut self, audience: &Arc<Audience>, now: Timestamp) {
        let is_newer = audience.version > self.audience.version;
        let is_due = now < self.last_time || self.next_time.is_some_and(|time| time <= now);
        if is_newer {
            *self = Self::new(Arc::clone(audience), now);
        } else if is_due {
            *self = Self::new(Arc::clone(&self.audience), now);
        }
        self.now = now;
    }
}
