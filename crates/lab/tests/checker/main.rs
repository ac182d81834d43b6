//! Shows of every check that it lets a sound history pass and that it catches what it is there for: by small
//! histories written by hand, and by long ones of a store that is right, each broken in one place.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod breaks;
mod end;
mod enmities;
mod friends;
mod losses;
mod messages;
mod mutants;
mod names;
mod plan;
mod register;
mod sessions;
mod staleness;
mod strictness;
mod tale;
mod talkers;
mod tool;
mod world;
