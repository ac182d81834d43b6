//! The report of all clients.

use kith_lab_servers::table::aligned;

use super::{judge::Kind, trial::TrialReport};

/// Columns before those of the kinds of violations.
const GIVEN: [&str; 5] = ["client", "messages", "faults", "failed calls", "seconds"];
const COLUMNS: usize = GIVEN.len() + Kind::ALL.len();

/// A row for each client: what it did, and how many violations of each kind there were.
#[must_use]
pub fn table(reports: &[(String, TrialReport)]) -> String {
    let kinds = Kind::ALL.map(Kind::name);
    let head: Vec<String> = GIVEN.iter().chain(&kinds).map(|name| (*name).to_owned()).collect();
    aligned(&columns(head), reports.iter().map(|(client, report)| columns(cells(client, report))))
}

fn cells(client: &str, report: &TrialReport) -> Vec<String> {
    let count =
        |kind| report.violations.iter().filter(|violation| violation.kind == kind).count().to_string();
    let counts = [report.sent, report.faults, report.failed, report.took.as_secs()];
    let given = std::iter::once(client.to_owned()).chain(counts.map(|count| count.to_string()));
    given.chain(Kind::ALL.map(count)).collect()
}

fn columns(cells: Vec<String>) -> [String; COLUMNS] {
    let mut cells = cells.into_iter();
    std::array::from_fn(|_| cells.next().unwrap_or_default())
}
