//! A node in this process, on free ports, over its own file or, where `KITH_TEST_STORE` says `mongodb`, its
//! own database.

#![allow(dead_code, unreachable_pub, reason = "each executable uses a part")]

pub mod data_stores;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    time::{Duration, Instant},
};

use kith_proto::{
    admin::v1::admin_service_client::AdminServiceClient,
    application::v1::application_service_client::ApplicationServiceClient,
    change::v1::change_service_client::ChangeServiceClient,
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    member::v1::member_service_client::MemberServiceClient,
    message::v1::message_service_client::MessageServiceClient,
    notice::v1::notice_service_client::NoticeServiceClient,
    presence::v1::presence_service_client::PresenceServiceClient,
    receipt::v1::receipt_service_client::ReceiptServiceClient,
    relation::v1::{GetRelationRequest, relation_service_client::RelationServiceClient},
    sequence::v1::sequence_service_client::SequenceServiceClient,
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use kith_server::config::{Backend, Config, Secret};
use prost_types::FieldMask;
use tokio::{sync::oneshot, task::JoinHandle};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use data_stores::{DataStores, LentStores};

const PATIENCE: Duration = Duration::from_secs(30);

pub struct TestNode {
    pub address: std::net::SocketAddr,
    pub channel: Channel,
    data: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    /// The stores; `None`: it has a file.
    stores: Option<DataStores>,
}

impl TestNode {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Like [`Self::start_with`], but with its own relation store where the node has no file.
    pub async fn start_with_relations(change: impl FnOnce(&mut Config)) -> Self {
        let address = variable("KITH_TEST_STORE").and(variable("KITH_TEST_CQL"));
        Self::start_with(|config| {
            config.store.cql.contact_points.extend(address);
            change(config);
        })
        .await
    }

    /// Starts a node over a stopped node's data; `folder` is the value that its `stop` returned.
    pub async fn start_over(folder: &tempfile::TempDir) -> Self {
        let data_dir = folder.path().join("data");
        Self::start_with(|config| config.data_dir = data_dir).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: data.path().join("data"), ..Config::default() };
        config.listen.set_port(0);
        config.operations.listen.set_port(0);
        config.drain_wait = Duration::ZERO;
        // A store on a busy machine is slow, not away.
        config.limits.write_answer = Duration::from_secs(8);
        change(&mut config);
        let stores = over_the_stores_of_the_tests(&mut config).await;
        let (ready, bound) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            let shutdown = async move { stopped.await.unwrap_or_default() };
            kith_server::run(config, |bound| ready.send(bound).unwrap(), shutdown).await.unwrap();
        });
        let address = bound.await.expect("the node starts").grpc;
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        if let Some(stores) = &stores {
            until_it_serves(&channel, &stores.stores).await;
        }
        Self { address, channel, data, stop: Some(stop), running, stores }
    }

    /// Returns the folder with everything that the node keeps.
    pub fn data(&self) -> &std::path::Path {
        self.data.path()
    }

    pub fn users(&self) -> UserServiceClient<Channel> {
        UserServiceClient::new(self.channel.clone())
    }

    pub fn groups(&self) -> GroupServiceClient<Channel> {
        GroupServiceClient::new(self.channel.clone())
    }

    pub fn relations(&self) -> RelationServiceClient<Channel> {
        RelationServiceClient::new(self.channel.clone())
    }

    pub fn members(&self) -> MemberServiceClient<Channel> {
        MemberServiceClient::new(self.channel.clone())
    }

    pub fn presence(&self) -> PresenceServiceClient<Channel> {
        PresenceServiceClient::new(self.channel.clone())
    }

    pub fn applications(&self) -> ApplicationServiceClient<Channel> {
        ApplicationServiceClient::new(self.channel.clone())
    }

    pub fn messages(&self) -> MessageServiceClient<Channel> {
        MessageServiceClient::new(self.channel.clone())
    }

    pub fn notices(&self) -> NoticeServiceClient<Channel> {
        NoticeServiceClient::new(self.channel.clone())
    }

    pub fn receipts(&self) -> ReceiptServiceClient<Channel> {
        ReceiptServiceClient::new(self.channel.clone())
    }

    pub fn sequences(&self) -> SequenceServiceClient<Channel> {
        SequenceServiceClient::new(self.channel.clone())
    }

    pub fn changes(&self) -> ChangeServiceClient<Channel> {
        ChangeServiceClient::new(self.channel.clone())
    }

    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
    }

    /// Creates a user with this name and returns it.
    pub async fn user(&self, name: &str) -> users::User {
        let user = users::User { user_name: name.to_owned(), ..Default::default() };
        let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
        self.users().create_user(request).await.unwrap().into_inner().user.unwrap()
    }

    pub async fn delete_user(&self, user_id: i64) {
        let request = users::DeleteUserRequest { user_id, ..Default::default() };
        self.users().delete_user(request).await.unwrap();
    }

    /// Creates this group and returns it.
    pub async fn group(&self, group: groups::Group) -> groups::Group {
        let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
        self.groups().create_group(request).await.unwrap().into_inner().group.unwrap()
    }

    /// Checks that the node reports that it serves, and does serve.
    pub async fn assert_healthy(&self) {
        let mut health = tonic_health::pb::health_client::HealthClient::new(self.channel.clone());
        let answer = health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
        assert_eq!(
            answer.into_inner().status,
            i32::from(tonic_health::pb::health_check_response::ServingStatus::Serving)
        );
        let answer =
            self.users().get_user(users::GetUserRequest { user_id: i64::MAX, consistency: None }).await;
        assert_eq!(answer.unwrap_err().code(), Code::NotFound);
    }

    /// Stops the node in order and waits until it has ended.
    pub async fn stop(mut self) -> tempfile::TempDir {
        self.stop.take().unwrap().send(()).unwrap();
        drop(self.channel);
        self.running.await.unwrap();
        if let Some(stores) = self.stores {
            stores.keep();
        }
        self.data
    }
}

