//! Who may call: callers with their keys and scopes, where they are configured, and how they change while a node runs.

mod callers;
mod key;
mod scope;

pub use callers::{Caller, CallerKey, CallerSet, Callers};
pub use key::{Digest, KeyId};
pub use kith_service::rpc::rights::{CallerId, Rights, Scope};
pub use scope::{PRESETS, Preset, UnknownScope, parse_scopes};
