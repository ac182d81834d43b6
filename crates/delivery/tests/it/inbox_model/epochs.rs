//! The epoch of the world, and where each node is.

use std::sync::Arc;

use async_trait::async_trait;
use kith_delivery::EpochSource;
use kith_store::Epoch;
use parking_lot::Mutex;

#[derive(Debug)]
pub(super) struct Epochs {
    pub(super) server: String,
    /// The present one, and that of each node.
    numbers: Mutex<(u64, Vec<u64>)>,
    /// Every epoch counts as settled.
    is_unsettled: bool,
}

/// The epoch as one node knows it.
#[derive(Debug)]
pub(super) struct EpochOf {
    pub(super) epochs: Arc<Epochs>,
    pub(super) node: usize,
}

impl Epochs {
    pub(super) fn new(server: String, nodes: usize, is_unsettled: bool) -> Self {
        Self { server, numbers: Mutex::new((1, vec![1; nodes])), is_unsettled }
    }

    pub(super) fn present(&self) -> u64 {
        self.numbers.lock().0
    }

    /// A new epoch begins, if every node follows the present one. No node follows it yet.
    pub(super) fn raise(&self) -> bool {
        let mut numbers = self.numbers.lock();
        let (present, nodes) = &mut *numbers;
        let are_one = nodes.iter().all(|node| node == present);
        *present += u64::from(are_one);
        are_one
    }

    /// The node follows the present epoch.
    pub(super) fn move_node(&self, node: usize) {
        let mut numbers = self.numbers.lock();
        numbers.1[node] = numbers.0;
    }
}

#[async_trait]
impl EpochSource for EpochOf {
    fn followed(&self) -> Option<Epoch> {
        let number = self.epochs.numbers.lock().1[self.node];
        Some(Epoch { number, server: self.epochs.server.clone() })
    }

    async fn settled(&self) -> Option<u64> {
        let numbers = self.epochs.numbers.lock();
        let (present, nodes) = &*numbers;
        let is_settled = self.epochs.is_unsettled || nodes.iter().all(|node| node == present);
        is_settled.then_some(*present)
    }
}
