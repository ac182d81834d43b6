//! The rows of a run as they are measured: each is printed at once and kept, so that a run that is stopped
//! loses nothing.

use std::{fs, path::Path, time::Instant};

use anyhow::{Context as _, Result};

use crate::{
    claims::{ALL, Plan},
    ratio::{Claim, Pair, Row},
    table::line,
};

/// The rows that a run has measured so far.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    plan: &'a Plan,
    began: Instant,
    /// How many rows were requested.
    wanted: usize,
    rows: Vec<Row>,
}

impl<'a> Results<'a> {
    /// Begins a run with this plan, without a row.
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let wanted = ALL.iter().filter(|claim| plan.wants(claim)).count();
        Self { plan, began: Instant::now(), wanted, rows: Vec::new() }
    }

    /// Makes a row from these rounds, prints it with the run's progress, and adds it to the result file.
    /// Ignores a row that the plan does not want. A quick run leaves the file alone.
    ///
    /// # Errors
    /// When there is no round, a side measured nothing, or the file cannot be written.
    pub(crate) fn add(&mut self, claim: &Claim, rounds: &[Pair<f64>]) -> Result<()> {
        if !self.plan.wants(claim) {
            return Ok(());
        }
        let row = Row::new(claim, rounds)?;
        let seconds = self.began.elapsed().as_secs();
        println!("[{} of {}, {seconds} s] {}", self.rows.len() + 1, self.wanted, line(&row));
        self.rows.push(row);
        if self.plan.quick { Ok(()) } else { write(&self.plan.out, &self.rows) }
    }

    /// Measures a row and adds it. Does not begin `rounds` if the plan does not want the row.
    ///
    /// # Errors
    /// If `rounds` or [`Self::add`] fails.
    pub(crate) async fn row(
        &mut self,
        claim: &Claim,
        rounds: impl Future<Output = Result<Vec<Pair<f64>>>>,
    ) -> Result<()> {
        if !self.plan.wants(claim) {
            return Ok(());
        }
        self.add(claim, &rounds.await?)
    }

    /// The rows in the order in which they were measured.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

/// Writes the rows into the file, in the table's order. Rows from an earlier run that this run has not
/// measured stay.
fn write(file: &Path, rows: &[Row]) -> Result<()> {
    let before: Vec<serde_json::Value> =
        fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let mut all = Vec::new();
    for claim in ALL {
        let now = rows.iter().find(|row| row.name == claim.name).map(serde_json::to_value).transpose()?;
        let kept = || before.iter().find(|row| row["name"] == claim.name).cloned();
        all.extend(now.or_else(kept));
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(&all)? + "\n";
    fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{MEMORY_HIT, REDIS_HIT, UPDATE_MONGODB};

    fn plan(out: &Path, quick: bool) -> Plan {
        let only = vec![MEMORY_HIT.name.to_owned(), REDIS_HIT.name.to_owned()];
        Plan { only, rounds: 5, quick, out: out.to_owned(), ..Plan::default() }
    }

    fn names(file: &Path) -> Vec<String> {
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }

    const ROUND: [Pair<f64>; 1] = [Pair { baseline: 1.0, kith: 1.0 }];

    #[test]
    fn a_stopped_run_keeps_what_it_measured() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench/ratios.json");
        let plan = plan(&file, false);
        Results::new(&plan).add(&REDIS_HIT, &ROUND).unwrap();
        assert_eq!(names(&file), ["redis_hit"]);
        let mut next = Results::new(&plan);
        next.add(&MEMORY_HIT, &ROUND).unwrap();
        assert_eq!(names(&file), ["memory_hit", "redis_hit"]);
        assert_eq!(next.into_rows().len(), 1);
    }

    #[test]
    fn unwanted_rows_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ratios.json");
        let plan = plan(&file, false);
        let mut results = Results::new(&plan);
        results.add(&UPDATE_MONGODB, &ROUND).unwrap();
        assert!(results.into_rows().is_empty() && !file.exists());
    }

    #[test]
    fn a_quick_run_writes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ratios.json");
        let plan = plan(&file, true);
        Results::new(&plan).add(&MEMORY_HIT, &ROUND).unwrap();
        assert!(!file.exists());
    }
}
