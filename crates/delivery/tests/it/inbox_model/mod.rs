//! Random histories for one user's inbox with three receivers on two nodes: fan-outs that are late, lost and
//! repeated, calls without an answer, restarts, lost keys, new epochs. The product's scripts run on a real
//! Redis; receivers behave as the contract says. Every message must be delivered once, in order, and all once
//! nothing moves any more.

mod mutants;
mod receiver;
mod rest;
mod run;
mod world;

pub(crate) use mutants::MUTANTS;
pub(crate) use run::run;
