//! Three nodes that require a key: they still call each other, and are restarted one after the other under
//! load.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kith_proto::{
    admin::v1::{
        FlushMemoryRequest, InspectKeyRequest, ListNodesRequest, admin_service_client::AdminServiceClient,
    },
    user::v1::{
        CreateUserRequest, GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient,
    },
};
use tempfile::TempDir;
use tokio::task::{JoinSet, spawn_blocking};
use tonic::{
    Code, Request, Status,
    metadata::AsciiMetadataValue,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::{
    cluster::site::Site,
    polls::until,
    process::free_address,
    spawned::{Started, figure},
};

const KEY: &str = "correct-horse-battery-staple-one-key";
/// No step in these tests takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENTS: usize = 4;
const BETWEEN_CALLS: Duration = Duration::from_millis(5);

/// Adds the key to every call.
#[derive(Clone)]
struct KeyInterceptor(AsciiMetadataValue);

impl tonic::service::Interceptor for KeyInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

type Calls = InterceptedService<Channel, KeyInterceptor>;

/// A node whose addresses stay the same when it starts again.
struct NodeSlot {
    grpc: String,
    operations: String,
    folder: TempDir,
    site: Site,
}

impl NodeSlot {
    fn new(site: &Site) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { grpc: free_address(), operations: free_address(), folder, site: site.clone() }
    }

    fn start(&self) -> Started {
        let operations = format!("operations.listen={}", self.operations);
        let mut arguments = vec!["--listen", &self.grpc, "--set", &operations];
        // A turn lasts at least five thirds of the bound, and each node waits for its own turns.
        for observer in ["observer.canary_every=500ms", "observer.bound=1s"] {
            arguments.extend(["--set", observer]);
        }
        let mut command = self.site.command(self.folder.path(), &arguments);
        command.env("KITH_API_KEY", KEY);
        let node = Started::of(command);
        node.until_ready(|code, _| code == 200);
        node
    }

    /// Connects when it is called, and again after a restart.
    fn calls(&self) -> Calls {
        let channel = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap().connect_lazy();
        InterceptedService::new(channel, KeyInterceptor(format!("Bearer {KEY}").parse().unwrap()))
    }

    /// Counts this node's canaries that it has seen on other nodes.
    fn lags(&self) -> u64 {
        figure(&self.operations, "kith_observer_lag_seconds_count")
    }
}

async fn create(users: &mut UserServiceClient<Calls>) -> i64 {
    let user = User { user_name: "ann".to_owned(), ..User::default() };
    let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
    users.create_user(request).await.unwrap().into_inner().user.unwrap().user_id
}

/// Inspects a record and empties memories through each node, and checks that every other node answers; then
/// that each node's canaries are seen.
async fn assert_nodes_call_each_other(places: &[Arc<NodeSlot>], user_id: i64) {
    for place in places {
        let mut admin = AdminServiceClient::new(place.calls());
        until(PATIENCE, async || {
            let listed = admin.list_nodes(ListNodesRequest {}).await.unwrap().into_inner();
            listed.complete && listed.nodes.len() == places.len()
        })
        .await;
        let key = format!("user/{user_id}");
        let request = InspectKeyRequest { key, ..InspectKeyRequest::default() };
        let inspected = admin.inspect_key(request).await.unwrap().into_inner();
        let unanswered: Vec<_> = inspected.others.iter().map(|other| other.unanswered.as_str()).collect();
        assert_eq!(unanswered, ["", ""], "inspected through {}", place.grpc);
        let request = FlushMemoryRequest { namespace: "user".to_owned(), every_node: true };
        let flushed = admin.flush_memory(request).await.unwrap().into_inner();
        let unanswered: Vec<_> = flushed.others.iter().map(|other| other.unanswered.as_str()).collect();
        assert_eq!(unanswered, ["", ""], "emptied through {}", place.grpc);
        let before = place.lags();
        until(PATIENCE, async || place.lags() > before).await;
    }
}

/// Clients that switch to another node when a node is away.
struct ClientLoad {
    nodes: Vec<Calls>,
    user_id: i64,
    ended: AtomicBool,
    calls: AtomicU64,
    again: AtomicU64,
    wrong: Mutex<Vec<Status>>,
}

impl ClientLoad {
    async fn run(self: Arc<Self>, client: usize) {
        for number in 0_usize.. {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(BETWEEN_CALLS).await;
            self.calls.fetch_add(1, Ordering::Relaxed);
            if let Err(status) = self.call(client + number, &format!("{client}-{number}")).await {
                self.wrong.lock().unwrap().push(status);
            }
        }
    }

    /// Calls the first node that is there.
    async fn call(&self, first: usize, id: &str) -> Result<(), Status> {
        let mut away = None;
        for at in first..first + self.nodes.len() {
            let mut users = UserServiceClient::new(self.nodes[at % self.nodes.len()].clone());
            let answer = if first.is_multiple_of(4) {
                users.update_user(renaming(self.user_id, id)).await.map(drop)
            } else {
                users.get_user(GetUserRequest { user_id: self.user_id, consistency: None }).await.map(drop)
            };
            match answer {
                Err(status) if is_away(&status) => away = Some(status),
                answered => return answered,
            }
            self.again.fetch_add(1, Ordering::Relaxed);
        }
        Err(away.unwrap())
    }
}

/// Makes the request, which is the same when it is sent again.
fn renaming(user_id: i64, id: &str) -> UpdateUserRequest {
    let user = User { user_id, nick_name: id.to_owned(), ..User::default() };
    let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
    UpdateUserRequest {
        user: Some(user),
        update_mask,
        request_id: id.to_owned(),
        ..UpdateUserRequest::default()
    }
}

/// A client reports UNKNOWN or CANCELLED for a connection that ends during a call.
fn is_away(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn nodes_with_keys_survive_a_rolling_restart() {
    let site = Site::in_redis_of_tests();
    let places = [(); 3].map(|()| Arc::new(NodeSlot::new(&site)));
    let mut nodes: Vec<_> = places.iter().map(|place| place.start()).collect();
    let user_id = create(&mut UserServiceClient::new(places[0].calls())).await;
    assert_nodes_call_each_other(&places, user_id).await;
    let load = Arc::new(ClientLoad {
        nodes: places.iter().map(|place| place.calls()).collect(),
        user_id,
        ended: AtomicBool::new(false),
        calls: AtomicU64::new(0),
        again: AtomicU64::new(0),
        wrong: Mutex::default(),
    });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&load).run(client));
    }
    for place in &places {
        let (node, place) = (nodes.remove(0), Arc::clone(place));
        nodes.push(spawn_blocking(move || restarted(node, &place)).await.unwrap());
    }
    assert_nodes_call_each_other(&places, user_id).await;
    load.ended.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let wrong = load.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} calls: {:?}", wrong.len(), wrong.first());
    assert!(load.calls.load(Ordering::Relaxed) > 100 && load.again.load(Ordering::Relaxed) > 0);
    nodes.into_iter().for_each(Started::stop);
}

fn restarted(node: Started, place: &NodeSlot) -> Started {
    node.stop();
    place.start()
}
