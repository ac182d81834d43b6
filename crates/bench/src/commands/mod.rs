//! The arguments and the function for each command.

mod bench;
mod compare;
mod numbers;

pub(crate) use self::{bench::BenchArguments, compare::CompareArguments, numbers::NumbersArguments};
