//! Three nodes that require a key: they still call each other, also after each was restarted.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use kith_proto::{
    admin::v1::{
        FlushMemoryRequest, InspectKeyRequest, ListNodesRequest, admin_service_client::AdminServiceClient,
    },
    user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient},
};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tonic::{
    Request, Status,
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn nodes_with_keys_survive_a_rolling_restart() {
    let site = Site::in_redis_of_tests();
    let places = [(); 3].map(|()| Arc::new(NodeSlot::new(&site)));
    let mut nodes: Vec<_> = places.iter().map(|place| place.start()).collect();
    let user_id = create(&mut UserServiceClient::new(places[0].calls())).await;
    assert_nodes_call_each_other(&places, user_id).await;
    for place in &places {
        let (node, place) = (nodes.remove(0), Arc::clone(place));
        nodes.push(spawn_blocking(move || restarted(node, &place)).await.unwrap());
    }
    assert_nodes_call_each_other(&places, user_id).await;
    nodes.into_iter().for_each(Started::stop);
}

fn restarted(node: Started, place: &NodeSlot) -> Started {
    node.stop();
    place.start()
}
