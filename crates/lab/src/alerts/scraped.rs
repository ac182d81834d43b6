//! The scraped values, series by series.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::exposition::{Sample, samples};

/// The job in `prometheus.yml`.
const JOB: &str = "kith";
/// The series that a node has while it answers.
const OF_LIFE: [&str; 2] = ["up{", "kith_serving{"];

/// Values in series. Each has as many values as there were scrapes.
#[derive(Clone, Debug, Default)]
pub(super) struct ScrapedSeries {
    /// Only these metrics are kept.
    metrics: BTreeSet<String>,
    /// The values by name and labels. A series that is shorter than others has had no value since.
    series: BTreeMap<String, Vec<Option<f64>>>,
    scrapes: usize,
}

impl ScrapedSeries {
    /// Creates an empty set. It keeps only these metrics from the nodes' reports.
    pub(super) fn new(metrics: BTreeSet<String>) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Adds each instance's answer, or that it has not answered.
    ///
    /// # Errors
    /// If an answer does not come from a node. Then no part of the scrape may be used.
    pub(super) fn add<'a>(
        &mut self,
        answers: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<()> {
        for (instance, answer) in answers {
            let up = Sample { name: "up", labels: "", value: f64::from(u8::from(answer.is_some())) };
            self.put(instance, up);
            for sample in samples(answer.unwrap_or_default()) {
                let sample = sample?;
                if self.metrics.contains(sample.name) {
                    self.put(instance, sample);
                }
            }
        }
        self.scrapes += 1;
        Ok(())
    }

    /// Skips scrapes until `scrapes` scrapes would have been made. Nodes count as serving meanwhile:
    /// otherwise the rules would find no node.
    pub(super) fn skip_to(&mut self, scrapes: usize) {
        for (_, values) in
            self.series.iter_mut().filter(|(name, _)| OF_LIFE.iter().any(|of| name.starts_with(of)))
        {
            let last = values.last().copied().flatten();
            values.resize(scrapes.max(values.len()), last);
        }
        self.scrapes = self.scrapes.max(scrapes);
    }

    /// The number of scrapes, including those that were skipped.
    pub(super) const fn scrapes(&self) -> usize {
        self.scrapes
    }

    /// Each series with its values as `promtool test rules` reads them.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, String)> {
        self.series.iter().map(|(name, values)| (name.as_str(), notation(values, self.scrapes)))
    }

    fn put(&mut self, instance: &str, sample: Sample<'_>) {
        let Sample { name, labels, value } = sample;
        let comma = if labels.is_empty() { "" } else { "," };
        let series = format!("{name}{{job=\"{JOB}\",instance=\"{instance}\"{comma}{labels}}}");
        let values = self.series.entry(series).or_default();
        values.resize(self.scrapes, None);
        values.push(Some(value));
    }
}

/// Values in sequence: `1x3` is 1 four times. Where a value is missing after an existing value, Prometheus
/// notes that the series is stale, and nothing (`_x2`: twice) until it is there again. promtool does not read
/// `infx3`, but `inf inf`.
fn notation(values: &[Option<f64>], scrapes: usize) -> String {
    let absent = std::iter::repeat_n(&None, scrapes.saturating_sub(values.len()));
    let mut all = values.iter().chain(absent).peekable();
    let (mut text, mut there) = (String::new(), false);
    while let Some(value) = all.next() {
        // A series becomes stale once.
        let (may_repeat, mut again) = (value.map_or(!there, f64::is_finite), 0);
        while may_repeat && all.next_if_eq(&value).is_some() {
            again += 1;
        }
        let space = if text.is_empty() { "" } else { " " };
        text += &match value {
            Some(value) if again == 0 => format!("{space}{value}"),
            Some(value) => format!("{space}{value}x{again}"),
            None if there => format!("{space}stale"),
            None => format!("{space}_x{}", again + 1),
        };
        there = value.is_some();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scraped(answers: &[[Option<&str>; 2]]) -> ScrapedSeries {
        let mut scraped = ScrapedSeries::new(["a", "b_total"].map(str::to_owned).into());
        for [one, two] in answers {
            scraped.add([("n-1:1", *one), ("n-2:1", *two)].into_iter()).unwrap();
        }
        scraped
    }

    fn values(scraped: &ScrapedSeries, series: &str) -> String {
        let mut all = scraped.values();
        all.find(|(name, _)| *name == series).unwrap_or_else(|| panic!("{series} is not there")).1
    }

    #[test]
    fn series_have_all_labels_and_only_used_metrics() {
        let scraped = scraped(&[[Some("a{c=\"d\"} 1\ne 2\n"), Some("b_total 0.5\n")]]);
        let names: Vec<_> = scraped.values().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(
            names,
            [
                "a{job=\"kith\",instance=\"n-1:1\",c=\"d\"}",
                "b_total{job=\"kith\",instance=\"n-2:1\"}",
                "up{job=\"kith\",instance=\"n-1:1\"}",
                "up{job=\"kith\",instance=\"n-2:1\"}",
            ]
        );
    }

    #[test]
    fn silent_node_is_down_and_its_series_are_stale() {
        let (there, away) = ([Some("a 7\n"); 2], [Some("a 7\n"), None]);
        let scraped = scraped(&[there, there, away, away, away, there]);
        assert_eq!(values(&scraped, "up{job=\"kith\",instance=\"n-1:1\"}"), "1x5");
        assert_eq!(values(&scraped, "up{job=\"kith\",instance=\"n-2:1\"}"), "1x1 0x2 1");
        assert_eq!(values(&scraped, "a{job=\"kith\",instance=\"n-2:1\"}"), "7x1 stale _x2 7");
    }

    #[test]
    fn series_has_values_only_while_it_exists() {
        let scraped = scraped(&[[Some(""); 2], [Some(""), Some("a 1")], [Some(""); 2], [Some(""); 2]]);
        assert_eq!(values(&scraped, "a{job=\"kith\",instance=\"n-2:1\"}"), "_x1 1 stale _x1");
    }

    #[test]
    fn what_is_skipped_has_no_values() {
        let mut scraped = scraped(&[[Some("a 1"); 2]]);
        scraped.skip_to(5);
        scraped.add([("n-1:1", Some("a 2"))].into_iter()).unwrap();
        assert_eq!(values(&scraped, "a{job=\"kith\",instance=\"n-1:1\"}"), "1 stale _x3 2");
        assert_eq!(values(&scraped, "up{job=\"kith\",instance=\"n-2:1\"}"), "1x4 stale");
        assert_eq!(scraped.scrapes(), 6);
    }

    #[test]
    fn values_that_differ_stand_one_by_one() {
        assert_eq!(notation(&[1.0, 1.0, 2.0, 0.25, -3.0].map(Some), 5), "1x1 2 0.25 -3");
        assert_eq!(notation(&[], 2), "_x2");
        assert_eq!(notation(&[f64::INFINITY, f64::INFINITY, 5.0, 5.0].map(Some), 4), "inf inf 5x1");
    }

    #[test]
    fn an_answer_that_is_none_of_a_node_is_an_error() {
        let mut scraped = ScrapedSeries::new(BTreeSet::new());
        assert!(scraped.add([("n-1:1", Some("<html>"))].into_iter()).is_err());
    }
}
