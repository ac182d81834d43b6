//! Random window histories: writers that die, paused nodes, late and lost commands, changed messages,
//! evictions, new epochs, and readers that are compared with the log. The product's own code runs over its
//! own scripts on a real Redis; only the clock is set by the test.

mod actors;
mod connection;
mod edited;
mod event_rates;
mod log;
mod mutants;
mod run;
mod server;
pub(crate) mod stage;
pub(crate) mod stepped;
mod truth;

#[allow(unused_imports, reason = "one of the executables that have this module needs it")]
pub(crate) use connection::{TestRedis, url};
pub(crate) use edited::EditedScripts;
pub(crate) use mutants::MUTANTS;
pub(crate) use run::run;
