//! Who may call: callers with their keys and scopes, where they are configured, and how they change while a node runs.

mod callers;
mod key;
pub(crate) mod principal;
mod rule;
mod scope;

pub use callers::{Caller, CallerKey, CallerSet, Callers};
pub use key::{Digest, KeyId};
pub use kith_service::rpc::rights::{CallerId, Rights, Scope};
pub use rule::{AccessRule, Rule};
pub use scope::{PRESETS, Preset, UnknownScope, parse_scopes};
