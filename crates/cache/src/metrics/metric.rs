//! The description of a metric.

/// The description of one metric. Its name ends with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name under which it is exported.
    pub name: &'static str,
    /// Whether it counts, measures or observes.
    pub kind: MetricKind,
    /// Names of its labels, in no order that matters.
    pub labels: &'static [&'static str],
    /// A sentence that says what it counts or measures.
    pub help: &'static str,
}

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Rises from the start of the process on.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations by their size.
    Histogram,
}

impl Metric {
    /// Describes a metric that only rises.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Counter, labels, help }
    }

    /// Describes a metric that rises and falls.
    #[must_use]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Gauge, labels, help }
    }

    /// Describes a metric that counts observations by their size.
    #[must_use]
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Histogram, labels, help }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; so large a count needs no last digit")]
pub(crate) const fn float(number: u64) -> f64 {
    number as f64
}
