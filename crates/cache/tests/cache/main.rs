//! The rules of the tiers, each shown by the reads that would be wrong without it.

mod batch;
mod consistency;
mod control;
mod flight;
mod limits;
mod model;
mod operator;
mod stage;
mod time;
mod token;
mod write;
