//! Random histories for a sequence: nodes that die, late and lost commands, emptied keys, old states, new
//! epochs, and callers whose numbers are compared with all that were given out. The product's own code runs
//! over its own scripts on a real Redis.

mod event_rates;
mod keeper;
#[allow(dead_code, reason = "one of the executables that have this module needs them")]
mod mutants;
mod run;
mod store;
mod truth;

#[allow(unused_imports, reason = "one of the executables that have this module needs it")]
pub(crate) use mutants::MUTANTS;
pub(crate) use run::run;
