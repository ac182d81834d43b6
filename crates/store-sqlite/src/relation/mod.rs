//! Follows, users' settings for others, and the relation log.

pub(crate) mod block;
pub(crate) mod blocked;
pub(crate) mod counts;
pub(crate) mod edges;
pub(crate) mod follow;
pub(crate) mod log;
pub(crate) mod removal;
