//! Metrics that only cluster nodes export.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    cluster::site::{Site, stop},
    polls::until,
};

fn is_of_clusters(name: &str) -> bool {
    ["kith_bus_", "kith_redis_", "kith_node_records_"].iter().any(|of| name.starts_with(of))
}

/// Label names by metric name.
type Exported = BTreeMap<String, BTreeSet<String>>;

fn samples(text: &str) -> Exported {
    let mut found = Exported::new();
    for line in text.lines().filter(|line| is_of_clusters(line)) {
        let (sample, _value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let name =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let labels = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
        let labels = labels.map(|(label, _)| label.to_owned()).filter(|label| label != "le");
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn node_exports_the_metrics_of_following() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    b.get(id).await;
    a.rename(id, "new").await;
    until(Duration::from_secs(1), async || b.get(id).await.nick_name == "new").await;
    let text = b.operations("/metrics").await;
    let table = kith_server::metrics_table::all().into_iter().filter(|metric| is_of_clusters(metric.name));
    let table: Exported = table
        .map(|metric| {
            (metric.name.to_owned(), metric.labels.iter().map(|label| (*label).to_owned()).collect())
        })
        .collect();
    assert_eq!(samples(&text), table);
    assert!(table.len() >= 12, "{table:?}");
    stop([a, b]).await;
}
