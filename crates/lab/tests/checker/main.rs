//! Shows for every check that it lets a sound history pass and that it catches what it is there for: by small
//! histories written by hand, and by long histories from a correct store, each broken in one place.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod breaks;
mod builder;
mod end;
mod message_breaks;
mod message_history;
mod messages;
mod mutants;
mod names;
mod plan;
mod register;
mod relation_breaks;
mod relation_history;
mod sessions;
mod staleness;
mod strictness;
mod tool;
mod world;
