//! Nodes in one process: the cache of a node each, over one store and one server that they share.

pub mod apart;
mod linked;
mod peer;
mod readers;
mod records;
mod store;

use std::sync::Arc;

use anyhow::Result;
use kith_cache::remote::{
    MessageMac, Shared,
    redis::{RedisOptions, RedisShared},
};

pub use apart::Apart;
pub use linked::{Linked, Peers};
pub use peer::{Peer, Shape};
pub(crate) use readers::longest_pause;
pub use readers::{LATE, Readers, Tally};
pub use records::Records;
pub use store::{Staleness, Store};

/// Before all that nodes of the laboratory keep in Redis.
pub const PREFIX: &str = "kith-lab";
/// By which the nodes of all tests know each other.
const SEAL: [u8; 32] = [7; 32];

/// A connection to the Redis at this address, for one node.
///
/// # Errors
/// If the address or the prefix cannot be used; not if no server answers there.
pub async fn shared_by(url: &str, prefix: &str) -> Result<Arc<dyn Shared>> {
    let (url, prefix, seal) = (url.to_owned(), prefix.to_owned(), Some(MessageMac::new(&SEAL)));
    Ok(RedisShared::connect(RedisOptions { url, prefix, seal, ..RedisOptions::default() }).await?)
}
