//! Wakes within one process. A full channel drops the wake and reports an interruption, after which the
//! receivers read their inboxes again.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use kith_store::NodeName;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::inbox::{NodeWake, Wake, WakeEvent, WakeSubscription};

/// The subscriptions of all nodes.
#[derive(Default)]
pub(super) struct Channels(Mutex<HashMap<NodeName, Vec<Channel>>>);

struct Channel {
    wakes: mpsc::Sender<Wake>,
    is_interrupted: Arc<AtomicBool>,
}

/// The wakes of a node.
pub(super) struct MemorySubscription {
    wakes: mpsc::Receiver<Wake>,
    is_interrupted: Arc<AtomicBool>,
}

impl Channels {
    pub(super) fn subscribe(&self, node: &NodeName, waiting_max: usize) -> MemorySubscription {
        let (sender, wakes) = mpsc::channel(waiting_max.max(1));
        let is_interrupted = Arc::new(AtomicBool::new(true));
        let channel = Channel { wakes: sender, is_interrupted: Arc::clone(&is_interrupted) };
        self.0.lock().entry(node.clone()).or_default().push(channel);
        MemorySubscription { wakes, is_interrupted }
    }

    pub(super) fn publish(&self, wake: &NodeWake) {
        let mut nodes = self.0.lock();
        let Some(channels) = nodes.get_mut(&wake.node) else { return };
        channels.retain(|channel| channel.send(&wake.wake));
        if channels.is_empty() {
            nodes.remove(&wake.node);
        }
    }
}

impl Channel {
    /// Whether the subscription goes on.
    fn send(&self, wake: &Wake) -> bool {
        match self.wakes.try_send(wake.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.is_interrupted.store(true, Ordering::Release);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

#[async_trait]
impl WakeSubscription for MemorySubscription {
    async fn next(&mut self) -> WakeEvent {
        if self.is_interrupted.swap(false, Ordering::AcqRel) {
            return WakeEvent::Interrupted;
        }
        match self.wakes.recv().await {
            Some(wake) => WakeEvent::Wake(wake),
            // The inboxes are gone: there are no more.
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for MemorySubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemorySubscription")
    }
}