/// Configures the tests' stores. The same data folder has the same stores. `None` where the node has a file.
async fn over_the_stores_of_the_tests(config: &mut Config) -> Option<DataStores> {
    variable("KITH_TEST_STORE").filter(|store| store == "mongodb")?;
    let uri = variable("KITH_TEST_MONGODB").unwrap();
    let cql = config.store.cql.contact_points.first().map(String::as_str);
    let stores = DataStores::of(&config.data_dir, &uri, cql).await;
    config.store.backend = Backend::Cluster;
    config.store.mongodb.database.clone_from(&stores.stores.database);
    config.store.mongodb.uri = Some(Secret::new(uri));
    if let Some(keyspace) = &stores.stores.keyspace {
        config.store.cql.keyspace.clone_from(keyspace);
    }
    Some(stores)
}

/// Returns an environment variable.
pub fn variable(wanted: &str) -> Option<String> {
    std::env::vars().find(|(name, _)| name == wanted).map(|(_, value)| value)
}

/// Waits until a node with new connections reads from its stores.
async fn until_it_serves(channel: &Channel, stores: &LentStores) {
    let (mut users, mut relations) =
        (UserServiceClient::new(channel.clone()), RelationServiceClient::new(channel.clone()));
    let is_away = |answer: Option<Status>| answer.is_some_and(|why| why.code() == Code::Unavailable);
    let serves = async {
        let request = users::GetUserRequest { user_id: i64::MAX, consistency: None };
        while is_away(users.get_user(request.clone()).await.err()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let request = GetRelationRequest { user_id: 1, target_id: 2, ..Default::default() };
        while stores.keyspace.is_some() && is_away(relations.get_relation(request.clone()).await.err()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), serves).await.expect("the node comes to serve");
}

/// What a call answers.
pub type Called<T> = Result<T, Status>;

/// The user id for requests that a service makes for itself.
pub const SERVICE: i64 = 0;

/// Makes a request on a user's behalf; [`SERVICE`]: for no user.
pub fn principal<T>(user: i64, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if user != SERVICE {
        request.metadata_mut().insert("kith-acting-user", user.to_string().parse().unwrap());
    }
    request
}

/// Returns the entries on all pages of a list. `page` takes a token, and returns entries and the next page's
/// token.
pub async fn all_pages<T>(
    mut page: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Status>,
) -> Result<Vec<T>, Status> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let (entries, next) = page(token).await?;
        all.extend(entries);
        if next.is_empty() {
            return Ok(all);
        }
        token = next;
    }
}

/// Checks an error's code, reason and, if given, the field that it names.
#[track_caller]
pub fn assert_refused(status: &Status, code: Code, reason: &str, field: Option<&str>) {
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("every error has an ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "kith"), "{status:?}");
    if let Some(field) = field {
        let named = details.bad_request().map(|bad| bad.field_violations[0].field.clone());
        assert_eq!(named.as_deref(), Some(field), "{status:?}");
    }
}

/// Checks that a call was refused for this reason. Returns the error.
#[track_caller]
pub fn assert_error(answer: Result<impl Debug, Status>, code: Code, reason: &str) -> Status {
    let refused = answer.unwrap_err();
    assert_refused(&refused, code, reason, None);
    refused
}

/// Checks that a call was refused because of this field.
#[track_caller]
pub fn assert_invalid(answer: Result<impl Debug, Status>, field: &str) -> Status {
    let refused = answer.unwrap_err();
    assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some(field));
    refused
}

/// Checks that a request's id was used before by another request; `field` has the id.
#[track_caller]
pub fn assert_reused(answer: Result<impl Debug, Status>, field: &str) {
    assert_refused(&answer.unwrap_err(), Code::InvalidArgument, "REQUEST_ID_REUSED", Some(field));
}

#[track_caller]
pub fn assert_not_found(answer: Result<impl Debug, Status>) {
    assert_error(answer, Code::NotFound, "NOT_FOUND");
}

#[track_caller]
pub fn assert_exhausted(answer: Result<impl Debug, Status>, reason: &str) -> Status {
    assert_error(answer, Code::ResourceExhausted, reason)
}

#[track_caller]
pub fn assert_denied(answer: Result<impl Debug, Status>) {
    assert_error(answer, Code::PermissionDenied, "NOT_ALLOWED");
}

#[track_caller]
pub fn assert_forbidden(answer: Result<impl Debug, Status>) -> Status {
    assert_error(answer, Code::FailedPrecondition, "STATE_FORBIDS")
}

/// Makes the request that changes these fields of a user.
pub fn update_of_user(user: users::User, paths: &[&str]) -> users::UpdateUserRequest {
    users::UpdateUserRequest { user: Some(user), update_mask: mask(paths), ..Default::default() }
}

/// Makes the request that changes these fields of a group.
pub fn update_of_group(group: groups::Group, paths: &[&str]) -> groups::UpdateGroupRequest {
    groups::UpdateGroupRequest { group: Some(group), update_mask: mask(paths), ..Default::default() }
}

pub fn mask(paths: &[&str]) -> Option<FieldMask> {
    Some(FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() })
}

/// Makes parameters from pairs.
pub fn params<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Waits until `is` returns true.
pub async fn until(is: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, is).await;
}

/// Waits until `is` returns true, for at most `limit`.
#[allow(dead_code, reason = "other tests that include this file do not use it")]
pub async fn until_within(limit: Duration, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < limit, "not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
