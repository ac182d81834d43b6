//! All numbers that were given out, and what must hold for the next numbers.

use std::collections::BTreeSet;

use kith_store::{Seq, SeqRange};

#[derive(Debug, Default)]
pub(super) struct Truth {
    given: BTreeSet<Seq>,
    /// The highest number that each node has given out since it started.
    of_nodes: Vec<Seq>,
    /// Numbers that the store gave, and how they were offered.
    pub(super) taken: usize,
    pub(super) offered: usize,
}

/// The lower bounds for a call's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    node: usize,
    /// The highest number that the node had given out to calls that had ended.
    of_node: Seq,
    /// The highest number that any node had given out to calls that had ended.
    of_all: Seq,
}

impl Truth {
    pub(super) fn new(nodes: usize) -> Self {
        Self { of_nodes: vec![0; nodes], ..Self::default() }
    }

    pub(super) fn restarted(&mut self, node: usize) {
        self.of_nodes[node] = 0;
    }

    /// The highest number that this node has given out.
    pub(super) fn of_node(&self, node: usize) -> Seq {
        self.of_nodes[node]
    }

    pub(super) fn highest(&self) -> Seq {
        self.given.last().copied().unwrap_or(0)
    }

    /// The lowest number that no call got, though a higher number was issued.
    pub(super) fn gap(&self) -> Option<Seq> {
        (1..self.highest()).find(|number| !self.given.contains(number))
    }

    pub(super) fn floor(&self, node: usize) -> Floor {
        Floor { node, of_node: self.of_nodes[node], of_all: self.highest() }
    }

    /// Gives out what a call got, and returns what is wrong with it.
    pub(super) fn give(
        &mut self,
        floor: Floor,
        count: u32,
        above: Seq,
        ranges: &[SeqRange],
        is_calm: bool,
    ) -> Result<(), String> {
        let numbers: Vec<Seq> = ranges.iter().flat_map(|range| range.first..=range.last).collect();
        if numbers.len() != usize::try_from(count).unwrap() || !numbers.is_sorted_by(|one, other| one < other)
        {
            return Err(format!("{ranges:?} instead of {count} numbers"));
        }
        let least = if is_calm { floor.of_all } else { floor.of_node }.max(above);
        if numbers[0] <= least {
            return Err(format!("{ranges:?} is not above {least}; {floor:?}, above {above}"));
        }
        if let Some(twice) = numbers.iter().find(|number| !self.given.insert(**number)) {
            return Err(format!("{twice} was given out before"));
        }
        let last = &mut self.of_nodes[floor.node];
        *last = numbers[numbers.len() - 1].max(*last);
        Ok(())
    }
}
