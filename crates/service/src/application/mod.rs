//! Who asks to be a friend, or to be in a group, and what comes of it; and the logs of what users did about each other.
//!
//! **Freshness.** Applications are read from the store: two people read one a few times, so that to hold it in memory, and to
//! tell other nodes of each change, would cost more than it saves.
//!
//! **Who may.** The receiver decides: the user, or the owner and admins of the group. Whether what is asked for is possible is
//! looked at before, and answered while the application is still pending.
//!
//! **Errors.** A function that asks a store also returns what a failing store makes; its comment names the other errors.
//!
//! **Once.** The store decides which decision stands ([`kith_store::PendingRequests`]), and notes that its effect is outstanding. The
//! effect is a write like any other one, with a request id that the application gives it: whoever repeats it, on whichever
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
