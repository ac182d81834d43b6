//! Nodes of one cluster in this process, with a database of their own.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use kith_proto::{
    admin::v1::{GetNodeRequest, admin_service_client::AdminServiceClient},
    r#type::v1::{AtLeast, Consistency, consistency::Level},
    user::v1::{
        CreateUserRequest, GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient,
    },
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

/// What the nodes of a test share.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) database: String,
    /// `None`: nothing.
    pub(crate) redis: Option<String>,
    pub(crate) prefix: String,
}

impl Site {
    /// A new database, and a prefix of its own in that Redis.
    pub(crate) fn new(redis: Option<String>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let database = format!("kith_cluster_{}_{count}", std::process::id());
        Self { prefix: database.clone(), database, redis }
    }

    /// The same in the Redis of the tests.
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

    /// A node that serves.
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

    /// Two that serve and follow.
    pub(crate) async fn pair(&self) -> (Peer, Peer) {
        let (a, b) = (self.node().await, self.node().await);
        a.until_following().await;
        b.until_following().await;
        (a, b)
    }
}

/// A node, and a way to call it.
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

    /// Changes the nick name; returns the version and the token.
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

    /// A cached read.
    pub(crate) async fn get(&self, user_id: i64) -> User {
        self.read(user_id, None).await.unwrap()
    }

    pub(crate) async fn read(&self, user_id: i64, consistency: Option<Consistency>) -> Result<User, Status> {
        let answer = self.users().get_user(GetUserRequest { user_id, consistency }).await?;
        Ok(answer.into_inner().user.unwrap())
    }

    /// Waits until its memory is trusted, in the epoch that the first reader of the change feed begins.
    pub(crate) async fn until_following(&self) {
        let mut admin = self.admin();
        until(Duration::from_secs(10), async || {
            let node = admin.get_node(GetNodeRequest {}).await.unwrap().into_inner();
            node.redis == "follows" && node.epoch >= 2
        })
        .await;
    }

    /// The epoch that it follows.
    pub(crate) async fn epoch(&self) -> i64 {
        self.admin().get_node(GetNodeRequest {}).await.unwrap().into_inner().epoch
    }

    /// The answer of the port for operators, with its head.
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

/// At least as fresh as this token.
pub(crate) fn at_least(token: &str) -> Option<Consistency> {
    let level = Level::AtLeast(AtLeast { consistency_tokens: vec![token.to_owned()] });
    Some(Consistency { level: Some(level) })
}

/// As fresh as the store.
pub(crate) fn strong() -> Option<Consistency> {
    Some(Consistency { level: Some(Level::Strong(true)) })
}

pub(crate) fn variable(name: &str) -> String {
    let found = std::env::vars().find(|(wanted, _)| wanted == name);
    found.map(|(_, value)| value).unwrap_or_else(|| panic!("{name} is not set: run cargo xtask test"))
}

/// Waits until it is so.
pub(crate) async fn until(limit: Duration, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < limit, "not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
