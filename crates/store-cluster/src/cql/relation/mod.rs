//! Follows, users' settings for others, and the relation log.

mod block;
mod edges;
pub(super) mod follow;
mod log;
