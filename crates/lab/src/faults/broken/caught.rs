//! The results of clusters that lack a rule.

use std::path::Path;

use anyhow::Result;
use kith_lab_servers::table::aligned;

use super::{Broken, Control};
use crate::{
    checker::CheckResult,
    faults::{
        Better,
        figure::{self, Figure, float},
        report::Judged,
    },
};

/// The file of the figures.
const FILE: &str = "mutants.json";
const HEAD: [&str; 7] = ["mutant", "what", "lacks", "seconds", "to be noticed by", "noticed by", "caught"];

/// The results so far.
#[derive(Debug, Default)]
pub struct Caught {
    controls: Vec<Judged>,
    tried: Vec<(Broken, Judged)>,
    /// Names, with reasons.
    failed: Vec<(&'static str, String)>,
}

impl Caught {
    /// Adds the result of a control, or its failure to run.
    pub fn add_control(&mut self, control: &Control, ran: Result<Judged>) {
        match ran {
            Ok(judged) => self.controls.push(judged),
            Err(error) => self.failed.push((control.name(), format!("{error:#}"))),
        }
    }

    /// Adds the result of a cluster that lacks a rule, or its failure to run.
    pub fn add(&mut self, broken: Broken, ran: Result<Judged>) {
        match ran {
            Ok(judged) => self.tried.push((broken, judged)),
            Err(error) => self.failed.push((broken.name(), format!("{error:#}"))),
        }
    }

    /// Whether controls were run and all passed. Otherwise other findings prove nothing.
    #[must_use]
    pub fn is_controlled(&self) -> bool {
        let failed = |control: &Control| self.failed.iter().any(|(name, _)| *name == control.name());
        let failed = super::CONTROLS.iter().any(failed);
        !failed && !self.controls.is_empty() && self.controls.iter().all(Judged::holds)
    }

    /// Whether the controls hold, all could be run, and each was caught.
    #[must_use]
    pub fn holds(&self) -> bool {
        let caught = self.count() == self.tried.len() && !self.tried.is_empty();
        self.is_controlled() && self.failed.is_empty() && caught
    }

    /// A table of Markdown, the ones that were not run, and the number of caught ones.
    #[must_use]
    pub fn text(&self) -> String {
        let cells = self.tried.iter().map(|(broken, judged)| cells(broken, judged));
        let mut text = aligned(&HEAD.map(str::to_owned), cells);
        for judged in self.controls.iter().filter(|judged| !judged.holds()) {
            text += &format!("{} does not hold, so nothing is shown:\n{judged}\n", judged.name());
        }
        for (name, why) in &self.failed {
            text += &format!("{name} was not run: {why}\n");
        }
        text + &format!("caught {}/{}\n", self.count(), self.tried.len())
    }

    /// Writes the figures into the folder: `mutants.json`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        figure::write(&self.figures(), folder, FILE)
    }

    fn count(&self) -> usize {
        self.tried.iter().filter(|(broken, judged)| broken.is_caught(judged)).count()
    }

    /// The number of caught ones, the results of each control and each cluster, then the ones that were not run.
    fn figures(&self) -> Vec<Figure> {
        let number = |count: usize| float(u64::try_from(count).unwrap_or(u64::MAX));
        let tried = number(self.tried.len());
        let mut figures = vec![Figure::at_least("mutants caught", "count", number(self.count()), tried)];
        for judged in &self.controls {
            let none = |checked: &CheckResult| {
                Figure::none(format!("{} {}", judged.name(), checked.name), checked.violated())
            };
            figures.extend(judged.report().checks.iter().map(none));
        }
        for (broken, judged) in &self.tried {
            let (name, found) = (broken.name(), float(broken.noticed(judged)));
            figures.push(Figure::at_least(format!("{name} noticed"), "count", found, 1.0));
            figures.push(Figure::without_target(
                format!("{name} takes"),
                "s",
                judged.seconds(),
                Better::Lower,
            ));
        }
        let failed = self.failed.iter();
        figures
            .extend(failed.map(|(name, why)| Figure::not_run((*name).to_owned(), "count", 0.0, why.clone())));
        figures
    }
}

fn cells(broken: &Broken, judged: &Judged) -> [String; 7] {
    [
        broken.name().to_owned(),
        judged.what().to_owned(),
        if broken.rules.is_empty() { "the store's own".to_owned() } else { broken.rules.to_owned() },
        format!("{:.1}", judged.seconds()),
        broken.checks.join(", "),
        noticed(judged),
        if broken.is_caught(judged) { "yes" } else { "NO" }.to_owned(),
    ]
}

