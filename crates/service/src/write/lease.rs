//! Work that only one node does at a time.

use std::{sync::Arc, time::Duration};

use kith_store::{Coordination, StoreError};
use tokio::time::Instant;

/// The lease's holder if there are no other nodes.
const ALONE: &str = "alone";

/// A lease as this node sees it. While it lasts, two nodes may both believe that they hold it: a lease only
/// spares work.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    coordination: Arc<dyn Coordination>,
    name: &'static str,
    /// This node's id, where there are others.
    node_id: Option<String>,
    lasts: Duration,
    /// When it was last asked for and given.
    held: Option<Instant>,
    turn: u64,
}

impl Lease {
    /// Creates a lease that is not held yet. `node_id`: this node's id, where there are others.
    pub(crate) fn new(
        coordination: &Arc<dyn Coordination>,
        name: &'static str,
        node_id: Option<&str>,
        lasts: Duration,
    ) -> Self {
        let (coordination, node_id) = (Arc::clone(coordination), node_id.map(str::to_owned));
        Self { coordination, name, node_id, lasts, held: None, turn: 0 }
    }

    /// Whether the work is this node's part, as it is where there are no others. The store is asked again
    /// when a fifth of the lease's time has passed.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) async fn is_held(&mut self) -> Result<bool, StoreError> {
        let Some(node) = &self.node_id else { return Ok(true) };
        if self.held.is_some_and(|held| held.elapsed() < self.lasts / 5) {
            return Ok(true);
        }
        let asked = Instant::now();
        let was_held = self.held.take().is_some();
        let held = self.coordination.lease(self.name, node, self.lasts).await?;
        self.held = held.then_some(asked);
        self.turn += u64::from(held && !was_held);
        Ok(held)
    }

    /// How many times this node got the lease, without renewals. In another turn, others may have had it.
    pub(crate) const fn turn(&self) -> u64 {
        self.turn
    }

    /// The mark that is stored with the lease, for its next holder.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) async fn mark(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.coordination.mark(self.name).await
    }

    /// Stores a mark with the lease; `false` when another node has it.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) async fn set_mark(&self, mark: &[u8]) -> Result<bool, StoreError> {
        if self.node_id.is_none() && !self.coordination.lease(self.name, ALONE, self.lasts).await? {
            return Ok(false);
        }
        self.coordination.set_mark(self.name, self.node_id.as_deref().unwrap_or(ALONE), mark).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::OneLease;

    fn lease(store: &Arc<OneLease>, node_id: Option<&str>) -> Lease {
        let store: Arc<dyn Coordination> = Arc::<OneLease>::clone(store);
        Lease::new(&store, "work", node_id, Duration::from_secs(10))
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_holds_the_lease_and_renews_it_early() {
        let store = Arc::new(OneLease::default());
        let (mut a, mut b) = (lease(&store, Some("a")), lease(&store, Some("b")));
        for _ in 0..3 {
            assert_eq!((a.is_held().await.unwrap(), a.set_mark(b"").await.unwrap()), (true, true));
        }
        assert_eq!((store.0.lock().1, a.turn()), (1, 1));
        assert_eq!((b.is_held().await.unwrap(), b.set_mark(b"").await.unwrap()), (false, false));
        tokio::time::advance(Duration::from_secs(2)).await;
        store.release("work", "a").await.unwrap();
        assert!(b.is_held().await.unwrap());
        assert!(!a.is_held().await.unwrap(), "it was given to another one meanwhile");
        store.release("work", "b").await.unwrap();
        assert_eq!((a.is_held().await.unwrap(), a.turn()), (true, 2));
    }

    #[tokio::test]
    async fn lease_is_unknown_while_the_store_is_away() {
        let mut cut = lease(&Arc::default(), Some("cut"));
        assert!(cut.is_held().await.is_err());
    }

    #[tokio::test]
    async fn single_node_asks_only_to_leave_a_mark() {
        let store = Arc::new(OneLease::default());
        let mut alone = lease(&store, None);
        assert!(alone.is_held().await.unwrap());
        assert_eq!(store.0.lock().1, 0);
        assert!(alone.set_mark(b"").await.unwrap());
    }
}
