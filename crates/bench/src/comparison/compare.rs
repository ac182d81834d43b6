//! The whole comparison: runs every scheme under every fault, one run at a time, and renders the results as
//! JSON, HTML and a Markdown table.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use kith_lab_servers::table::aligned;
use serde::{Deserialize, Serialize};

use super::{Fault, Run, Scheme, Sizes, report_page::html, run};

/// Every scheme under every fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The seed for all random choices.
    pub seed: u64,
    /// The runs, ordered by fault, then by scheme.
    pub runs: Vec<Run>,
}

impl Comparison {
    /// How many reads from Kith were older than it promises, and how many records stayed stale for ever.
    #[must_use]
    pub fn broken_promises(&self) -> (u64, usize) {
        let kith = || self.runs.iter().filter(|run| run.scheme == Scheme::Kith);
        (kith().map(|run| run.ages.beyond).sum(), kith().map(|run| run.stale_for_ever).sum())
    }

    /// Writes `comparison.json` and `comparison.html` into that folder.
    ///
    /// # Errors
    /// Fails when they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let write = |name: &str, bytes: Vec<u8>| {
            let path = folder.join(name);
            fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))
        };
        write("comparison.json", serde_json::to_vec_pretty(self)?)?;
        write("comparison.html", html(self).into_bytes())
    }
}

/// Runs all schemes under all faults in sequence, and reports each.
///
/// # Errors
/// The first error from a run.
pub async fn compare(sizes: &Sizes, seed: u64, mut ran: impl FnMut(&Run)) -> Result<Comparison> {
    let mut runs = Vec::new();
    for fault in Fault::ALL {
        for scheme in Scheme::ALL {
            let run = run(scheme, fault, sizes, seed).await;
            let run = run.with_context(|| format!("{}, {}", scheme.name(), fault.name()))?;
            ran(&run);
            runs.push(run);
        }
    }
    Ok(Comparison { seed, runs })
}

/// The runs as a Markdown table, in their order. Ages are for reads that were stale after an acknowledgement.
#[must_use]
pub fn table(runs: &[Run]) -> String {
    let head = [
        "fault", "scheme", "seconds", "writes", "reads", "failed", "<= 50 ms", "<= 1 s", "<= 3 s", "> 3 s",
        "worst", "bound", "beyond", "for ever", "loads", "machine",
    ];
    aligned(&head.map(str::to_owned), runs.iter().map(cells))
}

fn cells(run: &Run) -> [String; 16] {
    let Run { ages, .. } = run;
    let [message, second, outage, above] = ages.stale;
    [
        run.fault.name().to_owned(),
        run.scheme.name().to_owned(),
        seconds(run.lasted_ms),
        run.writes.to_string(),
        ages.reads.to_string(),
        (ages.failed + run.refused).to_string(),
        message.to_string(),
        second.to_string(),
        outage.to_string(),
        above.to_string(),
        worst(ages.worst_ms),
        format!("{} s", run.fault.bound().as_secs()),
        ages.beyond.to_string(),
        run.stale_for_ever.to_string(),
        run.loads.to_string(),
        format!("{} ms", run.machine_ms),
    ]
}

fn worst(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{} s", seconds(ms)) }
}

fn seconds(ms: u64) -> String {
    format!("{:.1}", Duration::from_millis(ms).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Ages;

    fn run_of(scheme: Scheme, beyond: u64) -> Run {
        let ages = Ages { reads: 10, stale: [1, 0, 0, beyond], beyond, worst_ms: 1_250, ..Ages::default() };
        Run::without_fault(scheme, ages)
    }

    #[test]
    fn only_what_kith_breaks_is_a_broken_promise() {
        let comparison = |kith| {
            let runs = vec![run_of(Scheme::Kith, kith), run_of(Scheme::Leases, 5)];
            Comparison { seed: 1, runs }.broken_promises()
        };
        assert_eq!((comparison(0), comparison(2)), ((0, 0), (2, 0)));
    }

    #[test]
    fn the_table_names_the_scheme_and_its_worst_read() {
        let text = table(&[run_of(Scheme::Leases, 1)]);
        assert!(text.contains("| leases in Redis ") && text.contains("| 1.2 s "), "{text}");
    }

    #[test]
    fn page_plots_all_schemes_without_script() {
        let runs = vec![run_of(Scheme::Kith, 0), run_of(Scheme::Leases, 5)];
        let page = html(&Comparison { seed: 1, runs });
        assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (1, 2));
        assert!(!page.contains("<script") && !page.contains("http"), "{page}");
    }
}
