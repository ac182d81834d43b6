//! Nodes in one cluster in this process, with their own database.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use kith_proto::{
    admin::v1::{admin_service_client::AdminServiceClient, *},
    group::v1::group_service_client::GroupServiceClient,
    member::v1::member_service_client::MemberServiceClient,
    message::v1::message_service_client::MessageServiceClient,
    r#type::v1::{AtLeast, Consistency, consistency::Level},
    user::v1::{user_service_client::UserServiceClient, *},
};
use kith_server::{
    Node,
    config::{Backend, Config, Secret},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use crate::{polls::until, spawned::kith};

/// Settings that a test's nodes share.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) database: String,
    /// The Redis address; `None`: no Redis.
    pub(crate) redis: Option<String>,
    pub(crate) prefix: String,
}

impl Site {
    /// Makes a new database, and a new prefix in that Redis.
    pub(crate) fn new(redis: Option<String>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let database = format!("kith_cluster_{}_{count}", std::process::id());
        Self { prefix: database.clone(), database, redis }
    }

    /// Makes a site in the tests' Redis.
    pub(crate) fn in_redis_of_tests() -> Self {
        Self::new(Some(variable("KITH_TEST_REDIS")))
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        config.listen.set_port(0);
        config.operations.listen.set_port(0);
        config.drain_wait = Duration::ZERO;
        config.store.backend = Backend::Cluster;
        config.store.mongodb.uri = Some(Secret::new(variable("KITH_TEST_MONGODB")));
        config.store.mongodb.database.clone_from(&self.database);
        config.redis.url = self.redis.clone().map(Secret::new);
        config.redis.prefix.clone_from(&self.prefix);
        config
    }

    /// Starts a node that serves.
    pub(crate) async fn node(&self) -> Peer {
        self.node_with(|_| {}).await
    }

    pub(crate) async fn node_with(&self, change: impl FnOnce(&mut Config)) -> Peer {
        let mut config = self.config();
        change(&mut config);
        let node = Box::pin(Node::start(config)).await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), node.serving()).await.expect("the node comes to serve");
        Peer::of(node).await
    }

    /// Starts nodes that serve and follow, with these configuration changes.
    pub(crate) async fn nodes<const N: usize>(&self, change: impl Fn(&mut Config)) -> [Peer; N] {
        let mut nodes = Vec::with_capacity(N);
        for _ in 0..N {
            nodes.push(self.node_with(&change).await);
        }
        until_all_follow(&nodes).await;
        nodes.try_into().unwrap_or_else(|_| unreachable!("so many were started"))
    }

    /// Starts two nodes that serve and follow.
    pub(crate) async fn pair(&self) -> (Peer, Peer) {
        self.nodes(|_| {}).await.into()
    }

    /// Returns the command that starts a node in its own process, in this folder.
    pub(crate) fn command(&self, dir: &Path, arguments: &[&str]) -> Command {
        let mut command = kith(dir, arguments);
        command.env("KITH_STORE__BACKEND", "cluster").env("KITH_STORE__MONGODB__DATABASE", &self.database);
        command.env("KITH_STORE__MONGODB__URI", variable("KITH_TEST_MONGODB"));
        command
            .env("KITH_REDIS__PREFIX", &self.prefix)
            .envs(self.redis.iter().map(|url| ("KITH_REDIS__URL", url)));
        command
    }
}

/// Adds a relation store to a command.
pub(crate) fn command_with_relations(site: &Site, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = site.command(dir, arguments);
    command.env("KITH_STORE__CQL__CONTACT_POINTS", variable("KITH_TEST_CQL"));
    command.env("KITH_STORE__CQL__KEYSPACE", &site.database);
    command
}

/// Adds a relation store to a node.
pub(crate) fn with_relations(config: &mut Config) {
    config.store.cql.contact_points = vec![variable("KITH_TEST_CQL")];
    config.store.cql.keyspace.clone_from(&config.store.mongodb.database);
}

