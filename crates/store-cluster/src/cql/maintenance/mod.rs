//! Checks and repairs lists, in the background and on request.

mod import_conflicts;
mod recount_schedule;
mod scan_cursor;
mod store;
pub(super) mod sweeper;
mod verify;
