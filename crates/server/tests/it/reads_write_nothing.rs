//! Methods that declare `NO_SIDE_EFFECTS` leave the store unchanged.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use kith_server::descriptors;
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    contract,
    http::{Connection, JSON},
    json_grpc_parity::{Rpc, generate, rpcs},
    node::{TestNode, until},
};

/// How many rounds of writes, and then of reads, are made.
const ROUNDS: usize = 24;
/// Their work goes on in the background, and what they remove cannot be read.
const LEFT_OUT: [&str; 3] = [
    "/kith.message.v1.MessageService/EraseUserMessages",
    "/kith.user.v1.UserService/DeleteUser",
    "/kith.group.v1.GroupService/DismissGroup",
];

/// Returns every file below a folder with its content, except the memory that SQLite's readers and writers
/// share.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.display().to_string().ends_with("-shm") {
            found.insert(path.display().to_string(), fs::read(path).unwrap());
        }
    }
    found
}

/// Returns the files once nothing has written to them for longer than a node gathers the marks of own
/// messages.
async fn files_at_rest(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut since) = (files(folder), Instant::now());
    until(async || {
        let now = files(folder);
        if now != found {
            (found, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_secs(2)
    })
    .await;
    found
}

/// Returns the methods that read, and the others.
fn reads_and_writes() -> (Vec<Rpc>, Vec<Rpc>) {
    let reads = |rpc: &Rpc| {
        let (service, method) = rpc.path[1..].split_once('/').unwrap();
        let service = contract::POOL.get_service_by_name(service).unwrap();
        let method = service.methods().find(|known| known.name() == method).unwrap();
        descriptors::only_reads(&method)
    };
    rpcs().into_iter().filter(|rpc| !LEFT_OUT.contains(&rpc.path.as_str())).partition(reads)
}

/// Calls each method once. Returns the methods that succeeded.
async fn call(node: &TestNode, rng: &mut StdRng, rpcs: &[Rpc]) -> BTreeSet<String> {
    let mut connection = Connection::open(node.address).await;
    let mut succeeded = BTreeSet::new();
    for rpc in rpcs {
        let message = generate::message(rng, &rpc.input);
        let body = generate::json(rng, &message).to_string();
        let answer = connection.post(&rpc.path, &[JSON], body).await;
        if answer.code == 200 {
            succeeded.insert(rpc.path.clone());
        }
    }
    succeeded
}

#[tokio::test]
async fn reads_leave_the_store_as_it_is() {
    let (node, mut rng) = (TestNode::start().await, StdRng::seed_from_u64(7));
    let (reads, writes) = reads_and_writes();
    for _ in 0..ROUNDS {
        call(&node, &mut rng, &writes).await;
    }
    let before = files_at_rest(node.data()).await;
    assert!(before.values().map(Vec::len).sum::<usize>() > 100_000, "the writes are in the files");
    let mut succeeded = BTreeSet::new();
    for _ in 0..ROUNDS {
        succeeded.extend(call(&node, &mut rng, &reads).await);
        for (file, content) in files(node.data()) {
            assert!(before.get(&file) == Some(&content), "{file} has changed");
        }
    }
    assert!(succeeded.len() * 2 > reads.len(), "{} of {}: {succeeded:#?}", succeeded.len(), reads.len());
    node.stop().await;
}
