//! Checks which alerts faults trigger: nodes in separate processes are scraped as a Prometheus would scrape
//! them during a fault, and Prometheus' own tool evaluates the published rules.
//!
//! [`CASES`] lists the faults and the alerts that must fire. A run scrapes every half second. To the rules,
//! each scrape is one scrape interval (in the published configuration) later than the scrape before, so that
//! ten minutes in a rule are twenty seconds in a run. The rules see only what the nodes reported.

mod callers;
mod case_result;
mod cases;
mod embedded;
mod exposition;
mod faults;
mod findings;
mod load;
mod promtool;
mod rules;
mod run;
mod scraped;
mod scraper;

pub use case_result::CaseResult;
pub use cases::{CASES, Case};
pub use findings::AlertReport;
pub use rules::Rules;
pub use run::{CaseRun, run};
