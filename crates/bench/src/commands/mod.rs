//! The arguments and the function for the command.

mod bench;

pub(crate) use self::bench::BenchArguments;
