//! Compares the files in `deploy/` with the product: boards and alerts name exported metrics, every alert has
//! a section in the runbook and test cases, and nodes know every setting.

#![cfg(all(feature = "embedded", feature = "cluster"))]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

mod entry_points;
pub(crate) mod files;
mod nodes;
mod promql;
pub(crate) mod promtool;
mod runbook;
mod stage;
mod table;
mod unit;

use std::collections::BTreeSet;

use files::{alerts, queries, shown, text};
use promql::named;
use table::violations;

#[test]
fn alerts_name_metrics_of_the_table() {
    let alerts = alerts();
    assert!(alerts.len() >= 10, "found only {alerts:?}");
    for alert in alerts {
        let named = named(&alert.expression);
        assert!(!named.metrics.is_empty(), "{} looks at nothing", alert.name);
        assert_eq!(violations(&named, &[]), Vec::<String>::new(), "{}", alert.name);
    }
}

#[test]
fn boards_name_metrics_of_the_table() {
    let queries = queries();
    assert!(queries.len() >= 40, "found only {}", queries.len());
    let mut seen = BTreeSet::new();
    for query in queries {
        let named = named(&query.expression);
        assert!(!named.metrics.is_empty(), "{} looks at nothing", query.place);
        assert_eq!(violations(&named, &shown(&query.legend)), Vec::<String>::new(), "{}", query.place);
        seen.extend(named.metrics.into_keys());
    }
    for board in ["kith_observer_lag_seconds_bucket", "kith_rpc_requests_total", "kith_cache_loads_total"] {
        assert!(seen.contains(board), "no board shows {board}");
    }
}

#[test]
fn what_is_in_no_table_is_noticed() {
    let violations =
        |expression: &str, legend: &str| violations(&named(expression), &shown(legend)).join("; ");
    assert_eq!(violations("rate(kith_cache_load_total[5m])", ""), "there is no metric kith_cache_load_total");
    assert_eq!(violations("kith_rpc_seconds", ""), "there is no metric kith_rpc_seconds");
    assert_eq!(violations("kith_serving_bucket", ""), "there is no metric kith_serving_bucket");
    assert_eq!(violations("kith_serving{method=\"a\"}", ""), "kith_serving has no label method");
    assert_eq!(violations("sum by (tier) (kith_serving)", ""), "nothing has a label tier");
    assert_eq!(violations("kith_serving", "{{tier}}"), "nothing has a label tier");
    assert_eq!(
        violations("kith_bus_repairs_total{cause=~\"fork|knife\"}", ""),
        "no source gives cause the value knife"
    );
    assert_eq!(
        violations("sum by (le) (kith_rpc_seconds_bucket{code=~\"$code\"})", ""),
        "kith_rpc_seconds_bucket has no label code"
    );
}

/// For example, `#kithnodenotserving` leads to `### KithNodeNotServing`.
#[test]
fn every_alert_has_severity_and_runbook() {
    for alert in alerts() {
        assert!(
            ["{ severity: critical }", "{ severity: warning }"].contains(&alert.severity.as_str()),
            "{alert:?}"
        );
        assert!(alert.waits.ends_with(['s', 'm']) && alert.summary.ends_with('.'), "{alert:?}");
        let (document, anchor) = alert.runbook.split_once('#').unwrap();
        assert_eq!(anchor, alert.name.to_lowercase());
        let headed = text(document).lines().filter(|line| *line == format!("### {}", alert.name)).count();
        assert_eq!(headed, 1, "{document} has no part that is headed {}", alert.name);
    }
}

#[test]
fn every_part_of_the_runbook_is_of_an_alert() {
    let names: BTreeSet<String> = alerts().into_iter().map(|alert| alert.name).collect();
    let document = text("docs/operate/runbook.md");
    let headed = document.lines().filter_map(|line| line.strip_prefix("### Kith"));
    let headed: BTreeSet<String> = headed.map(|name| format!("Kith{name}")).collect();
    assert_eq!(headed, names);
}

#[test]
fn every_alert_has_a_firing_and_a_silent_case() {
    let cases = text("deploy/prometheus/alerts_test.yml");
    // Within the hour in which all are.
    let (hour, others) =
        cases.split_once("  - name: a healthy hour").unwrap().1.split_once("  - name: ").unwrap();
    assert!(hour.contains("ALERTS{alertstate=\"firing\"}"));
    for alert in alerts() {
        let name = alert.name;
        assert!(hour.contains(&format!("alertname: {name}, exp_alerts: []")), "{name} in a healthy hour?");
        let fires = format!("alertname: {name}\n        exp_alerts:\n          - exp_labels:");
        assert!(others.contains(&fires), "{name} never fires");
        assert!(others.contains(&format!("alertname: {name}, exp_alerts: []")), "{name} is never silent");
    }
}
