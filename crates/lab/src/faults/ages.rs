//! The age that answers have.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// For each user, the acknowledged versions with their times. Grows with every write.
#[derive(Debug, Default)]
pub(crate) struct AcknowledgedVersions(Mutex<HashMap<i64, Vec<(i64, Instant)>>>);

impl AcknowledgedVersions {
    /// A write has just been acknowledged.
    pub(crate) fn written(&self, user_id: i64, version: i64) {
        self.0.lock().entry(user_id).or_default().push((version, Instant::now()));
    }

    /// How long a newer version had been acknowledged when the request was sent; zero: no newer version.
    pub(crate) fn age(&self, user_id: i64, version: i64, asked: Instant) -> Duration {
        let written = self.0.lock();
        let newer = written.get(&user_id).into_iter().flatten().filter(|(newer, _)| *newer > version);
        let first = newer.map(|(_, acknowledged)| *acknowledged).min();
        first.map_or(Duration::ZERO, |acknowledged| asked.saturating_duration_since(acknowledged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_as_old_as_first_write_it_lacks() {
        let (ages, began) = (AcknowledgedVersions::default(), Instant::now());
        let at = |millis| began + Duration::from_millis(millis);
        ages.0.lock().insert(7, vec![(2, at(100)), (3, at(200))]);
        let age = |version, asked| ages.age(7, version, at(asked)).as_millis();
        assert_eq!((age(1, 250), age(2, 250), age(3, 250), age(1, 50)), (150, 50, 0, 0));
    }
}
