//! Group members, bans and rosters. On each node, all changes to a group go through one queue.

mod ban;
mod batch;
mod change_ring;
mod delete;
mod idempotency;
mod log_end;
mod membership;
pub(super) mod queue;
pub(super) mod roster;
mod row;
mod store;
pub(super) mod write;
