//! Members of groups, bans and rosters. All changes of a group go through one queue of a node.

mod ban;
mod batch;
mod change_ring;
mod delete;
mod idempotency;
mod membership;
pub(super) mod queue;
pub(super) mod roster;
mod row;
mod store;
pub(super) mod write;
