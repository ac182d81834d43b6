//! Several nodes over one MongoDB and one Redis, as callers and operators meet them.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_once;
mod away;
mod claims;
mod counts;
mod epochs;
mod fresh;
mod hand;
mod metrics;
mod nodes;
mod presence;
mod redis;
mod refused;
mod site;
mod told;
mod unconfigured;
mod watched;
mod windows;
