//! The metrics that queries may use, according to the table that documents them.

use std::{collections::BTreeSet, fs, path::Path};

use kith_service::metric::MetricKind;

use crate::deploy::promql::NamesInUse;

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];
/// Labels whose exported values are written in the sources.
const CLOSED: [&str; 6] = ["cause", "code", "direction", "how", "result", "tier"];

/// Returns the labels of a series; `None`: there is no such series. A histogram is known by the names that it
/// exports.
fn labels(series: &str) -> Option<BTreeSet<String>> {
    let all = kith_server::metrics_table::all();
    let exact = all.iter().find(|metric| metric.name == series && metric.kind != MetricKind::Histogram);
    let of_histogram = || {
        all.iter().filter(|metric| metric.kind == MetricKind::Histogram).find(|metric| {
            let end = series.strip_prefix(metric.name);
            end.is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
        })
    };
    let le = series.ends_with("_bucket").then_some("le");
    let own: &[&str] = match series {
        "up" => &[],
        _ if kith_forward::METRICS.iter().any(|metric| metric.name == series) => &[],
        _ => exact.or_else(of_histogram)?.labels,
    };
    Some(own.iter().chain(&le).chain(&OF_PROMETHEUS).map(|label| (*label).to_owned()).collect())
}

/// Returns an expression's violations; its series are also distinguished by `shown`.
pub(crate) fn violations(named: &NamesInUse, shown: &[String]) -> Vec<String> {
    let (mut violations, mut all) = (Vec::new(), BTreeSet::new());
    for (series, selected) in &named.metrics {
        let Some(known) = labels(series) else {
            violations.push(format!("there is no metric {series}"));
            continue;
        };
        violations.extend(selected.difference(&known).map(|label| format!("{series} has no label {label}")));
        all.extend(known);
    }
    let used = named.grouped.iter().chain(shown);
    violations.extend(
        used.filter(|label| !all.contains(*label)).map(|label| format!("nothing has a label {label}")),
    );
    for (label, value) in named.values.iter().filter(|(label, _)| CLOSED.contains(&label.as_str())) {
        let unknown = value.split('|').filter(|value| !value.starts_with('$') && !is_written(value));
        violations.extend(unknown.map(|value| format!("no source gives {label} the value {value}")));
    }
    violations
}

/// Returns whether a source has this text as a whole.
fn is_written(value: &str) -> bool {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = [
        "cache/src/metrics/exposition.rs",
        "cache/src/remote/cluster/metrics.rs",
        "delivery/src/metrics/mod.rs",
        "server/src/auth/refused.rs",
        "server/src/edge/codes.rs",
        "service/src/notice/counts/scan.rs",
    ];
    let quoted = format!("\"{value}\"");
    files.iter().any(|file| fs::read_to_string(crates.join(file)).unwrap().contains(&quoted))
}
