//! Which alerts faults set off: nodes that are processes of their own are scraped as a Prometheus would scrape them while
//! something is done to them, and Prometheus' own tool says what the published rules make of it.
//!
//! [`CASES`] lists what is done and which alerts are to fire. A run has so many scrapes, one every half second; to the
//! rules each of them is a scrape interval of the published configuration later than the one before, so that ten
//! minutes of a rule are twenty seconds of a run. The rules see only what the nodes reported.

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
