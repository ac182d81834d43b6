//! A figure with its target.

use std::{fmt, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Which way a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A lower figure is better: a cost.
    Lower,
    /// A higher figure is better: a gain.
    Higher,
}

/// A figure, as `report.json` has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Row and measure: `F35 goodput`.
    pub name: String,
    /// `ms`, `count`, `ratio`, `1/s`, ...
    pub unit: &'static str,
    /// The value. `None`: not run.
    pub figure: Option<f64>,
    /// Its target; `None`: it is reported for information.
    pub target: Option<f64>,
    /// The direction in which the figure improves.
    pub better: Better,
    /// Whether the target is met. True without a target, false if the figure was not run.
    pub holds: bool,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
}

impl Figure {
    /// A figure that must not be above its target.
    pub(crate) fn at_most(name: impl Into<String>, unit: &'static str, figure: f64, target: f64) -> Self {
        let base = Self::without_target(name, unit, figure, Better::Lower);
        Self { target: Some(target), holds: figure <= target, ..base }
    }

    /// A figure that must not be below its target.
    pub(super) fn at_least(name: impl Into<String>, unit: &'static str, figure: f64, target: f64) -> Self {
        let base = Self::without_target(name, unit, figure, Better::Higher);
        Self { target: Some(target), holds: figure >= target, ..base }
    }

    /// A count of violations, which must be 0.
    pub(crate) fn none(name: impl Into<String>, count: u64) -> Self {
        Self::at_most(name, "count", float(count), 0.0)
    }

    /// A figure without a target. `better` is the direction in which it improves.
    pub(crate) fn without_target(
        name: impl Into<String>,
        unit: &'static str,
        figure: f64,
        better: Better,
    ) -> Self {
        let (name, figure) = (name.into(), Some(figure));
        Self { name, unit, figure, target: None, better, holds: true, not_run: None }
    }

    /// A count without a target. A higher count is better.
    pub(super) fn count(name: impl Into<String>, count: u64) -> Self {
        Self::without_target(name, "count", float(count), Better::Higher)
    }

    /// A count that must not be below its target.
    pub(super) fn at_least_count(name: impl Into<String>, count: u64, target: u64) -> Self {
        Self::at_least(name, "count", float(count), float(target))
    }

    /// A count that must not be above its target.
    pub(super) fn at_most_count(name: impl Into<String>, count: u64, target: u64) -> Self {
        Self::at_most(name, "count", float(count), float(target))
    }

    /// A time that must not be above its target, in seconds.
    pub(super) fn within(name: impl Into<String>, time: Duration, target: Duration) -> Self {
        Self::at_most(name, "s", time.as_secs_f64(), target.as_secs_f64())
    }

    /// How long a row took, in seconds.
    pub(super) fn took(time: Duration) -> Self {
        Self::without_target("took", "s", time.as_secs_f64(), Better::Lower)
    }

    /// Adds the row's name to the figure's name.
    pub(super) fn of(self, row: &str) -> Self {
        Self { name: format!("{row} {}", self.name), ..self }
    }

    /// A figure that would have to be at most `target`, and was not run.
    pub(crate) fn not_run(name: String, unit: &'static str, target: f64, why: String) -> Self {
        let (figure, target, better) = (None, Some(target), Better::Lower);
        Self { name, unit, figure, target, better, holds: false, not_run: Some(why) }
    }
}

/// Formats the figure in one line.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, .. } = self;
        match self.figure {
            Some(figure) => write!(f, "{name}: {figure:.3} {unit}")?,
            None => write!(f, "{name}: not run")?,
        }
        let Some(target) = self.target else { return Ok(()) };
        let side = if self.better == Better::Lower { "at most" } else { "at least" };
        write!(f, ", {side} {target}: {}", if self.holds { "holds" } else { "DOES NOT HOLD" })
    }
}

/// Writes them into a file in the folder, for programs.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn write(figures: &[Figure], folder: &Path, file: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(file);
    fs::write(&path, serde_json::to_vec_pretty(figures)?)
        .with_context(|| format!("{} cannot be written", path.display()))
}

/// Nanoseconds as milliseconds.
pub(super) fn millis(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e3
}

/// Exact up to 2^32, and no count here is higher.
pub(super) fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_holds_on_right_side_of_its_target() {
        let holds = |figure: Figure| figure.holds;
        assert!(
            holds(Figure::at_most("a", "ms", 10.0, 10.0)) && !holds(Figure::at_most("a", "ms", 10.1, 10.0))
        );
        assert!(
            holds(Figure::at_least("a", "ratio", 0.8, 0.8))
                && !holds(Figure::at_least("a", "ratio", 0.7, 0.8))
        );
        assert!(!holds(Figure::at_least("a", "ratio", f64::NAN, 0.8)), "what was not measured does not hold");
        assert!(!holds(Figure::at_most("a", "ms", f64::NAN, 10.0)));
    }
}
