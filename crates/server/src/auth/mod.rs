//! Who may call: callers with their keys and scopes, where they are configured, and how they change while a node runs.

mod callers;
pub mod callers_edit;
pub mod callers_file;
mod key;
pub mod new_key;
pub(crate) mod principal;
mod reload;
mod rule;
mod scope;
pub mod secret_file;
mod sources;

pub use callers::{Caller, CallerKey, CallerSet, Callers};
pub use key::{Digest, KeyId};
pub use kith_service::rpc::rights::{CallerId, Rights, Scope};
pub(crate) use reload::{Reload, Reloaded};
pub use rule::{AccessRule, Rule};
pub use scope::{PRESETS, Preset, UnknownScope, parse_scopes};
pub use sources::{Found, Sources};
