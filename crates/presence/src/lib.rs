//! Who is online, and where: sessions of users, the gateways that hold them, and who of a group is online.
//!
//! Nothing of it is durable, and it is acknowledged on the word of whoever keeps it: a node alone keeps it in its
//! memory ([`MemoryPresence`]), several keep it in Redis (`RedisPresence`). Both keep the same rules, and one list of
//! cases runs over both (`conformance!`).

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod id;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod store;

pub use error::PresenceError;
pub use id::{DeviceId, GatewayId, Incarnation, Instance};
pub use memory::MemoryPresence;
#[cfg(feature = "redis")]
pub use redis::RedisPresence;
pub use store::{
    ActiveMember, ActiveStore, Change, Changed, Claim, Claimed, Distribution, Event, GatewayState, Gateways,
    Heard, Limits, Lookup, Op, PresenceFeed, PresenceStore, Presences, Seen, Session, Standing,
};
