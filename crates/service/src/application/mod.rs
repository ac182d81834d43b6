//! Applications to be a friend, or a member of a group, and their effects; and the logs of events between users.
//!
//! **Freshness.** Applications are read from the store: two people read one a few times, so that to cache it, and to
//! broadcast each change, would cost more than it saves.
//!
//! **Who may.** The receiver decides: the user, or the owner and admins of the group. Whether the effect is possible is
//! checked before, and answered while the application is still pending.
//!
//! **Errors.** A function that asks a store also returns the errors of a failing store; its comment names the other
//! errors.
//!
//! **Once.** The store decides which decision wins ([`kith_store::PendingRequests`]), and notes that its effect is
//! pending. The effect is an ordinary write, with a request id that the application gives it: a repetition, on any
//! node, changes nothing more. The janitor repeats what was not noted as done.

mod applications;
mod basis;
mod closing;
mod config;
mod convert;
mod effects;
mod janitor;
mod log;
mod pending_groups;
mod rights;
mod rpc;

pub use applications::{Applications, Deciders};
pub use closing::Closing;
pub use config::ApplicationsConfig;
pub use janitor::Janitor;
pub use rpc::ApplicationRpc;
