//! Users that receive by several devices at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use super::{
    ALL_USERS, USERS,
    receiver::{DeviceMessages, Receiver},
};
use crate::history::ReceivedMessages;

/// How many devices each sender has. The other users have one device.
const DEVICES: usize = 3;
/// How long receivers may lack messages once nothing is wrong any more.
const COMPLETE_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// A run's receivers. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Receivers {
    all: Vec<Arc<Mutex<DeviceMessages>>>,
    tasks: Mutex<JoinSet<Result<()>>>,
}

impl Receivers {
    /// Starts them; each goes from node to node.
    pub(super) fn start(nodes: &[Channel], seed: u64) -> Self {
        let (mut all, mut tasks) = (Vec::new(), JoinSet::new());
        let senders = std::iter::repeat_n(1..=USERS, DEVICES).flatten();
        for (number, user) in senders.chain(USERS + 1..=ALL_USERS).enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let got = Arc::new(Mutex::new(DeviceMessages::of(number, user)));
            tasks.spawn(Receiver::new(nodes, Arc::clone(&got), seed.wrapping_add(number.into())).run());
            all.push(got);
        }
        Self { all, tasks: Mutex::new(tasks) }
    }

    /// Waits until each receiver has the messages up to these ends, or a time has passed. Returns what they
    /// got.
    ///
    /// # Errors
    /// The error from a receiver that cannot go on.
    pub(super) async fn until_complete(&self, ends: &BTreeMap<String, u64>) -> Result<Vec<ReceivedMessages>> {
        let until = Instant::now() + COMPLETE_WITHIN;
        while Instant::now() < until && self.all.iter().any(|got| got.lock().lacks(ends)) {
            if let Some(ended) = self.tasks.lock().try_join_next() {
                ended??;
            }
            sleep(POLL).await;
        }
        Ok(self.all.iter().flat_map(|got| got.lock().received().cloned().collect::<Vec<_>>()).collect())
    }
}
