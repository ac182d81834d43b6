//! The rows' results, for programs.

use std::path::Path;

use anyhow::Result;

use super::{
    figure::{self, Better, Figure, float, millis},
    findings::Findings,
    report::{JudgedRun, table},
};
use crate::checker::{Ages, CheckResult};

/// The largest age that reads in rows may have, in milliseconds: the bounds for clients.
struct AgeLimit {
    name: &'static str,
    rows: &'static [&'static str],
    of: fn(&JudgedRun) -> u64,
    most_ms: f64,
}

/// The limits from the table of faults.
const AGE_LIMITS: [AgeLimit; 5] = [
    AgeLimit { name: "healthy p99 staleness", rows: &["F00"], of: |row| undisturbed(row).p99, most_ms: 50.0 },
    AgeLimit {
        name: "healthy p99.9 staleness",
        rows: &["F00"],
        of: |row| undisturbed(row).p999,
        most_ms: 200.0,
    },
    AgeLimit { name: "healthy max staleness", rows: &["F00"], of: |row| undisturbed(row).max, most_ms: 1e3 },
    AgeLimit {
        name: "max staleness while broadcasts are lost",
        rows: &["F11a", "F11b"],
        of: |row| row.report().staleness.all.max,
        most_ms: 3e3,
    },
    AgeLimit {
        name: "max staleness where a writer dies before it broadcasts",
        rows: &["F15a", "F15b", "F43"],
        of: |row| row.report().staleness.all.max,
        most_ms: 11e3,
    },
];

impl Findings {
    /// Whether every figure meets its target, and nothing failed to run.
    #[must_use]
    pub fn holds(&self) -> bool {
        let missed = |figure: &Figure| figure.not_run.is_none() && !figure.holds;
        !figures(self).iter().any(missed) && !self.not_run().iter().any(|row| row.failed)
    }

    /// The report for people: the rows as a Markdown table, the rows that were not run, and the figures that
    /// do not hold.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = table(self.judged());
        for row in self.not_run() {
            text += &format!("{} was not run: {}\n", row.name, row.why);
        }
        for figure in figures(self).iter().filter(|figure| figure.not_run.is_none() && !figure.holds) {
            let Figure { name, unit, figure, target, .. } = figure;
            let (figure, target) = (figure.unwrap_or_default(), target.unwrap_or_default());
            text += &format!("{name}: {figure:.1} {unit}, and the target is {target}\n");
        }
        text
    }

    /// Writes the figures into the folder: `report.json`, or `long.json` for a long run.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        figure::write(&figures(self), folder, &format!("{}.json", self.name))
    }
}

/// First over all rows, then for each row, then for rows that were not run.
fn figures(findings: &Findings) -> Vec<Figure> {
    let mut figures = over_all(findings);
    if findings.goal().is_none() {
        figures.extend(AGE_LIMITS.iter().map(|limit| limit.figure(findings)));
    }
    findings.judged().iter().for_each(|judged| figures.extend(of_row(judged)));
    figures.extend_from_slice(findings.measured());
    let not_run = findings.not_run().iter();
    figures.extend(not_run.map(|row| Figure::not_run(row.name.to_owned(), "count", 0.0, row.why.clone())));
    figures
}

fn over_all(findings: &Findings) -> Vec<Figure> {
    let sum = |check: &str| findings.judged().iter().map(|judged| judged.violations(check)).sum();
    let reads: u64 = findings.judged().iter().map(|judged| judged.report().staleness.all.reads).sum();
    let none = |name: &str, check| Figure::none(format!("all {name}"), sum(check));
    vec![
        none("acknowledged writes lost", "C5"),
        none("entries that stay stale", "C7"),
        none("cached reads older than their bound", "C3"),
        checked(float(reads), findings.goal()),
    ]
}

fn checked(reads: f64, goal: Option<u64>) -> Figure {
    let (name, unit) = ("all cached reads checked", "count");
    match goal {
        Some(goal) => Figure::at_least(name, unit, reads, float(goal)),
        None => Figure::without_target(name, unit, reads, Better::Higher),
    }
}

impl AgeLimit {
    /// The worst figure among its rows that were run.
    fn figure(&self, findings: &Findings) -> Figure {
        let rows = findings.judged().iter().filter(|judged| self.rows.contains(&judged.name()));
        let name = self.name.to_owned();
        match rows.map(self.of).max() {
            Some(worst) => Figure::at_most(name, "ms", millis(worst), self.most_ms),
            None => Figure::not_run(name, "ms", self.most_ms, format!("needs {}", self.rows.join(" or "))),
        }
    }
}

/// How old its reads were, and each check.
fn of_row(judged: &JudgedRun) -> Vec<Figure> {
    let (name, staleness) = (judged.name(), &judged.report().staleness);
    let stalest = |name: String, ages: &Ages, most_ms: f64| {
        let figure = Figure::at_most(name, "ms", millis(ages.max), most_ms);
        // Not all its reads may be that old.
        Figure { holds: figure.holds && ages.over == 0, ..figure }
    };
    let mut figures = Vec::new();
    if let Some(bound) = judged.bound() {
        figures.push(stalest(format!("{name} stalest"), &staleness.all, bound.as_secs_f64() * 1e3));
    } else {
        let by_fault = staleness.by_fault.iter().filter_map(|(fault, ages)| Some((fault, ages, ages.bound?)));
        figures.extend(
            by_fault
                .map(|(fault, ages, bound)| stalest(format!("{name} {fault} stalest"), ages, millis(bound))),
        );
    }
    let check = |checked: &CheckResult| Figure::none(format!("{name} {}", checked.name), checked.violated());
    figures.extend(judged.report().checks.iter().map(check));
    let deaths = || Figure::at_least(format!("{name} deaths"), "count", float(judged.deaths()), 1.0);
    figures.extend((judged.deaths() > 0).then(deaths));
    figures.extend_from_slice(judged.figures());
    figures
}

