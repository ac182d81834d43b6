//! Runs `kith doctor` with and without problems.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use serde_json::Value;

use super::{CommandOutput, command, output_of, serve};
use crate::{polls::block_until, process::free_address, spawned::KilledOnDrop};

/// The time within which a node that has just been started is found.
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// Runs it in `dir`, with free ports and few connections, so that the test machine does not matter.
fn doctor(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
    let mut command = command(dir);
    command.args(["doctor", "-o", "json", "--set", "limits.connections=16"]);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0", "--set", "operations.listen=127.0.0.1:0"]);
    }
    command.args(arguments).envs(environment.iter().copied());
    output_of(command, "")
}

/// Returns the only finding.
#[track_caller]
fn finding(ended: &CommandOutput) -> (String, String, String) {
    let found = ended.json()["findings"].as_array().unwrap().clone();
    assert!(ended.code == 1 && found.len() == 1, "{ended:?}");
    let text = |name: &str| found[0][name].as_str().unwrap().to_owned();
    (text("group"), text("finding"), text("run"))
}

#[test]
fn healthy_machine_has_no_findings() {
    let dir = tempfile::tempdir().unwrap();
    let well = doctor(dir.path(), &[], &[]);
    assert_eq!((well.code, &well.json()["findings"]), (0, &Value::Array(Vec::new())), "{well:?}");
    assert!(well.err.contains("nothing found wrong; looked at environment"), "{well:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn each_fault_is_found_with_the_line_to_run() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (listen, show) = (format!("127.0.0.1:{port}"), format!("ss -ltnp 'sport = :{port}'"));
    let free = format!("store.mongodb.uri=mongodb://ann:sesame@{}/", free_address());
    let cluster =
        ["--set", "store.backend=cluster", "--set", &free, "--set", "store.mongodb.server_selection=100ms"];
    let operations_off = ["--listen", &listen, "--set", "operations.enabled=false"];
    for (arguments, environment, group, run) in [
        (&["--set", "limits.in_flight=x"][..], &[][..], "configuration", "kith config --check"),
        (&[], &[("KITH_LOG", "1")], "configuration", "unset KITH_LOG"),
        (&[], &[("KITH_LISTEN", "'127.0.0.1:7600'")], "configuration", "export KITH_LISTEN=VALUE"),
        (&[], &[("HTTP_PROXY", "http://proxy:1")], "environment", "export NO_PROXY=127.0.0.1"),
        (&["--set", "limits.connections=100000000"], &[], "machine", "ulimit -n 100000256"),
        (&["--data-dir", "/dev/null"], &[], "data", "ls -ld /dev/null"),
        (&operations_off, &[], "port", show.as_str()),
        #[cfg(feature = "cluster")]
        (&cluster, &[], "store", "mongosh \"$KITH_STORE__MONGODB__URI\""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let ended = doctor(dir.path(), arguments, environment);
        let found = finding(&ended);
        assert!(found.0 == group && found.2.starts_with(run), "{found:?}");
        assert!(!ended.out.contains("sesame") && !ended.err.contains("sesame"), "{ended:?}");
    }
}

#[cfg(feature = "cluster")]
#[test]
fn absent_redis_is_found_without_its_password() {
    let dir = tempfile::tempdir().unwrap();
    let (mongodb, redis) = (free_address(), free_address());
    let mongodb = format!("store.mongodb.uri=mongodb://{mongodb}/");
    let redis = format!("redis.url=redis://:sesame@{redis}");
    let limit = "store.mongodb.server_selection=100ms";
    let mut arguments = vec!["--set", "store.backend=cluster", "--set", &mongodb, "--set", &redis];
    arguments.extend(["--set", limit, "--timeout", "200ms"]);
    let ended = doctor(dir.path(), &arguments, &[]);
    let found = ended.json()["findings"].as_array().unwrap().clone();
    let groups: Vec<_> = found.iter().map(|one| one["group"].as_str().unwrap()).collect();
    assert_eq!(groups, ["store", "redis"], "{ended:?}");
    assert!(found[1]["run"].as_str().unwrap().starts_with("redis-cli -u \"$KITH_REDIS__URL\""), "{ended:?}");
    assert!(!ended.out.contains("sesame") && !ended.err.contains("sesame"), "{ended:?}");
}

#[test]
fn unfit_data_files_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, file) = (dir.path().join("data"), dir.path().join("data/kith.db"));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let (group, text, run) = finding(&doctor(dir.path(), &[], &[]));
    assert!(group == "store" && text.contains("pending") && run == "kith migrate", "{text}");
    fs::write(&file, "this is some other file, which SQLite does not know as one of its own".repeat(20))
        .unwrap();
    let (group, text, _) = finding(&doctor(dir.path(), &[], &[]));
    assert!(group == "store" && text.contains("is not a kith data file"), "{text}");
    fs::remove_file(&file).unwrap();
    let mut migrate = command(dir.path());
    migrate.arg("migrate");
    assert_eq!(output_of(migrate, "").code, 0);
    assert_eq!(doctor(dir.path(), &[], &[]).code, 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (group, _, run) = finding(&doctor(dir.path(), &[], &[]));
    assert!(group == "data" && run == "chmod go= ./data/kith.db*", "{run}");
}

/// Starts a node that listens at these addresses. Before that, `kith doctor` tries to listen there itself,
/// and may take the port from the node.
fn listening(dir: &Path, flags: &[&str], addresses: [&str; 2]) -> KilledOnDrop {
    let node = serve(dir, flags);
    let listens = || addresses.iter().all(|address| TcpStream::connect(address).is_ok());
    block_until(FOUND_WITHIN, listens, || "the node does not listen");
    node
}

#[test]
fn displaced_connections_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (listen, operations) = (free_address(), free_address());
    let set = format!("operations.listen={operations}");
    let flags = ["--listen", &listen, "--set", &set, "--set", "limits.connections=4"];
    let _serving = listening(dir.path(), &flags, [&listen, &operations]);
    let displaced = |one: &Value| {
        one["group"] == "node" && one["finding"].as_str().unwrap().contains("limits.connections (4)")
    };
    let is_found = || {
        drop((0..8).map(|_| TcpStream::connect(&listen)).collect::<Vec<_>>());
        doctor(dir.path(), &flags, &[]).json()["findings"].as_array().unwrap().iter().any(displaced)
    };
    block_until(FOUND_WITHIN, is_found, || format!("{:?}", doctor(dir.path(), &flags, &[])));
}

