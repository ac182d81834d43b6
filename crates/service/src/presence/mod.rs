//! Presence: the online users, and the caller's connection servers through which they are online (ADR 0021).
//!
//! **Storage.** Sessions, gateways and groups' online members are stored by [`kith_presence`]: in Redis, or
//! in memory in single-node mode. A user's state is read each time. How many group members are online, by
//! gateway, is cached by each node, and invalidated whenever it changes.
//!
//! **Groups are derived.** A user's change is one step. Its groups are notified after it, and the last
//! notified version is stored. A heartbeat or sweep that finds that they were not notifies them again.
//!
//! **Rights.** Gateways are services, and each node for the users who receive from it. Users see themselves
//! and their friends.

mod active;
mod active_members;
mod background;
mod build;
pub mod cache;
mod config;
mod convert;
mod fan_out;
mod gateways;
mod hub;
mod membership_listener;
mod node_sessions;
mod recovery;
mod rpc;
mod sessions;
mod sweep;
mod visibility;
mod watch;
mod watch_places;

pub use active::{ACTIVE, active_weight};
pub use background::Background;
pub use build::{PresenceDependencies, build, in_memory, limits};
pub use config::PresenceConfig;
pub use membership_listener::{MembershipForwarder, MembershipUpdate, membership_forwarder};
pub use node_sessions::NodeSessions;
pub use rpc::PresenceRpc;
pub use sessions::Sessions;
