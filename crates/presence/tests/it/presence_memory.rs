//! Presence in memory.

use kith_presence::{MemoryPresence, Presences, conformance::LIMITS};

async fn open() -> (Presences, ()) {
    (MemoryPresence::new(LIMITS).presences(), ())
}

kith_presence::conformance!(open);
