//! The arguments of each command, and what it does.

mod bench;
mod compare;
mod numbers;

pub(crate) use self::{bench::BenchArguments, compare::CompareArguments, numbers::NumbersArguments};