/// Each check with findings, and their number.
fn noticed(judged: &Judged) -> String {
    let found = judged.report().checks.iter().filter(|checked| !checked.holds());
    let found = found.map(|checked| {
        format!("{} ({})", checked.name.split(' ').next().unwrap_or_default(), checked.violated())
    });
    let found: Vec<String> = found.collect();
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::faults::{BROKEN, CONTROLS, made_up::judged};

    /// One control and one that lacks a rule, with a read that is so old in each; three seconds are their bound.
    fn caught(control_ms: u64, broken_ms: u64) -> Caught {
        let mut caught = Caught::default();
        caught.add_control(&CONTROLS[0], Ok(judged("F10", control_ms)));
        caught.add(BROKEN[0], Ok(judged("F10", broken_ms)));
        caught
    }

    fn figure(caught: &Caught, name: &str) -> (Option<f64>, bool) {
        let figures = caught.figures();
        let found = figures.iter().find(|figure| figure.name == name).expect("such a figure");
        (found.figure, found.holds)
    }

    #[test]
    fn caught_mutant_holds_if_its_control_holds() {
        let caught = caught(0, 3_100);
        assert!(caught.holds() && caught.text().ends_with("caught 1/1\n"), "{}", caught.text());
        assert!(caught.text().contains("| C3 (1)"), "{}", caught.text());
        assert_eq!(figure(&caught, "mutants caught"), (Some(1.0), true));
        assert_eq!(figure(&caught, "M01 noticed"), (Some(1.0), true));
    }

    #[test]
    fn one_that_is_not_caught_fails_the_run() {
        let caught = caught(0, 2_900);
        assert!(!caught.holds() && caught.text().ends_with("caught 0/1\n"), "{}", caught.text());
        assert_eq!(figure(&caught, "mutants caught"), (Some(0.0), false));
        assert_eq!(figure(&caught, "M01 noticed"), (Some(0.0), false));
    }

    #[test]
    fn what_another_check_notices_is_not_caught() {
        let mut caught = caught(0, 3_100);
        caught.add(Broken { checks: &["C8"], ..BROKEN[0] }, Ok(judged("F10", 3_100)));
        assert!(!caught.holds() && caught.text().ends_with("caught 1/2\n"), "{}", caught.text());
    }

    #[test]
    fn a_control_that_does_not_hold_fails_the_run() {
        let caught = caught(3_100, 3_100);
        assert!(!caught.is_controlled() && !caught.holds());
        assert!(caught.text().contains("nothing is shown"), "{}", caught.text());
        assert_eq!(figure(&caught, "F10 C3 bounded staleness"), (Some(1.0), false));
    }

    #[test]
    fn without_a_control_nothing_is_shown() {
        let mut caught = Caught::default();
        caught.add(BROKEN[0], Ok(judged("F10", 3_100)));
        assert!(!caught.is_controlled() && !caught.holds());
        caught.add_control(&CONTROLS[0], Ok(judged("F10", 0)));
        assert!(caught.holds());
        caught.add_control(&CONTROLS[1], Err(anyhow::anyhow!("no server")));
        assert!(!caught.is_controlled() && !caught.holds());
    }

    #[test]
    fn mutant_not_run_fails_all_and_is_in_file() {
        let mut caught = caught(0, 3_100);
        caught.add(BROKEN[1], Err(anyhow::anyhow!("no server")));
        assert!(caught.is_controlled() && !caught.holds());
        assert!(caught.text().contains("M02 was not run: no server"), "{}", caught.text());
        let folder = tempfile::tempdir().expect("a folder");
        caught.write(folder.path()).expect("a report");
        let text = fs::read(folder.path().join(FILE)).expect("a file");
        let figures: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let figures = figures.as_array().expect("figures");
        let failed = figures.iter().find(|figure| figure["name"] == "M02").expect("it is there");
        assert!(failed["figure"].is_null() && failed["not_run"] == "no server", "{failed}");
    }

    #[test]
    fn nothing_at_all_is_not_enough() {
        let mut caught = Caught::default();
        caught.add_control(&CONTROLS[0], Ok(judged("F10", 0)));
        assert!(caught.is_controlled() && !caught.holds());
    }
}
