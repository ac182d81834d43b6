//! Keeps a node's last samples for its sparklines.

use std::collections::VecDeque;

use super::sample::Sample;

/// How many samples are kept.
pub(super) const SAMPLES: usize = 60;

/// The last [`SAMPLES`] values that are drawn over time, the oldest first. `None`: the node did not answer,
/// or has no such value.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    calls: VecDeque<Option<f64>>,
    lag: VecDeque<Option<f64>>,
}

impl History {
    /// Adds a node's message, or `None` if it does not answer. The oldest sample is dropped.
    #[expect(clippy::cast_precision_loss, reason = "drawn a few cells high")]
    pub(super) fn add(&mut self, sample: Option<&Sample>) {
        push(&mut self.calls, sample.map(|sample| sample.calls.calls_per_second));
        push(&mut self.lag, sample.and_then(|sample| sample.entries_behind).map(|lag| lag as f64));
    }

    /// Returns the calls in a second.
    pub(super) const fn calls(&self) -> &VecDeque<Option<f64>> {
        &self.calls
    }

    /// How many of other nodes' changes were known and not applied.
    pub(super) const fn lag(&self) -> &VecDeque<Option<f64>> {
        &self.lag
    }
}

fn push(values: &mut VecDeque<Option<f64>>, value: Option<f64>) {
    if values.len() == SAMPLES {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_60_samples_are_kept_with_gaps() {
        let mut history = History::default();
        for lag in 0..100 {
            history.add(Some(&Sample { entries_behind: Some(lag), ..Sample::default() }));
        }
        history.add(None);
        let lag: Vec<_> = history.lag().iter().copied().collect();
        assert_eq!((lag.len(), lag[0], lag[58], lag[59]), (SAMPLES, Some(41.0), Some(99.0), None));
        assert_eq!(history.calls().back(), Some(&None));
    }
}
