//! A thread of its own for a node that follows the log.

use std::io;

use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

use super::ClusterNode;

const NAME: &str = "kith-follow";

/// Follows the log on a thread of its own, so that the proof that memory may be trusted does not wait behind
/// the calls of the node: without it a node with too much to do asks the store for everything, and has still
/// more to do. The system lets a thread that mostly sleeps run soon. Following ends with this.
#[derive(Debug)]
pub struct FollowerThread {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    follows: JoinHandle<()>,
}

impl FollowerThread {
    /// Begins to follow. Connections to the shared server that following needs are begun on this thread, too.
    ///
    /// # Errors
    /// If the system has no room for a thread.
    pub fn start(member: ClusterNode) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name(NAME).enable_all().build()?;
        let follows = runtime.spawn(async move { member.follow().await });
        Ok(Self { runtime: Some(runtime), follows })
    }

    /// Ends it. When this returns, nothing of it runs.
    pub async fn end(mut self) {
        self.follows.abort();
        // It was ended, or has panicked.
        drop((&mut self.follows).await);
    }
}

impl Drop for FollowerThread {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for it could block a runtime.
            runtime.shutdown_background();
        }
    }
}
