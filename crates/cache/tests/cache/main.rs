//! The rules of the tiers, each shown by the reads that would be wrong without it.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

mod batch;
mod churn;
mod consistency;
mod control;
mod flight;
mod gate;
mod hot_entries;
mod limits;
mod model;
mod operator;
mod shared_memory;
mod stage;
mod time;
mod token;
mod until;
mod write;
