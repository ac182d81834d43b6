//! Decides who may call: callers with their keys and scopes, and what a call needs.

mod callers;
pub mod callers_edit;
pub mod callers_file;
pub(crate) mod identity;
mod key;
pub mod new_key;
pub(crate) mod refused;
mod rule;
mod scope;
pub mod secret_file;
pub(crate) mod tokens;
pub mod trial_issuer;
pub mod trusted;
pub(crate) mod user;

pub(crate) use callers::CallerChange;
pub use callers::{Caller, CallerKey, CallerSet, Callers};
pub use key::{Digest, KeyId};
pub use kith_service::rpc::rights::{CallerId, Rights, Scope};
pub(crate) use refused::{RefusalCause, RefusedCall};
pub use rule::{AccessRule, Rule};
pub use scope::{PRESETS, Preset, USER_RIGHTS, UnknownScope, parse_scopes};
pub use tokens::{Issuer, IssuerConfig, JwksUrl, TokenAlgorithm, TokenRefusal, Tokens};
