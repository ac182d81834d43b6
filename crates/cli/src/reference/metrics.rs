//! Writes `docs/metrics.md`.

use kith_server::metrics_table;
use kith_service::metric::{Metric, MetricKind};
use metrics::Unit;

use super::markdown::{begin, code, ended, table};

const HEAD: &str = "\
`GET /metrics` on the operations port (`operations.listen`) exports these in the text format of Prometheus. A \
histogram NAME is exported as `NAME_bucket` with the label `le`, `NAME_sum` and `NAME_count`. No label holds an id, a \
name or an address; `namespace` is a kind of record (`user`, `group`).

";

pub(super) fn write() -> String {
    let out_of = "`crates/service/src/metric.rs` and the tables of the crates that it joins";
    let rows: Vec<_> = metrics_table::all().iter().map(row).collect();
    ended(&(begin("Metrics", out_of) + HEAD + &table(["name", "kind", "unit", "labels", "meaning"], &rows)))
}

fn row(metric: &Metric) -> [String; 5] {
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let unit = metrics_table::unit(metric).as_ref().map_or("", Unit::as_str);
    let labels = metric.labels.iter().map(|label| code(label)).collect::<Vec<_>>().join(", ");
    [code(metric.name), kind.to_owned(), unit.to_owned(), labels, metric.help.to_owned()]
}
