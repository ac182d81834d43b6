//! What the cache promises, shown on real servers: whatever is late, lost, killed or cut, no read is wrong for
//! longer than its bound. Each scenario prints a line with its figures. Sizes are small, so that all take little
//! more than a minute; `KITH_FULL=1` makes them large, and wants a release build.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clusters;
mod cold;
mod cut;
mod flood;
mod frames;
mod numbers;
mod races;
mod redis_away;
mod stage;
mod stopped;
mod strict;
mod swap;
