//! A copy in memory.

use std::{sync::Arc, time::Duration};

use crate::{Entry, Moment, Policy, Tier, Version, api::clock::milliseconds, testing::rules};

/// [`Slot::ttl`] if the copy does not expire, and [`Slot::refresh`] if no hit refreshes it.
pub(crate) const NEVER: u32 = u32::MAX;

/// A copy in memory. `value` is `None` if the record is known not to exist.
///
/// Stored inline with its key, so it is small: 40 bytes, 32 more than an `Arc`.
#[derive(Debug)]
pub(crate) struct Slot<V> {
    pub(crate) value: Option<Arc<V>>,
    pub(crate) version: Version,
    /// When the load that brought it began.
    pub(crate) read_at: Moment,
    /// Milliseconds after `read_at` at which it expires, or [`NEVER`].
    pub(crate) ttl: u32,
    /// Milliseconds after `read_at` at which a hit refreshes it, or [`NEVER`].
    pub(crate) refresh: u32,
    /// Its weight, by [`Policy::weigh`].
    pub(crate) size: u32,
    /// Count of flushes when it was loaded; at any other count it is unreachable.
    pub(crate) flush: u32,
}

impl<V> Clone for Slot<V> {
    #[inline]
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), ..*self }
    }
}

impl<V> Slot<V> {
    #[inline]
    pub(crate) fn expires_at(&self) -> Moment {
        if self.ttl == NEVER { Moment::NEVER } else { Moment::new(self.read_at.get() + u64::from(self.ttl)) }
    }

    #[inline]
    pub(crate) fn wants_refresh(&self, now: Moment) -> bool {
        self.refresh != NEVER && now.get() >= self.read_at.get() + u64::from(self.refresh)
    }

    /// The entry to serve; `None` for absence.
    #[inline]
    pub(crate) fn into_entry(self, now: Moment, stale: bool) -> Option<Entry<V>> {
        let age = now.since(self.read_at);
        self.value.map(|value| Entry { value, version: self.version, tier: Tier::Memory, age, stale })
    }

    /// Whether it is newer than a copy of this version and read time, and must not be replaced by it.
    pub(crate) fn is_newer_than(&self, version: Version, read_at: Moment) -> bool {
        (self.version, self.read_at) > (version, read_at)
    }
}

/// The TTL in milliseconds, reduced at random by up to the part `jitter`; [`NEVER`] if copies do not expire.
pub(crate) fn jittered(ttl: Duration, jitter: f64, chance: f64) -> u32 {
    if ttl == Policy::<()>::UNTIL_CHANGED {
        return NEVER;
    }
    let part = jitter.clamp(0.0, 1.0) * chance;
    let factor = if rules::jitter_downward() { 1.0 - part } else { 1.0 + part };
    u32::try_from(milliseconds(ttl.mul_f64(factor))).unwrap_or(NEVER - 1)
}

/// Milliseconds after which a hit refreshes the copy, for this part of the TTL; or [`NEVER`].
pub(crate) fn refresh_after(ttl: u32, part: f64) -> u32 {
    if part >= 1.0 || ttl == NEVER {
        return NEVER;
    }
    let time = Duration::from_millis(u64::from(ttl)).mul_f64(part.max(0.0));
    u32::try_from(milliseconds(time)).unwrap_or(NEVER)
}
