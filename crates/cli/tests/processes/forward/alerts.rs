//! Real faults set off the alerts of forwarders.

use std::{
    fmt::Write as _,
    fs,
    time::{Duration, SystemTime},
};

use serde_json::json;

use super::{PATIENCE, scene::Scene};
use crate::{
    deploy::{files::text, promtool::promtool},
    polls::until,
    receiver::Reaction,
    spawned::http,
};

/// What a scrape of the forwarder returns, as series that keep their values for ten minutes, and which alert
/// has to fire then.
fn cases(scraped: &str, alert: Option<&str>) -> String {
    let labels = r#"{job="kith-forward",instance="search:7602"}"#;
    let mut file =
        "rule_files: [alerts.yml]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n"
            .to_owned();
    let samples = scraped.lines().filter(|line| !line.starts_with('#')).chain(["up 1"]);
    for (name, value) in samples.filter_map(|line| line.split_once(' ')) {
        writeln!(file, "      - {{ series: '{name}{labels}', values: '{value}x40' }}").unwrap();
    }
    let fired = alert.map(|alert| {
        format!("{{ labels: 'ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",instance=\"search:7602\",job=\"kith-forward\",severity=\"warning\"}}', value: 1 }}")
    });
    file + &format!(
        "    promql_expr_test:\n      - {{ expr: 'ALERTS{{alertstate=\"firing\"}}', eval_time: 10m, exp_samples: [{}] }}\n",
        fired.unwrap_or_default()
    )
}

#[track_caller]
fn assert_fires(scraped: &str, alert: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    // The rules of nodes look at nodes, of which none is scraped here.
    let rules = text("deploy/prometheus/alerts.yml");
    let (head, of_forwarders) = rules.split_once("      - alert: KithForwardLags").unwrap();
    let (of_forwarders, _) = of_forwarders.split_once("      - alert: KithHitRateFell").unwrap();
    let (head, _) = head.split_once("      - alert: ").unwrap();
    let rules = format!("{head}      - alert: KithForwardLags{of_forwarders}");
    fs::write(folder.path().join("alerts.yml"), rules).unwrap();
    let file = folder.path().join("alerts_test.yml");
    fs::write(&file, cases(scraped, alert)).unwrap();
    let (is_so, output) = promtool(&["test", "rules"], &file);
    assert!(is_so, "{alert:?} after {scraped}: {output}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs promtool: run cargo xtask test"]
async fn refused_records_set_off_parks() {
    let scene = Scene::set(|request| match request.json()["data"]["key"]["userId"] == "8" {
        true => Reaction::Status(422),
        false => Reaction::Status(200),
    })
    .await;
    let _forwarder = scene.forward().await;
    let scraped = || http(&scene.metrics, "GET", "/metrics").1;
    scene.call("CreateUser", &json!({"user": {"userId": 7, "userName": "ann"}}));
    until(PATIENCE, async || scraped().contains("kith_forward_delivered_total 1")).await;
    assert_fires(&scraped(), None);
    scene.call("CreateUser", &json!({"user": {"userId": 8, "userName": "bob"}}));
    until(PATIENCE, async || scraped().contains("kith_forward_parked 1")).await;
    assert_fires(&scraped(), Some("KithForwardParks"));
}

/// The receiver was away for an hour, as the state says, and does not answer still.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs promtool: run cargo xtask test"]
async fn silent_receiver_sets_off_lags() {
    let scene = Scene::set(|_| Reaction::Hang).await;
    drop(scene.forward().await);
    let file = scene.folder.path().join("forward/search.json");
    let mut state: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    let since = hour_ago.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    state["caught_up"] = u64::try_from(since.as_millis()).unwrap().into();
    scene.call("CreateUser", &json!({"user": {"userId": 7, "userName": "ann"}}));
    fs::write(&file, state.to_string()).unwrap();
    let _forwarder = scene.forward().await;
    scene.receiver.until(1).await;
    assert_fires(&http(&scene.metrics, "GET", "/metrics").1, Some("KithForwardLags"));
}
