//! Compares the metrics table with the metrics that a node exports and the names in the sources.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::large_futures, reason = "a node is large")]

#[path = "it/edge/mod.rs"]
mod edge;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use kith_proto::user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient};
use kith_server::Node;
use kith_service::metric::{Metric, MetricKind};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

/// Label names by metric name, from the text in `/metrics`.
type Exported = BTreeMap<String, BTreeSet<String>>;

/// Returns the metrics that a node exports once it has written and read a user.
async fn exported() -> (String, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let mut config = edge::config();
    config.data_dir = data.path().join("data");
    let node = Node::start(config).await.unwrap();
    let address = node.addresses();
    let mut users = UserServiceClient::connect(format!("http://{}", address.grpc)).await.unwrap();
    let user = User { user_id: 7, user_name: "ann".to_owned(), ..User::default() };
    users.create_user(CreateUserRequest { user: Some(user), ..Default::default() }).await.unwrap();
    for user_id in [7, 8] {
        drop(users.get_user(GetUserRequest { user_id, consistency: None }).await);
    }
    drop(users);
    let mut answer = String::new();
    // The node measures its store in the background.
    let measured = async {
        while !answer.contains("\nkith_store_up{") || !answer.contains("\nkith_store_free_bytes ") {
            answer = metrics(address.operations.unwrap()).await;
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(20), measured).await.unwrap();
    assert!(node.stop(std::future::ready(())).await);
    (answer, data)
}

async fn metrics(operations: SocketAddr) -> String {
    let mut socket = TcpStream::connect(operations).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Returns the samples; a histogram's samples are under its own name.
fn samples(text: &str) -> Exported {
    let mut found = Exported::new();
    for line in text.lines().filter(|line| line.starts_with("kith_") || line.starts_with("process_")) {
        let (sample, _value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
        let labels = labels.map(|(label, _)| label.to_owned()).filter(|label| label != "le");
        found.entry(of_histogram(name).to_owned()).or_default().extend(labels);
    }
    found
}

fn of_histogram(name: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Nodes that have callers, or certificates, export these: other tests check them.
const OF_OTHER_NODES: [&str; 2] = ["kith_caller_calls_total", "kith_tls_certificate_expire_seconds"];

/// Returns whether the cluster tests check this metric.
fn is_of_clusters(name: &str) -> bool {
    ["kith_bus_", "kith_redis_", "kith_observer_", "kith_node_records_", "kith_feed_"]
        .iter()
        .any(|of| name.starts_with(of))
}

#[tokio::test]
async fn node_exports_exactly_the_table() {
    let (text, _data) = exported().await;
    let is_here = |name: &str| !is_of_clusters(name) && !OF_OTHER_NODES.contains(&name);
    let all: Vec<Metric> =
        kith_server::metrics_table::all().into_iter().filter(|metric| is_here(metric.name)).collect();
    let table: Exported = all
        .iter()
        .map(|metric| {
            (metric.name.to_owned(), metric.labels.iter().map(|label| (*label).to_owned()).collect())
        })
        .collect();
    assert_eq!(samples(&text), table);
    for Metric { name, kind, help, .. } in all {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is no {kind} in\n{text}");
        assert!(text.contains(&format!("# HELP {name} {help}\n")), "{name} is not explained in\n{text}");
    }
}

/// A name written where it is counted would be missing in the table.
#[test]
fn sources_name_metrics_by_the_tables() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut counted = 0;
    for file in sources(crates) {
        let text = fs::read_to_string(&file).unwrap();
        for macro_name in ["counter!(", "gauge!(", "histogram!("] {
            for rest in text.split(macro_name).skip(1) {
                assert!(!rest.trim_start().starts_with('"'), "{}: {macro_name}{:.40}", file.display(), rest);
                counted += 1;
            }
        }
    }
    assert!(counted >= 15, "found only {counted}");
}

/// Returns every crate's sources, without test sources.
fn sources(crates: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let folders = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut left: Vec<_> = folders.filter(|folder| folder.is_dir()).collect();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn names_end_with_what_they_are() {
    for Metric { name, kind, help, .. } in kith_server::metrics_table::all() {
        let has_prefix = name.starts_with("kith_") || name.starts_with("process_");
        assert!(has_prefix && help.ends_with('.'), "{name}: {help}");
        assert_eq!(kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
    }
}
