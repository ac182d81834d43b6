//! Shows for every check that it lets a sound history pass and that it catches what it is there for: by small
//! histories written by hand, and for relations by long histories, each broken in one place.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod builder;
mod end;
mod messages;
mod names;
mod plan;
mod register;
mod relation_breaks;
mod relation_history;
mod relations;
mod sessions;
mod staleness;
mod strictness;
mod tool;
