//! Rolling upgrades: whether every node in the cluster can read the schema that this node writes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::error::{Error, Reason};

/// Whether a node with an older schema is registered. Cheap to clone; clones share the state.
///
/// A domain whose records an older node would damage asks it before each call.
#[derive(Clone, Debug)]
pub struct SchemaAgreement {
    is_reached: Arc<AtomicBool>,
}

impl SchemaAgreement {
    /// The state for a node in single-node mode.
    #[must_use]
    pub fn reached() -> Self {
        Self { is_reached: Arc::new(AtomicBool::new(true)) }
    }

    /// The state for a node that has not read other nodes' registrations yet. It counts as not reached.
    #[must_use]
    pub fn unknown() -> Self {
        Self { is_reached: Arc::new(AtomicBool::new(false)) }
    }

    /// Sets whether all registered nodes know the schema.
    pub fn set(&self, is_reached: bool) {
        self.is_reached.store(is_reached, Ordering::Release);
    }

    /// Refuses a call while a node with an older schema may be registered.
    ///
    /// # Errors
    /// UNAVAILABLE, not applied.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_reached.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::new(
            Reason::StoreUnavailable,
            "a node of an older version is still registered; the call is available when all nodes are upgraded",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_node_refuses_calls_until_it_is_gone() {
        let agreement = SchemaAgreement::unknown();
        assert!(agreement.check().is_err(), "the node has not looked yet");
        agreement.clone().set(true);
        assert!(agreement.check().is_ok());
        agreement.set(false);
        assert_eq!(agreement.check().unwrap_err().reason(), Reason::StoreUnavailable);
        assert!(SchemaAgreement::reached().check().is_ok());
    }
}