fn undisturbed(judged: &JudgedRun) -> &Ages {
    &judged.report().staleness.undisturbed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{
        NotRun,
        fixtures::{judged, row},
    };

    fn named(findings: &Findings, name: &str) -> Figure {
        figures(findings).into_iter().find(|figure| figure.name == name).expect("such a figure")
    }

    fn of(rows: Vec<JudgedRun>) -> Findings {
        Findings::of_rows(rows, Vec::new())
    }

    #[test]
    fn oldest_read_of_row_must_meet_bound_of_row() {
        let stalest = named(&of(vec![judged("F10", 2_999)]), "F10 stalest");
        assert_eq!((stalest.figure, stalest.target, stalest.holds), (Some(2_999.0), Some(3_000.0), true));
        assert!(!named(&of(vec![judged("F10", 3_001)]), "F10 stalest").holds);
        assert!(named(&of(vec![judged("F43", 3_001)]), "F43 stalest").holds);
    }

    #[test]
    fn a_limit_is_about_the_worst_of_its_rows() {
        let name = "max staleness while broadcasts are lost";
        let both = of(vec![judged("F11a", 10), judged("F11b", 2_000), judged("F43", 9_000)]);
        let figure = named(&both, name);
        assert_eq!((figure.figure, figure.target, figure.holds), (Some(2_000.0), Some(3_000.0), true));
        assert!(!named(&of(vec![judged("F11a", 3_001), judged("F11b", 1)]), name).holds);
    }

    #[test]
    fn healthy_cluster_must_meet_more_than_its_bound() {
        let healthy = of(vec![judged("F00", 600)]);
        assert!(named(&healthy, "F00 C3 bounded staleness").holds);
        assert!(named(&healthy, "healthy max staleness").holds);
        assert!(!named(&healthy, "healthy p99.9 staleness").holds && !healthy.holds());
    }

    #[test]
    fn limit_without_its_rows_says_so_and_passes() {
        let findings = of(vec![judged("F10", 0)]);
        let limit = named(&findings, "max staleness where a writer dies before it broadcasts");
        assert_eq!((limit.figure, limit.holds), (None, false));
        assert_eq!(limit.not_run.as_deref(), Some("needs F15a or F15b or F43"));
        assert!(findings.holds());
    }

    #[test]
    fn violations_of_all_rows_are_counted_together() {
        let findings = of(vec![judged("F10", 3_001), judged("F11a", 3_001), judged("F11b", 0)]);
        let over = named(&findings, "all cached reads older than their bound");
        assert_eq!((over.figure, over.holds), (Some(2.0), false));
        assert_eq!(named(&findings, "all cached reads checked").figure, Some(303.0));
        assert!(named(&findings, "all acknowledged writes lost").holds);
    }

    #[test]
    fn a_long_run_has_to_check_a_million_reads() {
        let reads = named(&Findings::of_long_run(Ok(judged("F10", 0))), "all cached reads checked");
        assert_eq!((reads.figure, reads.target, reads.holds), (Some(101.0), Some(1e6), false));
        assert!(named(&of(vec![judged("F10", 0)]), "all cached reads checked").holds);
    }

    #[test]
    fn failed_row_fails_report_and_skipped_does_not() {
        let left_out = Findings::of_rows(vec![judged("F10", 0)], vec![NotRun::left_out(row("F15a").name)]);
        let figure = named(&left_out, "F15a");
        assert!(figure.figure.is_none() && !figure.holds && figure.not_run.is_some());
        assert!(left_out.holds());
        let error = anyhow::anyhow!("no server");
        let failed = Findings::of_rows(Vec::new(), vec![NotRun::failed("F10", &error)]);
        assert!(!failed.holds() && named(&failed, "F10").not_run.as_deref() == Some("no server"));
        assert!(!Findings::of_long_run(Err(error)).holds());
    }

    #[test]
    fn a_figure_that_was_not_run_is_null_in_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        of(vec![judged("F00", 0)]).write(folder.path()).expect("a report");
        let text = std::fs::read_to_string(folder.path().join("report.json")).expect("a file");
        let figures: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
        let named = |name| figures.iter().find(|figure| figure["name"] == name).expect(name);
        let lost = named("all acknowledged writes lost");
        assert_eq!(
            (&lost["figure"], &lost["target"], &lost["better"]),
            (&0.0.into(), &0.0.into(), &"lower".into())
        );
        assert!(lost["holds"] == true && lost.get("not_run").is_none(), "{lost}");
        let limit = named("max staleness while broadcasts are lost");
        assert!(limit["figure"].is_null() && limit["holds"] == false);
    }
}
