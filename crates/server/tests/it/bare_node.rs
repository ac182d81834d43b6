//! A node's services over given stores, without a network and with no background task; and the store of a
//! stopped node.

use kith_proto::user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient};
use kith_server::{
    admin::NodeStatus,
    config::Config,
    edge::{Edge, Routes},
    health::Reporter,
    node::services::{self, Services},
};
use kith_store::{
    ChangeContext, ContentHash, GroupId, GroupType, JoinPolicy, MemberChange, MessageKey, MessageKind,
    NewGroup, NewMessage, Params, SecretChange, Stores, Text, Timestamp, UserId, Visibility, Write,
};
use kith_store_sqlite::SqliteOptions;
use tempfile::TempDir;

/// Makes a node's edge over these stores, and its services.
pub async fn serve(stores: &Stores, config: &Config) -> (Edge, Services) {
    let edge = Edge::new(Routes::default(), &config.limits);
    let node_status = NodeStatus::new(Reporter::new(), edge.load(), stores);
    let services = services::services(stores, config, node_status).await.unwrap();
    edge.open(services.routes.clone());
    (edge, services)
}

/// Creates a user and returns its id; `user_id` 0: the node chooses the id.
pub async fn user(edge: &Edge, user_id: i64, name: &str) -> i64 {
    let user = User { user_id, user_name: name.to_owned(), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    let made = UserServiceClient::new(edge.clone()).create_user(request).await.unwrap().into_inner();
    made.user.unwrap().user_id
}

/// Uses a stopped node's store; `folder` is the value that its `stop` returned.
pub async fn in_store<T>(folder: &TempDir, work: impl AsyncFnOnce(&Stores) -> T) -> T {
    let path = folder.path().join("data").join("kith.db");
    let handle = kith_store_sqlite::open(SqliteOptions::new(path)).await.unwrap();
    let result = work(&handle.stores()).await;
    handle.close().await;
    result
}

/// Makes a public group as a store takes it.
pub fn new_group(id: GroupId, join_policy: JoinPolicy, creator: Option<UserId>) -> NewGroup {
    NewGroup {
        id,
        name: "chess".into(),
        icon: Text::default(),
        tags: Vec::new(),
        kind: GroupType::Chat,
        visibility: Visibility::Public,
        join_policy,
        history_for_new_members: false,
        receipts: None,
        params: Params::default(),
        creator,
        secrets: SecretChange::new(),
    }
}

/// Changes a group's members in the store alone.
pub async fn change_members(stores: &Stores, group: GroupId, change: MemberChange, at: Timestamp) {
    let context = ChangeContext { by: None, members_max: u32::MAX, bans_max: 100, history: false };
    stores.members.change_members(group, change, context, Write::at(at)).await.unwrap();
}

/// Makes a message without a content type as a store takes it.
pub fn new_message(key: MessageKey, sender: Option<UserId>, sent: Timestamp, body: &str) -> NewMessage {
    NewMessage {
        key,
        hash: ContentHash::of("", body.as_bytes()),
        sender,
        sent,
        kind: MessageKind::Message,
        content_type: "".into(),
        body: body.to_owned().into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: None,
    }
}
