//! `docs/reference/metrics.md`.

use kith_server::metrics_table;
use kith_service::metric::{Metric, MetricKind};

use super::markdown::{begin, code, definitions, ended};

const HEAD: &str = "\
`GET /metrics` on the operations port (`operations.listen`) exports these in the text format of Prometheus. \
A name ends with its unit, `_seconds` or `_bytes`; others are counts. A histogram NAME is exported as \
`NAME_bucket` with the label `le`, `NAME_sum` and `NAME_count`. Labels are in braces. No label holds an id, \
a name or an address; `namespace` is a kind of record (`user`, `group`).

";

const OF_FORWARDERS: &str = "\
## Of a forwarder

`kith forward webhook` exports these with `--metrics-addr`. Names with `_total` are counters, the others gauges.

";

/// A list for each kind of metric.
pub(super) fn write() -> String {
    let mut text = begin("Metrics", "the tables that `crates/service/src/metric.rs` joins") + HEAD;
    let metrics = metrics_table::all();
    let kinds = [
        ("Counters", MetricKind::Counter),
        ("Gauges", MetricKind::Gauge),
        ("Histograms", MetricKind::Histogram),
    ];
    for (title, kind) in kinds {
        let rows = metrics.iter().filter(|metric| metric.kind == kind).map(row);
        text += &format!("## {title}\n\n{}", definitions(rows));
    }
    text += OF_FORWARDERS;
    text +=
        &definitions(kith_forward::METRICS.iter().map(|metric| [code(metric.name), metric.help.to_owned()]));
    ended(&text)
}

fn row(metric: &Metric) -> [String; 2] {
    let labels =
        if metric.labels.is_empty() { String::new() } else { format!("{{{}}}", metric.labels.join(",")) };
    [code(&format!("{}{labels}", metric.name)), metric.help.to_owned()]
}
