//! Runs `kith serve --ephemeral` as other people's tests use it: the real program in an empty folder.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

mod refused;
mod snippets;
mod spawn;

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use kith_proto::{
    group::v1::{SearchGroupsRequest, group_service_client::GroupServiceClient},
    user::v1::{CreateUserRequest, FindUserByNameRequest, User, user_service_client::UserServiceClient},
};
use parking_lot::Mutex;
use spawn::{Node, PATIENCE, files, listens, ports};

use crate::{
    polls::block_until,
    spawned::{Started, signal},
};

const NODES: usize = 24;
const AT_ONCE: usize = 4;

#[test]
fn nodes_leave_no_port_file_or_process() {
    let (next, ready) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < NODES {
                    ready.lock().push(one_node());
                }
            });
        }
    });
    let mut ready = ready.into_inner();
    ready.sort();
    assert_eq!(ready.len(), NODES);
    println!("{NODES} nodes, {AT_ONCE} at a time: {}", spread(&ready));
    let mut alone: Vec<_> = (0..4).map(|_| one_node()).collect();
    alone.sort();
    println!("4 nodes, one at a time: {}", spread(&alone));
}

fn spread(times: &[Duration]) -> String {
    let (first, median, last) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    format!("ready within {first:.1?} at least, {median:.1?} in the median, {last:.1?} at most")
}

/// Starts and stops a node. Returns how long it took to be ready.
fn one_node() -> Duration {
    let node = Node::start(&["--ephemeral"]);
    let (grpc, operations, ready) = (node.ports.grpc.clone(), node.ports.operations.clone(), node.ready);
    assert!(listens(&grpc) && listens(&operations), "it says that it serves and does not");
    let (code, errors, left) = node.stop();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(errors, "", "it is quiet");
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
    ready
}

/// A pipe whose end the node holds shows when it is gone, even if another process reaps it.
#[test]
fn a_node_ends_with_its_parent_however_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let kith = format!(
        "{:?} serve --ephemeral --port 0 --operations-port 0 --ports-file ports.json --exit-with-parent & wait",
        env!("CARGO_BIN_EXE_kith")
    );
    let mut parent = Command::new("sh")
        .args(["-c", &kith])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ports = ports(folder.path());
    assert_ne!(ports.pid, parent.id(), "the node is a child of the shell");
    signal(parent.id(), "-KILL");
    let killed = Instant::now();
    let mut out = parent.stdout.take().unwrap();
    let ended = thread::spawn(move || out.read_to_end(&mut Vec::new()));
    block_until(PATIENCE, || ended.is_finished(), || "the node is there");
    println!("gone {:.1?} after its parent", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    assert!(!listens(&ports.grpc) && !listens(&ports.operations));
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new());
    parent.wait().unwrap();
}

#[test]
fn a_node_does_not_end_with_its_parent_unasked() {
    let node = Node::start(&["--ephemeral", "--exit-with-parent"]);
    let is_listening = listens(&node.ports.grpc);
    assert!(is_listening);
    assert_eq!(node.stop().0, Some(0));
}

#[test]
fn ports_file_of_an_earlier_node_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let stale = r#"{"grpc":"127.0.0.1:1","operations":"127.0.0.1:2","pid":3}"#;
    let file = folder.path().join("ports.json");
    fs::write(&file, stale).unwrap();
    let node = Started::of(spawn::serve(folder.path(), &["--ephemeral"]));
    let is_new = || fs::read_to_string(&file).is_ok_and(|text| text != stale);
    block_until(PATIENCE, is_new, || "the file is the earlier one");
    assert_eq!(ports(folder.path()).pid, node.id());
    // Another node took the file over, so this node must not remove it.
    fs::write(&file, stale).unwrap();
    node.stop();
    assert_eq!(fs::read_to_string(&file).unwrap(), stale);
}

#[tokio::test]
async fn a_seed_holds_users_and_groups_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"userId":"7","userName":"ann","version":"3","createTime":"1970-01-01T00:00:01.000Z"}"#,
        "",
        r#"{"user":{"userName":"bob"}}"#,
        r#"{"group":{"name":"chess","visibility":"VISIBILITY_PUBLIC"}}"#,
        r#"{"name":"go","visibility":"VISIBILITY_PUBLIC","creatorId":"7"}"#,
    ];
    fs::write(folder.path().join("seed.jsonl"), lines.join("\n")).unwrap();
    let node = Node::start_in(folder, &["--ephemeral", "--seed", "seed.jsonl"]);
    let address = format!("http://{}", node.ports.grpc);
    let mut users = UserServiceClient::connect(address.clone()).await.unwrap();
    for name in ["ann", "bob"] {
        let request = FindUserByNameRequest { user_name: name.to_owned(), consistency: None };
        let found = users.find_user_by_name(request).await.unwrap().into_inner().user.unwrap();
        assert_eq!(found.user_id == 7, name == "ann");
    }
    let mut groups = GroupServiceClient::connect(address).await.unwrap();
    for name in ["chess", "go"] {
        let request = SearchGroupsRequest { keyword: name.to_owned(), ..Default::default() };
        assert_eq!(groups.search_groups(request).await.unwrap().into_inner().groups.len(), 1, "{name}");
    }
}

/// The test needs two threads: the client has to see that the node closes its connection while the test waits
/// for the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_keeps_data_has_a_ports_file() {
    let node = Node::start(&[]);
    let mut users = UserServiceClient::connect(format!("http://{}", node.ports.grpc)).await.unwrap();
    let user = User { user_name: "ann".to_owned(), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    users.create_user(request).await.unwrap();
    drop(users);
    let (code, _, left) = node.stop();
    assert_eq!(code, Some(0));
    assert!(left.len() == 1 && left[0].ends_with("data"), "{left:?}");
}

#[test]
fn a_sandbox_is_a_header_of_json_too() {
    let node = Node::start(&["--ephemeral"]);
    let call = |method: &str, sandbox: &str| {
        let url = format!("http://{}/kith.user.v1.UserService/{method}", node.ports.grpc);
        let body =
            if method == "CreateUser" { r#"{"user":{"userName":"ann"}}"# } else { r#"{"userName":"ann"}"# };
        let sandbox = format!("kith-sandbox: {sandbox}");
        let json = "content-type: application/json";
        let output =
            Command::new("curl").args(["-sS", "-H", json, "-H", &sandbox, "-d", body, &url]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(call("CreateUser", "a").contains(r#""userName":"ann""#));
    assert!(call("FindUserByName", "a").contains(r#""userName":"ann""#));
    assert!(call("FindUserByName", "b").contains("not_found"), "{}", call("FindUserByName", "b"));
    assert!(call("FindUserByName", "a.b").contains("kith-sandbox"), "{}", call("FindUserByName", "a.b"));
}
