//! What rows showed, for people and for programs.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::{
    rows::{HEALTHY, Row},
    run::{Hunted, Load, run},
    site::Plan,
};
use crate::{
    checker::{self, Bounds, Checked},
    history,
    table::aligned,
};

/// For so long after its end a fault may still be felt.
const HEALS: std::time::Duration = std::time::Duration::from_secs(12);

/// What one row showed.
#[derive(Debug)]
pub struct Judged {
    row: Row,
    hunted: Hunted,
    report: checker::Report,
}

/// A figure, as `report.json` has it.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    figure: f64,
    target: f64,
    better: &'static str,
    holds: bool,
}

impl Judged {
    /// Judges the history of a row.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(row: &Row, hunted: Hunted, path: &Path) -> Result<Self> {
        let bounds = Bounds { healthy: HEALTHY, faulty: row.bound, heals: HEALS };
        let report = checker::check(&history::read(path)?, &bounds);
        Ok(Self { row: *row, hunted, report })
    }

    /// Which row it is.
    #[must_use]
    pub const fn row(&self) -> &Row {
        &self.row
    }

    /// Whether every check holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.report.holds()
    }

    /// What the checks found, in full.
    #[must_use]
    pub const fn report(&self) -> &checker::Report {
        &self.report
    }

    fn violations(&self, check: &str) -> u64 {
        let of = |checked: &&Checked| checked.name.starts_with(check);
        self.report.checks.iter().filter(of).map(Checked::violated).sum()
    }

    fn figures(&self) -> Vec<Figure> {
        let staleness = &self.report.staleness;
        let name = |figure: &str| format!("{} {figure}", self.row.name);
        let none = |of: &str, figure: u64| Figure {
            name: name(of),
            unit: "count",
            figure: float(figure),
            target: 0.0,
            better: "lower",
            holds: figure == 0,
        };
        let oldest = staleness.all.max;
        let mut figures = vec![Figure {
            name: name("stalest"),
            unit: "ms",
            figure: millis(oldest),
            target: self.row.bound.as_secs_f64() * 1e3,
            better: "lower",
            holds: staleness.all.over == 0,
        }];
        let checks = self.report.checks.iter().map(|checked| none(checked.name, checked.violated()));
        figures.extend(checks);
        figures
    }
}

/// Runs a row and judges what clients saw; its history stays in the folder.
///
/// # Errors
/// As [`run`].
pub async fn judged(row: &Row, plan: &Plan, load: Load, folder: &Path) -> Result<Judged> {
    let history = folder.join(format!("{}.jsonl", row.name));
    let hunted = run(row, plan, load, &history).await?;
    Judged::of(row, hunted, &history)
}

/// The rows as a table of Markdown.
#[must_use]
pub fn table(judged: &[Judged]) -> String {
    let head = [
        "row",
        "fault",
        "calls",
        "reads",
        "refused",
        "open",
        "stale p99, ms",
        "max",
        "bound",
        "lost",
        "diverged",
        "holds",
    ];
    aligned(&head.map(str::to_owned), judged.iter().map(cells))
}

/// Writes `report.json` into the folder.
///
/// # Errors
/// When it cannot be written.
pub fn write(judged: &[Judged], folder: &Path) -> Result<()> {
    let figures: Vec<Figure> = judged.iter().flat_map(Judged::figures).collect();
    let path = folder.join("report.json");
    fs::create_dir_all(folder)?;
    fs::write(&path, serde_json::to_vec_pretty(&figures)?)
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn cells(judged: &Judged) -> [String; 12] {
    let Judged { row, hunted, report } = judged;
    let ages = &report.staleness.all;
    [
        row.name.to_owned(),
        row.what.to_owned(),
        hunted.calls.to_string(),
        ages.reads.to_string(),
        report.refused.to_string(),
        report.open.to_string(),
        format!("{:.1}", millis(ages.p99)),
        format!("{:.1}", millis(ages.max)),
        format!("{:.0}", row.bound.as_secs_f64() * 1e3),
        judged.violations("C5").to_string(),
        judged.violations("C7").to_string(),
        if judged.holds() { "yes" } else { "NO" }.to_owned(),
    ]
}

fn millis(nanos: u64) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e3
}

/// Exact up to 2^32, and there is no more of anything here.
fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
