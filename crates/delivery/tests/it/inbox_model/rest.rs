//! Checks what must hold once nothing moves any more.

use rand::Rng as _;

use super::{
    receiver::ReceiverState,
    world::{NODES, World},
};

/// The most steps by all receivers until nothing changes.
const ROUNDS: usize = 200;

impl World<'_> {
    /// Makes what is left to be made, and lets each receiver read on until there is no more.
    ///
    /// # Errors
    /// When a client gets a wrong message, or does not have them all.
    pub(super) async fn rest(&mut self) -> Result<(), String> {
        self.trace.push("rest".to_owned());
        for late in std::mem::take(&mut self.late) {
            self.make(late).await;
        }
        (0..NODES).for_each(|node| self.epochs.move_node(node));
        // Notes that unfinished fan-outs left are resumed. Successful fan-outs have left none.
        for fan in std::mem::take(&mut self.fans) {
            self.logs[fan.log].is_owed = true;
        }
        self.repeat_owed().await;
        if !self.is_calm && self.rng.random_bool(0.5) {
            self.lose().await;
        }
        for _ in 0..ROUNDS {
            let before = format!("{:?}", self.receivers);
            for at in 0..self.receivers.len() {
                self.go_on(at).await?;
            }
            let are_live =
                self.receivers.iter().all(|receiver| matches!(receiver.state, ReceiverState::Live(_)));
            if are_live && before == format!("{:?}", self.receivers) {
                return self.is_complete();
            }
        }
        Err("the receivers do not come to rest".to_owned())
    }

    fn is_complete(&self) -> Result<(), String> {
        for (at, receiver) in self.receivers.iter().enumerate() {
            for log in self.logs.iter().filter(|log| log.end > 0) {
                let have = receiver.have.get(&log.id).copied().unwrap_or(0);
                if have != log.end {
                    return Err(format!("client {at} has {have} of {}, which ends at {}", log.id, log.end));
                }
            }
        }
        Ok(())
    }
}
