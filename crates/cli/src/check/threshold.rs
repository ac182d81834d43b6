//! The warning and critical thresholds for checks.

use super::Level;

/// A value given for a threshold.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ThresholdOverride {
    name: &'static str,
    value: Option<f64>,
}

/// The thresholds that were given, which replace the defaults. If a name is given twice, the last value
/// counts.
#[derive(Debug)]
pub(super) struct Overrides<'a> {
    pub(super) warn: &'a [ThresholdOverride],
    pub(super) critical: &'a [ThresholdOverride],
}

/// A value with its thresholds.
#[derive(Clone, Debug)]
pub(super) struct Threshold {
    pub(super) name: &'static str,
    /// The value from which the check warns; `None`: never.
    pub(super) warn: Option<f64>,
    /// The value from which the check is critical; `None`: never.
    pub(super) critical: Option<f64>,
    /// Whether lower values are worse.
    below: bool,
    /// Whether it does not apply to single-node mode.
    pub(super) of_cluster: bool,
}

/// Full memory with few hits is not a fault by itself; these are only checked on request.
const DEFAULTS: [Threshold; 13] = [
    Threshold { warn: Some(1.0), ..NEVER.named("migrations_pending") },
    Threshold { below: true, ..NEVER.named("memory_hit_rate") },
    NEVER.named("memory_used"),
    Threshold { warn: Some(1.0), ..NEVER.named("log_lines_dropped") },
    Threshold { warn: Some(0.7), critical: Some(0.9), ..NEVER.named("calls_used") },
    Threshold { warn: Some(1.0), critical: Some(30.0), ..NEVER.named("clock_seconds") },
    Threshold {
        warn: Some(256.0 * MIB),
        critical: Some(16.0 * MIB),
        below: true,
        ..NEVER.named("store_free_bytes")
    },
    Threshold { critical: Some(1.0), ..NEVER.named("damaged_reads") },
    // By default one proof lets memory be trusted for 1.5 s; 3 s are promised.
    Threshold { warn: Some(1.0), critical: Some(3.0), ..CLUSTER.named("proof_seconds") },
    Threshold { warn: Some(1.0), critical: Some(1_000.0), ..CLUSTER.named("changes_waiting") },
    Threshold { warn: Some(1_000.0), critical: Some(10_000.0), ..CLUSTER.named("entries_behind") },
    Threshold { warn: Some(1.0), ..CLUSTER.named("resync_stale") },
    Threshold { warn: Some(1.0), ..CLUSTER.named("observer_stale") },
];

const MIB: f64 = 1_048_576.0;
const NEVER: Threshold = Threshold { name: "", warn: None, critical: None, below: false, of_cluster: false };
const CLUSTER: Threshold = Threshold { of_cluster: true, ..NEVER };

impl ThresholdOverride {
    /// Reads `NAME=VALUE`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("say NAME=VALUE")?;
        let known = DEFAULTS.iter().find(|threshold| threshold.name == name).ok_or_else(|| {
            let names = DEFAULTS.map(|threshold| threshold.name);
            format!("no check {name}; there are {}", names.join(", "))
        })?;
        let value = match value {
            "none" => None,
            number => Some(number.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("no number")?),
        };
        Ok(Self { name: known.name, value })
    }
}

/// Returns all thresholds, with given values instead of the defaults.
pub(super) fn all(overrides: &Overrides<'_>) -> Vec<Threshold> {
    let given = |limits: &[ThresholdOverride], name: &str| {
        limits.iter().rev().find(|limit| limit.name == name).map(|limit| limit.value)
    };
    let threshold = |default: Threshold| Threshold {
        warn: given(overrides.warn, default.name).unwrap_or(default.warn),
        critical: given(overrides.critical, default.name).unwrap_or(default.critical),
        ..default
    };
    DEFAULTS.into_iter().map(threshold).collect()
}

impl Threshold {
    /// Returns this threshold for another value.
    const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Returns a value's level.
    pub(super) fn level(&self, value: f64) -> Level {
        let past = |limit: Option<f64>| {
            limit.is_some_and(|limit| if self.below { value <= limit } else { value >= limit })
        };
        match (past(self.critical), past(self.warn)) {
            (true, _) => Level::Critical,
            (false, true) => Level::Warning,
            (false, false) => Level::Ok,
        }
    }
}

/// Formats a value with at most four decimal places.
pub(super) fn shown(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, value: f64, warn: &[&str], critical: &[&str]) -> Level {
        let limits = |texts: &[&str]| {
            texts.iter().map(|text| ThresholdOverride::parse(text).unwrap()).collect::<Vec<_>>()
        };
        let (warn, critical) = (limits(warn), limits(critical));
        let all = all(&Overrides { warn: &warn, critical: &critical });
        all.iter().find(|threshold| threshold.name == name).unwrap().level(value)
    }

    #[test]
    fn value_is_compared_with_its_thresholds() {
        assert_eq!(level("calls_used", 0.5, &[], &[]), Level::Ok);
        assert_eq!(level("calls_used", 0.7, &[], &[]), Level::Warning);
        assert_eq!(level("calls_used", 0.95, &[], &[]), Level::Critical);
        assert_eq!(level("calls_used", 0.95, &[], &["calls_used=none"]), Level::Warning);
        assert_eq!(level("memory_hit_rate", 0.2, &[], &[]), Level::Ok);
        assert_eq!(level("memory_hit_rate", 0.2, &["memory_hit_rate=0.5"], &[]), Level::Warning);
        assert_eq!(level("memory_hit_rate", 0.6, &["memory_hit_rate=0.5"], &[]), Level::Ok);
    }

    #[test]
    fn unknown_limit_is_refused_with_all_names() {
        assert!(ThresholdOverride::parse("calls=1").unwrap_err().contains("calls_used"));
        for text in ["calls_used", "calls_used=", "calls_used=x", "calls_used=NaN"] {
            assert!(ThresholdOverride::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 1.0, 0.123_456, 10.0].map(shown), ["0", "1", "0.1235", "10"]);
    }
}
