//! When nodes restarted.

use std::collections::HashMap;

use crate::history::{Event, NodeStart};

/// When each node was restarted.
#[derive(Debug)]
pub(super) struct Restarts(HashMap<u32, Vec<u64>, ahash::RandomState>);

impl Restarts {
    pub(super) fn new(events: &[Event]) -> Self {
        let mut starts: HashMap<u32, Vec<u64>, ahash::RandomState> = HashMap::default();
        for event in events {
            if let Event::Started(NodeStart { node, at }) = event {
                starts.entry(*node).or_default().push(*at);
            }
        }
        starts.values_mut().for_each(|starts| starts.sort_unstable());
        Self(starts)
    }

    /// How often the node restarted until this time.
    pub(super) fn count_until(&self, node: u32, time: u64) -> usize {
        self.0.get(&node).map_or(0, |starts| starts.partition_point(|at| *at <= time))
    }
}
