//! The progress of an import: a bar on a terminal, else a line every few seconds; bad lines at once.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{
    progress::{Progress, Tally},
    reader::{BadLine, Position},
};
use crate::output;

const EVERY: Duration = Duration::from_secs(5);

/// The result of a file.
#[derive(Debug, Serialize)]
pub(super) struct Imported {
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) tally: Tally,
}

impl output::Report for Imported {
    fn header(&self) -> Vec<&'static str> {
        vec!["kind", "imported", "already_there", "bad"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let Tally { imported, already_there, bad } = self.tally;
        let counts = [imported, already_there, bad].map(|count| count.to_string());
        vec![[self.kind.to_owned()].into_iter().chain(counts).collect()]
    }
}

/// Writes to the standard error.
#[derive(Debug)]
pub(super) struct ImportReport {
    name: String,
    bar: ProgressBar,
    told: Instant,
}

impl ImportReport {
    /// For an import with this name, which is at `progress`.
    pub(super) fn new(name: &str, progress: &Progress) -> Self {
        // The size of a pipe is unknown.
        let (bar, template) = match progress.job.bytes {
            0 => (ProgressBar::no_length(), "{spinner} {wide_msg}"),
            bytes => (ProgressBar::new(bytes), "{bar:24} {percent:>3}% {eta:>4} left  {wide_msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let report = Self { name: name.to_owned(), bar, told: Instant::now() };
        if progress.at != Position::default() {
            report.say(&format!("{name}: going on behind line {}", progress.at.line));
            report.bad(progress.bad_lines());
        }
        report
    }

    /// Prints bad lines, one line each.
    pub(super) fn bad(&self, lines: &[BadLine]) {
        for BadLine { line, why } in lines {
            self.say(&format!("{}:{line}: {why}", self.name));
        }
    }

    /// Prints the progress.
    pub(super) fn came(&mut self, at: Position, tally: Tally) {
        self.bar.set_position(at.offset);
        self.bar.set_message(summary(tally));
        if self.bar.is_hidden() && self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            self.say(&format!("{}: line {}, {}", self.name, at.line, summary(tally)));
        }
    }

    /// Prints that it waits before a retry.
    pub(super) fn waits(&self, why: &str, time: Duration) {
        self.say(&format!("{why}; trying again in {} ms", time.as_millis()));
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| output::note(line));
    }
}

/// The counts, in one line.
fn summary(tally: Tally) -> String {
    let Tally { imported, already_there, bad } = tally;
    format!("{imported} imported, {already_there} already there, {bad} bad")
}
