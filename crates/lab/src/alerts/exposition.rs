//! Parses the Prometheus text format, as far as nodes write it.

use anyhow::{Context as _, Result};

/// A value in a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    /// The metric's name.
    pub(super) name: &'a str,
    /// The labels as they are written, without the braces; empty for none.
    pub(super) labels: &'a str,
    pub(super) value: f64,
}

/// All values, in their order; comments about metrics are skipped.
pub(super) fn samples(text: &str) -> impl Iterator<Item = Result<Sample<'_>>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| sample(line).with_context(|| format!("this is no value of a series: {line}")))
}

/// `name 1` or `name{label="value"} 1`; nodes give no times.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    (!name.is_empty() && is_name(name)).then_some(Sample { name, labels, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(&str, &str, f64)> {
        let sample = |sample: Result<Sample<'static>>| sample.unwrap();
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        samples(text).map(sample).map(|Sample { name, labels, value }| (name, labels, value)).collect()
    }

    #[test]
    fn samples_are_read_and_comments_are_skipped() {
        let text = "# HELP a What it is.\n# TYPE a counter\na 3\n\nb{c=\"d\",e=\"f } g\"} 0.25\nh_bucket{le=\"+Inf\"} 7\n";
        let found = [("a", "", 3.0), ("b", "c=\"d\",e=\"f } g\"", 0.25), ("h_bucket", "le=\"+Inf\"", 7.0)];
        assert_eq!(all(text), found);
    }

    #[test]
    fn line_that_cannot_be_parsed_is_an_error() {
        for line in ["a", "a one", "a{b=\"c\" 1", "{b=\"c\"} 1", "a 1 1700000000000", "<html> 1"] {
            assert!(samples(line).any(|sample| sample.is_err()), "{line}");
        }
    }
}
