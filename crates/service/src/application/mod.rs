//! Friend requests, applications to groups and invites, with their effects; and the users' relation logs.
//!
//! **Freshness.** Applications are read from the store: two users read an application a few times, so a cache
//! with change broadcasts would cost more than it saves.
//!
//! **Rights.** The receiver decides: the user, or the group's owner and admins. Whether the effect is
//! possible is checked before; if it is not, the application stays pending.
//!
//! **Errors.** A function that asks a store also returns a failing store's errors; its comment names the
//! other errors.
//!
//! **Once.** The store decides which decision wins ([`kith_store::PendingRequests`]), and notes that its
//! effect is pending. The effect is an ordinary write, with a request id that is derived from the
//! application: a repetition, on any node, changes nothing more. The cleanup job repeats effects that are not
//! recorded as done.

mod application_listener;
mod applications;
mod basis;
mod cleanup_job;
mod closing;
mod config;
mod convert;
mod effects;
mod log;
mod pending_groups;
mod rights;
mod rpc;

pub use application_listener::ApplicationListener;
pub use applications::{ApplicationDependencies, Applications};
pub use cleanup_job::cleanup_job;
pub use closing::ApplicationCloser;
pub use config::ApplicationsConfig;
pub use rpc::ApplicationRpc;
