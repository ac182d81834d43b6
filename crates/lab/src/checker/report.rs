//! The checks' results, and the report with all results.

use std::fmt;

use kith_lab_servers::table;

use super::{Ages, Staleness};

/// Maximum violations that a check keeps as text.
pub const KEPT: usize = 20;

/// The result from one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The check's number and name.
    pub name: &'static str,
    /// Number of judged calls, records or places, depending on the check. 0: the history contains none.
    pub judged: u64,
    /// The violations, at most [`KEPT`], in the order in which they were found.
    pub violations: Vec<String>,
    /// The number of further violations.
    pub more: u64,
}

impl CheckResult {
    /// Whether there are no violations.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.violations.is_empty()
    }

    /// The number of violations.
    #[must_use]
    pub fn violated(&self) -> u64 {
        number(self.violations.len()).saturating_add(self.more)
    }

    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, judged: 0, violations: Vec::new(), more: 0 }
    }

    /// Counts another judged item.
    pub(super) const fn count_judged(&mut self) {
        self.judged += 1;
    }

    /// Adds a violation.
    pub(super) fn violation(&mut self, text: impl FnOnce() -> String) {
        if self.violations.len() < KEPT {
            self.violations.push(text());
        } else {
            self.more += 1;
        }
    }
}

/// The result for a history. Displayed as tables in Markdown, followed by the violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The result from each check, ordered by number.
    pub checks: Vec<CheckResult>,
    /// The ages that cached answers had.
    pub staleness: Staleness,
    /// The number of lines in the history.
    pub events: u64,
    /// Calls that read.
    pub reads: u64,
    /// Calls that write.
    pub writes: u64,
    /// Calls that certainly had no effect.
    pub refused: u64,
    /// Calls with an unknown outcome.
    pub open: u64,
    /// Faults that began or ended.
    pub faults: u64,
}

impl Report {
    /// Whether every check holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(CheckResult::holds)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, reads, writes, refused, open, faults, .. } = self;
        writeln!(
            f,
            "{events} events: {reads} reads, {writes} writes ({refused} calls refused, {open} open), \
             {faults} begins and ends of faults\n"
        )?;
        let head = ["check", "judged", "violations", "holds"].map(str::to_owned);
        writeln!(f, "{}", table::aligned(&head, self.checks.iter().map(cells)))?;
        let head =
            ["staleness, ms", "reads", "p50", "p99", "p99.9", "max", "bound", "over"].map(str::to_owned);
        let Staleness { all, undisturbed, by_fault, .. } = &self.staleness;
        let rows = [("all", all), ("undisturbed", undisturbed)].into_iter();
        let rows = rows.chain(by_fault.iter().map(|(name, ages)| (name.as_str(), ages)));
        write!(f, "{}", table::aligned(&head, rows.map(|(name, ages)| ages_cells(name, ages))))?;
        self.checks.iter().filter(|check| !check.holds()).try_for_each(|check| violations(f, check))
    }
}

/// Converts a count.
pub(super) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn violations(f: &mut fmt::Formatter<'_>, check: &CheckResult) -> fmt::Result {
    writeln!(f, "\n{}:", check.name)?;
    for violation in &check.violations {
        writeln!(f, "- {violation}")?;
    }
    if check.more > 0 { writeln!(f, "- and {} more", check.more) } else { Ok(()) }
}

fn cells(check: &CheckResult) -> [String; 4] {
    let holds = match (check.holds(), check.judged) {
        (false, _) => "NO",
        (true, 0) => "nothing judged",
        (true, _) => "yes",
    };
    [check.name.to_owned(), check.judged.to_string(), check.violated().to_string(), holds.to_owned()]
}

fn ages_cells(name: &str, ages: &Ages) -> [String; 8] {
    [
        name.to_owned(),
        ages.reads.to_string(),
        millis(ages.p50),
        millis(ages.p99),
        millis(ages.p999),
        millis(ages.max),
        ages.bound.map_or_else(|| "-".to_owned(), millis),
        ages.over.to_string(),
    ]
}

/// Nanoseconds as milliseconds with three places.
fn millis(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000_000, nanos / 1_000 % 1_000)
}
