//! Checks and repairs lists in the background.

mod import_conflicts;
mod recount_schedule;
mod sweeper;