#[test]
fn healthy_node_on_this_machine_is_no_finding() {
    let dir = tempfile::tempdir().unwrap();
    let (listen, operations) = (free_address(), free_address());
    let set = format!("operations.listen={operations}");
    let flags = ["--listen", &listen, "--set", &set];
    let _serving = listening(dir.path(), &flags, [&listen, &operations]);
    let is_well = || {
        let found = doctor(dir.path(), &flags, &[]);
        let looked_at = found.json()["looked_at"].clone();
        looked_at.as_array().unwrap().iter().any(|group| group == "node") && found.code == 0
    };
    block_until(FOUND_WITHIN, is_well, || format!("{:?}", doctor(dir.path(), &flags, &[])));
}

#[cfg(feature = "cluster")]
#[test]
#[ignore = "needs MongoDB: run cargo xtask test"]
fn unconfigured_relations_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (_, uri) = std::env::vars().find(|(name, _)| name == "KITH_TEST_MONGODB").unwrap();
    let database = format!("store.mongodb.database=kith_doctor_{}", std::process::id());
    let uri = format!("store.mongodb.uri={uri}");
    let arguments = [
        "--set",
        "store.backend=cluster",
        "--set",
        &uri,
        "--set",
        &database,
        "--set",
        "store.migrate=manual",
    ];
    let ended = doctor(dir.path(), &arguments, &[]);
    let found = ended.json()["findings"].as_array().unwrap().clone();
    let texts: Vec<_> = found.iter().map(|one| one["finding"].as_str().unwrap()).collect();
    assert!(texts.len() == 2 && texts[0].starts_with("store.cql.contact_points is not set"), "{ended:?}");
    assert!(texts[1].contains("migrations are pending"), "{ended:?}");
    assert_eq!(found[0]["run"], "kith config | grep store.cql");
}
