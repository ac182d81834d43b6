//! Shows an import's progress: a bar on a terminal, else a line every few seconds; bad lines at once.

use std::time::Duration;

use serde::Serialize;

use super::{
    progress::{ImportCounts, Progress},
    reader::{BadLine, Position},
};
use crate::{output, progress_lines::ProgressLines};

/// A file's result.
#[derive(Debug, Serialize)]
pub(super) struct ImportSummary {
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) tally: ImportCounts,
}

impl output::Report for ImportSummary {
    const COLUMNS: &'static [&'static str] = &["kind", "imported", "already_there", "bad"];
}

/// Writes progress to standard error.
#[derive(Debug)]
pub(super) struct ImportReport {
    name: String,
    lines: ProgressLines,
}

impl ImportReport {
    /// Shows an import with this name, which is at `progress`.
    pub(super) fn new(name: &str, progress: &Progress) -> Self {
        // A pipe's size is unknown.
        let bytes = Some(progress.job.bytes).filter(|bytes| *bytes > 0);
        let report = Self { name: name.to_owned(), lines: ProgressLines::new(bytes) };
        if progress.at != Position::default() {
            report.lines.say(&format!("{name}: going on behind line {}", progress.at.line));
            report.bad(progress.bad_lines());
        }
        report
    }

    /// Prints bad lines, one line each.
    pub(super) fn bad(&self, lines: &[BadLine]) {
        for BadLine { line, why } in lines {
            self.lines.say(&format!("{}:{line}: {why}", self.name));
        }
    }

    /// Prints the progress.
    pub(super) fn update(&mut self, at: Position, tally: ImportCounts) {
        let ImportCounts { imported, already_there, bad } = tally;
        let summary = format!("{imported} imported, {already_there} already there, {bad} bad");
        self.lines
            .update(at.offset, summary, |summary| format!("{}: line {}, {summary}", self.name, at.line));
    }

    /// Prints that it waits before a retry.
    pub(super) fn waits(&self, why: &str, time: Duration) {
        self.lines.say(&format!("{why}; trying again in {} ms", time.as_millis()));
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.lines.end();
    }
}
