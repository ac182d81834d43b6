//! Random histories of the inbox of one user with three receivers on two nodes: fan-outs that are late, lost
//! and repeated, calls without an answer, restarts, lost keys, new epochs. The scripts of the product run on
//! a real Redis; what a receiver does is as the contract says. Every message must be delivered once, in
//! order, and all once nothing moves any more.

mod mutants;
mod receiver;
mod rest;
mod run;
mod world;

pub(crate) use mutants::MUTANTS;
pub(crate) use run::run;
