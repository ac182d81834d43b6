//! Presence: user sessions, the gateways that hold them, and the online members of groups.
//!
//! Presence is not durable, and a change is acknowledged by the storage alone: in single-node mode memory
//! ([`MemoryPresence`]), otherwise Redis (`RedisPresence`). Both follow the same rules, and one suite tests
//! both (`conformance!`).

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
    ActiveMember, ActiveStore, Change, ChangeOutcome, Claim, ClaimOutcome, Distribution, Event, GatewayState,
    Gateways, PresenceFeed, PresenceLimits, PresenceStore, PresenceSubscription, Presences, Session,
    SessionLookup, SessionOp, UserSessions, UserState,
};
