//! A node in this process that serves only configured callers.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::HeaderMap;
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient},
};
use kith_server::{
    admin::NodeStatus,
    auth::{CallerKey, Callers, Digest, Rights, Scope, Tokens},
    config::Config,
    edge::{Edge, Routes},
    health::{Reporter, State},
    node::services::{self, Services},
    transport::{Connections, Port},
};
use kith_store::Stores;
use kith_store_sqlite::SqliteHandle;
use tokio::net::TcpStream;
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};

/// The caller that may do everything, like the caller in `api_key_file`.
pub const ALL: &str = "default";
/// The proof with which a cluster node would identify itself.
pub const NODE_PROOF: &str = "proof-of-the-tests";

pub struct SecuredNode {
    pub address: SocketAddr,
    pub channel: Channel,
    pub edge: Edge,
    pub callers: Arc<Callers>,
    _connections: Connections,
    _services: Services,
    file: SqliteHandle,
}

impl SecuredNode {
    /// Starts a node that knows these callers, and [`ALL`]. [`key_of`] returns their keys.
    pub async fn start(callers: impl IntoIterator<Item = (String, Rights)>) -> Self {
        Self::start_with(callers, Arc::new(Tokens::none()), |_| {}).await
    }

    /// Starts a node that also accepts these users' tokens.
    pub async fn start_with(
        callers: impl IntoIterator<Item = (String, Rights)>,
        tokens: Arc<Tokens>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let of = |(name, rights): (String, Rights)| {
            let digest = Digest::of(key_of(&name).as_bytes());
            CallerKey { name, rights, digest, made: None, expires: None }
        };
        let all = [(ALL.to_owned(), Rights::ALL)];
        let callers = Arc::new(Callers::new(all.into_iter().chain(callers).map(of).collect()));
        let mut config = Config::default();
        config.listen.set_port(0);
        config.messages.offline = true;
        without_user_quotas(&mut config);
        change(&mut config);
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let stores = file.stores();
        let health = Reporter::new();
        let edge = Edge::new(Routes::new(health.service()), &config.limits)
            .with_credentials(Arc::clone(&callers), tokens);
        let node_status = NodeStatus::new(health.clone(), edge.load(), &stores);
        let services = services::services(&stores, &config, node_status).await.unwrap();
        edge.trust_nodes(|proof, _| proof == NODE_PROOF);
        edge.serve_sessions(services.node.clone());
        edge.open(services.routes.clone());
        services.receivers.start();
        services.access.start();
        health.set(State::Serving);
        let port = Port::bind(&config).await.unwrap();
        let address = port.address();
        let connections = port.serve(edge.clone(), &config.limits, health);
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self { address, channel, edge, callers, _connections: connections, _services: services, file }
    }

    /// Returns the node's stores.
    pub fn stores(&self) -> Stores {
        self.file.stores()
    }

    pub fn users(&self) -> UserServiceClient<Channel> {
        UserServiceClient::new(self.channel.clone())
    }

    pub fn groups(&self) -> GroupServiceClient<Channel> {
        GroupServiceClient::new(self.channel.clone())
    }

    pub async fn create_user(&self, user: User) {
        let request = CreateUserRequest { user: Some(user), ..Default::default() };
        self.users().create_user(by(ALL, request)).await.unwrap();
    }

    pub async fn create_group(&self, group: Group) -> Group {
        let request = CreateGroupRequest { group: Some(group), ..Default::default() };
        self.groups().create_group(by(ALL, request)).await.unwrap().into_inner().group.unwrap()
    }

    /// Sends one request by gRPC and waits for the answer's head. `None`: the call was accepted.
    pub async fn grpc(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Option<Status> {
        let answer = self.answer(path, headers, body).await;
        Status::from_header_map(&answer).filter(|status| status.code() != tonic::Code::Ok)
    }

    async fn answer(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> HeaderMap {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let mut request = http::Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (response, mut sending) = client.send_request(request.body(()).unwrap(), false).unwrap();
        // A refused call may be answered, and reset, before that.
        sending.send_data(body, true).ok();
        let head = response.await.unwrap().into_parts().0;
        connection.abort();
        head.headers
    }
}

/// Lets users make any number of calls: tests are faster than a person.
pub fn without_user_quotas(config: &mut Config) {
    config.limits.user_calls_per_second = 0;
    config.limits.user_writes_per_second = 0;
    config.limits.user_records_per_minute = 0;
}

/// Returns the key for the caller with this name.
pub fn key_of(name: &str) -> String {
    format!("key-of-the-tests-{name}")
}

/// Returns this caller's `authorization` value.
pub fn bearer(name: &str) -> String {
    format!("Bearer {}", key_of(name))
}

/// Makes a request that this caller sends for itself.
pub fn by<T>(name: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", bearer(name).parse().unwrap());
    request
}

/// Makes a request that this caller sends for a user.
pub fn acting<T>(name: &str, user: i64, message: T) -> Request<T> {
    let mut request = by(name, message);
    request.metadata_mut().insert("kith-acting-user", user.to_string().parse().unwrap());
    request
}

/// Makes a request that a user with this token sends.
pub fn by_token<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

/// Returns all scopes except this scope.
pub fn all_but(scope: Scope) -> Rights {
    Scope::ALL.into_iter().filter(|other| *other != scope).collect()
}
