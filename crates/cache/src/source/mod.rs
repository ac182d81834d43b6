//! Reads of the store: what a read asks for, and how many may run.

pub(super) mod admission;
pub(super) mod read;
