//! Send times that do not fall: the last messages' times that this node appended.
//!
//! A machine's clock may be set back, and two nodes' clocks differ by a moment. A message then gets the time
//! of its conversation's last message, if that is at most a minute ahead. A last message that is further
//! ahead was sent by a wrong clock, and must not give its time to all that follow.

use std::{collections::HashMap, time::Duration};

use kith_store::{ConversationId, Timestamp};

/// How far ahead the last message may be.
pub(super) const AHEAD_MAX: Duration = Duration::from_secs(60);
/// The most conversations that are remembered. For others the node's clock decides alone.
const MOST: usize = 50_000;

/// The last messages' times.
#[derive(Debug, Default)]
pub(super) struct LastTimes(HashMap<ConversationId, Timestamp>);

impl LastTimes {
    /// The time for a message that is sent now, so that it does not fall behind the last message.
    pub(super) fn raised(&self, conversation: ConversationId, now: Timestamp) -> Timestamp {
        let last = self.0.get(&conversation).copied().filter(|last| *last <= now.after(AHEAD_MAX));
        last.map_or(now, |last| last.max(now))
    }

    /// Notes the time of the last message.
    pub(super) fn note(&mut self, conversation: ConversationId, last: Timestamp) {
        if self.0.len() >= MOST && !self.0.contains_key(&conversation) {
            // The others are too old to be ahead.
            self.0.retain(|_, sent| sent.after(AHEAD_MAX) > last);
        }
        if self.0.len() < MOST || self.0.contains_key(&conversation) {
            self.0.insert(conversation, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::sample::group, *};

    const NOW: i64 = 1_800_000_000_000;

    fn raised<const N: usize>(times: &mut LastTimes, id: i64, sent: [i64; N]) -> [i64; N] {
        sent.map(|sent| {
            let raised = times.raised(group(id), Timestamp(NOW + sent));
            times.note(group(id), raised);
            raised.0 - NOW
        })
    }

    #[test]
    fn clock_set_back_a_minute_keeps_the_last_time() {
        let mut times = LastTimes::default();
        assert_eq!(raised(&mut times, 9, [0]), [0]);
        assert_eq!(raised(&mut times, 9, [-60_000, -1, 5, 4]), [0, 0, 5, 5]);
        assert_eq!(raised(&mut times, 8, [-60_000]), [-60_000], "another conversation");
    }

    #[test]
    fn last_time_of_a_wrong_clock_is_not_kept() {
        let mut times = LastTimes::default();
        raised(&mut times, 9, [60 * 86_400_000]);
        assert_eq!(raised(&mut times, 9, [0, 1]), [0, 1]);
        raised(&mut times, 9, [60_002]);
        assert_eq!(raised(&mut times, 9, [1]), [1]);
    }

    #[test]
    fn imported_times_are_kept_and_hold_nothing_back() {
        let mut times = LastTimes::default();
        times.note(group(9), Timestamp(7));
        assert_eq!(raised(&mut times, 9, [0]), [0]);
    }

    #[test]
    fn last_times_are_bounded() {
        let mut times = LastTimes::default();
        let most = i64::try_from(MOST).unwrap();
        for id in 1..=most {
            raised(&mut times, id, [0]);
        }
        raised(&mut times, most + 1, [59_999]);
        assert_eq!(times.0.len(), MOST);
        raised(&mut times, most + 1, [60_000]);
        assert_eq!(times.0.len(), 1, "those that no clock can be behind are forgotten");
    }
}
