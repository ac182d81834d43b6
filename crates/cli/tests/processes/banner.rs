//! The banner: every address in it answers, its line about the data is true, and standard output has nothing
//! else.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::spawned::{FREE, Started, http, kith, output_of};
use kith_proto::user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient};
use kith_server::build_info;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Returns the host, port and path in a banner URL.
fn parts(url: &Value) -> (String, String) {
    let rest = url.as_str().unwrap().strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    (address.to_owned(), format!("/{path}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_address_that_it_names_answers() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &[]);
    assert_eq!(node.banner["state"], "serving");
    assert_eq!(node.banner["version"], env!("CARGO_PKG_VERSION"));
    for (name, expected) in [("live", "alive"), ("ready", "\"ready\":true"), ("metrics", "kith_serving 1")] {
        let (address, path) = parts(&node.banner["urls"][name]);
        let (code, body) = http(&address, "GET", &path);
        assert!(code == 200 && body.contains(expected), "{name}: {code} {body}");
    }
    assert_eq!(node.banner["urls"]["api"], node.url());
    assert_eq!(node.readyz().1["version"], build_info::LONG);
    let mut health = HealthClient::new(node.channel().await);
    assert_eq!(health.check(HealthCheckRequest::default()).await.unwrap().into_inner().status, 1);
    drop(health);
    let (code, rest, _) = node.terminate();
    assert_eq!((code, rest.as_str()), (Some(0), ""), "nothing else on standard output");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_are_where_the_banner_says() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &[]);
    assert_eq!(node.banner["data"]["kept"], true);
    let place = node.banner["data"]["place"].as_str().unwrap().to_owned();
    assert!(place.starts_with('/') && std::path::Path::new(&place).is_file(), "{place}");
    let create = || CreateUserRequest {
        user: Some(User { user_name: "ada".to_owned(), ..User::default() }),
        ..CreateUserRequest::default()
    };
    UserServiceClient::new(node.channel().await).create_user(create()).await.unwrap();
    node.terminate();
    let node = Started::new(dir.path(), &[]);
    let again = UserServiceClient::new(node.channel().await).create_user(create()).await.unwrap_err();
    assert_eq!(again.code(), tonic::Code::AlreadyExists);
}

#[test]
fn lines_to_try_are_calls_that_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &[]);
    let [call, curl] = [0, 1].map(|line| node.banner["try"][line].as_str().unwrap().to_owned());
    let url = node.url();
    assert!(call.contains(&format!("call --addr {url} ")), "{call}");
    let path = curl.split_once(&format!("{url}/")).unwrap().1;
    let (service, method) = path.split_once('/').unwrap();
    let pool = DescriptorPool::decode(kith_proto::DESCRIPTOR_SET).unwrap();
    let service = pool.get_service_by_name(service).unwrap();
    let input = service.methods().find(|known| known.name() == method).unwrap().input();
    for line in [call, curl] {
        let body = line.split('\'').find(|part| part.starts_with('{')).unwrap();
        let mut reader = serde_json::Deserializer::from_str(body);
        DynamicMessage::deserialize(input.clone(), &mut reader).unwrap();
    }
}

/// Some orchestrators join standard output and standard error: then both are in one stream.
#[test]
fn banner_begins_as_lines_of_the_log_do() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &["--set", "telemetry.log_format=json"]);
    let logged = node.logged();
    let line: Value = serde_json::from_str(logged.lines().next().unwrap()).unwrap();
    for name in ["timestamp", "level", "message", "target"] {
        assert!(line[name].is_string() && node.banner[name].is_string(), "{name}: {line} {}", node.banner);
    }
    assert_eq!(node.banner["level"], "INFO");
}

#[test]
fn program_names_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = output_of(kith(dir.path(), &["--version"]));
    assert_eq!((code, out), (Some(0), format!("kith {}\n", build_info::LONG)));
    assert!(build_info::LONG.contains(build_info::COMMIT) && build_info::LONG.contains(build_info::DATE));
    let node = Started::new(dir.path(), &[]);
    assert_eq!(node.banner["commit"], build_info::COMMIT);
    let (commit, date) = (build_info::COMMIT, build_info::DATE);
    let labels = format!("version=\"{}\",commit=\"{commit}\",date=\"{date}\"", build_info::VERSION);
    assert_eq!(node.figure(&format!("kith_build_info{{{labels}}}")), 1);
    assert!(node.figure("process_resident_memory_bytes") > 1 << 20, "{}", node.metrics());
    assert!(node.figure("process_open_fds") > 3 && node.figure("process_threads") > 1);
    assert!(node.figure("process_start_time_seconds") > 1_700_000_000);
}

#[test]
fn banner_names_sources_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kith.toml"), "[limits]\nconnections = 3\n").unwrap();
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let mut command = kith(dir.path(), &FREE);
    command.env("KITH_SECRETS__INVITE_CODE_KEY", key);
    let node = Started::of(command);
    let sources: Vec<_> =
        node.banner["configuration"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let expected =
        ["defaults", "kith.toml", "KITH_SECRETS__INVITE_CODE_KEY", "--listen", "--set operations.listen"];
    assert_eq!(sources, expected);
    assert!(!node.banner.to_string().contains(key));
}

#[test]
fn people_get_the_same_in_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = kith(dir.path(), &FREE);
    command.args(["-o", "table", "--set", "operations.enabled=false"]);
    let mut process =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(process.stdout.take().unwrap()));
    let lines: Vec<String> = lines.map_while(Result::ok).take(10).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(lines[0], format!("kith {} serves", build_info::LONG));
    for (line, expected) in [
        (1, "(plaintext, this machine only)"),
        (2, "anyone on this machine: no key is set"),
        (3, "off (operations.enabled)"),
        (6, "data/kith.db  (kept)"),
        (7, "defaults, --listen"),
        (9, "call --addr http://127.0.0.1:"),
    ] {
        assert!(lines[line].contains(expected), "{expected}: {lines:#?}");
    }
}