/// A node, and a channel to call it.
pub(crate) struct Peer {
    pub(crate) node: Node,
    channel: Channel,
}

impl Peer {
    async fn of(node: Node) -> Self {
        let address = format!("http://{}", node.addresses().grpc);
        Self { node, channel: Endpoint::from_shared(address).unwrap().connect().await.unwrap() }
    }

    pub(crate) fn users(&self) -> UserServiceClient<Channel> {
        UserServiceClient::new(self.channel.clone())
    }

    pub(crate) fn groups(&self) -> GroupServiceClient<Channel> {
        GroupServiceClient::new(self.channel.clone())
    }

    pub(crate) fn members(&self) -> MemberServiceClient<Channel> {
        MemberServiceClient::new(self.channel.clone())
    }

    pub(crate) fn messages(&self) -> MessageServiceClient<Channel> {
        MessageServiceClient::new(self.channel.clone())
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.node.addresses().grpc)
    }

    pub(crate) async fn create(&self, name: &str) -> User {
        let user = User { user_name: name.to_owned(), ..User::default() };
        let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
        self.users().create_user(request).await.unwrap().into_inner().user.unwrap()
    }

    /// Changes the nickname; returns the version and the token.
    pub(crate) async fn rename(&self, user_id: i64, nick_name: &str) -> (i64, String) {
        self.try_rename(user_id, nick_name).await.unwrap()
    }

    pub(crate) async fn try_rename(&self, user_id: i64, nick_name: &str) -> Result<(i64, String), Status> {
        let user = User { user_id, nick_name: nick_name.to_owned(), ..User::default() };
        let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
        let request = UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
        let updated = self.users().update_user(request).await?.into_inner();
        Ok((updated.user.unwrap().version, updated.consistency_token))
    }

    /// Reads a user, possibly from a cache.
    pub(crate) async fn get(&self, user_id: i64) -> User {
        self.read(user_id, None).await.unwrap()
    }

    pub(crate) async fn read(&self, user_id: i64, consistency: Option<Consistency>) -> Result<User, Status> {
        let answer = self.users().get_user(GetUserRequest { user_id, consistency }).await?;
        Ok(answer.into_inner().user.unwrap())
    }

    /// Waits until its memory is trusted.
    pub(crate) async fn until_following(&self) {
        until(Duration::from_secs(30), async || self.info().await.redis == "follows").await;
    }

    /// Returns the node's information about itself.
    pub(crate) async fn info(&self) -> GetNodeResponse {
        self.admin().get_node(GetNodeRequest {}).await.unwrap().into_inner()
    }

    /// Lists the nodes that it knows.
    pub(crate) async fn listed(&self) -> ListNodesResponse {
        self.admin().list_nodes(ListNodesRequest {}).await.unwrap().into_inner()
    }

    /// Returns the operations port's answer, with its head.
    pub(crate) async fn operations(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(self.node.addresses().operations.unwrap()).await.unwrap();
        socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    pub(crate) async fn stop(self) {
        drop(self.channel);
        assert!(self.node.stop(std::future::ready(())).await, "nothing is left behind");
    }
}

/// Waits until each node follows.
pub(crate) async fn until_all_follow(nodes: impl IntoIterator<Item = &Peer>) {
    for node in nodes {
        node.until_following().await;
    }
}

/// Stops the nodes in sequence.
pub(crate) async fn stop<const N: usize>(nodes: [Peer; N]) {
    for node in nodes {
        node.stop().await;
    }
}

/// Requests data at least as fresh as this token.
pub(crate) fn at_least(token: &str) -> Option<Consistency> {
    let level = Level::AtLeast(AtLeast { consistency_tokens: vec![token.to_owned()] });
    Some(Consistency { level: Some(level) })
}

pub(crate) fn variable(name: &str) -> String {
    let found = std::env::vars().find(|(wanted, _)| wanted == name);
    found.map(|(_, value)| value).unwrap_or_else(|| panic!("{name} is not set: run cargo xtask test"))
}
