//! The hunt for stale reads and lost writes on real servers. Nodes are the program itself, each in a separate
//! process, over a real Redis and a real MongoDB, through links that can be disturbed in any way. Clients
//! call all the while, and a [history](crate::history) records all that they see.

mod actions;
pub(crate) mod ages;
mod answered;
mod burst;
pub(crate) mod calls;
mod cassandra;
mod client;
mod disk;
mod dump;
pub(crate) mod figure;
mod figures;
mod findings;
#[cfg(test)]
mod fixtures;
mod load_tests;
mod long;
mod measures;
mod messages;
mod mix;
mod mutant_report;
mod mutants;
mod node;
mod outside;
mod persisted;
mod primary;
mod relation_calls;
mod relation_client;
mod relation_dump;
mod relations;
mod report;
mod rows;
mod run;
mod site;
mod upgrade;

pub(crate) use actions::forge;
pub use cassandra::Cassandra;
pub use disk::SmallDisk;
pub use figure::{Better, Figure};
pub use findings::{Findings, NotRun};
pub use load_tests::{LOAD_TESTS, LoadTest, Sizes};
pub use long::long;
pub use measures::Promise;
pub use mix::Mix;
pub use mutant_report::MutantReport;
pub use mutants::{CONTROLS, Control, MUTANTS, Mutant};
pub use node::Node;
pub use report::{JudgedRun, bounds, run_and_judge};
pub use rows::{HEALTHY, ROWS, Row};
pub use run::{Load, RunSummary, run};
pub use site::{Member, Plan, Site};
