//! One namespace in the memory of a node: reads, loads, writes, and copies that may be stale.

pub(super) mod delayed_invalidation;
mod inner;
mod key_state;
mod load;
mod memory;
pub(super) mod namespace;
mod read;
pub(super) mod resync;
mod resync_rounds;
mod single_flight;
mod slot;
pub(super) mod tiered_cache;
mod version_floor;
pub(super) mod write_guard;
pub(super) mod write_parts;
