//! Who is online, and through which connection servers of the caller (ADR 0021).
//!
//! **Where.** Sessions, gateways and who of a group is online are kept by [`kith_presence`]: in Redis, or in the memory
//! of a node alone. A user is asked about each time. How many of a group are online, and where, is held in the tiers of
//! each node, and given up whenever it changes.
//!
//! **Groups follow.** A change of a user is one step; its groups are told after it, and it is noted up to which version they
//! were. Who finds that they were not told, by a heartbeat or by the sweep, tells them again.
//!
//! **Who may.** Gateways are services. Users are shown themselves and their friends.

mod active;
mod active_members;
mod background;
mod build;
pub mod cache;
mod codec;
mod config;
mod convert;
mod fan_out;
mod gateways;
mod hub;
mod membership_listener;
mod recovery;
mod rpc;
mod sessions;
mod sweep;
mod visibility;
mod watch;

pub use active::{ACTIVE, active_weight};
pub use background::Background;
pub use build::{Online, build, in_memory, limits};
pub use config::PresenceConfig;
pub use membership_listener::{Moved, Moves, moves};
pub use rpc::PresenceRpc;
pub use sessions::Sessions;
