//! How nodes use the shared server, rule by rule: over a server within the process, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod aged;
mod feed;
mod flood;
mod follower_status;
mod follower_thread;
mod monotonic_reads;
mod newer;
mod number_codec;
mod resync;
mod share;
mod stage;
mod strict;
mod virtual_clock;
