//! Writes run to their end, invalidate what they make stale, and publish it to other nodes.

pub mod cache_defaults;
pub mod caches;
pub(crate) mod encoded_key;
pub mod feed_mapping;
pub mod ids;
pub mod lease;
pub mod mutations;
mod queue_permits;
pub mod record_codec;
pub mod removal_time;
pub(crate) mod rounds;
pub mod shed_counter;
pub mod tasks;
