//! Read marks of many users at once are written together.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        SendMessageRequest, message_service_client::MessageServiceClient, send_message_request::To,
    },
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use kith_server::{
    admin::Vitals,
    config::Config,
    edge::{Edge, Routes},
    health::Reporter,
    node::services,
};
use kith_store::*;

use crate::{node::principal, talking::to_mark};

const READERS: usize = 500;

/// Dialogs of another store, with the number of commands that wrote marks.
#[derive(Debug)]
struct Counted {
    store: Arc<dyn DialogStore>,
    commands: AtomicUsize,
}

#[async_trait]
impl DialogStore for Counted {
    async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError> {
        self.store.dialogs(keys).await
    }

    async fn dialog_list(
        &self,
        user: UserId,
        list: DialogList,
        after: Option<DialogPlace>,
        limit: usize,
    ) -> Result<Vec<Dialog>, StoreError> {
        self.store.dialog_list(user, list, after, limit).await
    }

    async fn dialog_conversations(
        &self,
        user: UserId,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, StoreError> {
        self.store.dialog_conversations(user, after, limit).await
    }

    async fn mark_dialogs(
        &self,
        marks: &[DialogMark],
        now: Timestamp,
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.store.mark_dialogs(marks, now).await
    }

    async fn change_dialog(
        &self,
        key: DialogKey,
        patch: DialogPatch,
        write: Write,
    ) -> Result<Applied<Dialog>, StoreError> {
        self.store.change_dialog(key, patch, write).await
    }

    async fn make_dialogs(&self, keys: &[DialogKey], now: Timestamp) -> Result<(), StoreError> {
        self.store.make_dialogs(keys, now).await
    }

    async fn reduce_dialogs(
        &self,
        user: UserId,
        ends: &[(ConversationId, Seq)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.reduce_dialogs(user, ends, now).await
    }
}

/// A group with this many members besides its owner; the owner first.
async fn group(edge: &Edge) -> (i64, Vec<i64>) {
    let create = |number| {
        let mut client = UserServiceClient::new(edge.clone());
        async move {
            let user = users::User { user_name: format!("user{number}"), ..Default::default() };
            let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
            client.create_user(request).await.unwrap().into_inner().user.unwrap().user_id
        }
    };
    let ids = join_all((0..=READERS).map(create)).await;
    let group = groups::Group { name: "All".into(), creator_id: ids[0], ..Default::default() };
    let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
    let made = GroupServiceClient::new(edge.clone()).create_group(request).await.unwrap().into_inner();
    let group_id = made.group.unwrap().group_id;
    for some in ids[1..].chunks(100) {
        let request = AddMembersRequest { group_id, user_ids: some.to_vec(), ..Default::default() };
        MemberServiceClient::new(edge.clone()).add_members(request).await.unwrap();
    }
    (group_id, ids)
}

#[tokio::test]
async fn marks_of_500_readers_are_few_commands() {
    let mut config = Config::default();
    config.limits.write_answer = Duration::from_secs(8);
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let mut stores = file.stores();
    let dialogs = Arc::new(Counted { store: Arc::clone(&stores.dialogs), commands: AtomicUsize::default() });
    stores.dialogs = Arc::<Counted>::clone(&dialogs);
    let edge = Edge::new(Routes::default(), &config.limits);
    let vitals = Vitals::new(Reporter::new(), edge.load(), &stores);
    edge.open(services::services(&stores, &config, vitals).await.unwrap().routes);
    let (group_id, ids) = group(&edge).await;
    let message =
        SendMessageRequest { to: Some(To::GroupId(group_id)), body: "hi".into(), ..Default::default() };
    let sent = MessageServiceClient::new(edge.clone()).send_message(message).await.unwrap().into_inner().seq;

    let id = format!("g{group_id}");
    let mark = |user: &i64| {
        let (mut client, request) =
            (MessageServiceClient::new(edge.clone()), principal(*user, to_mark(&id, sent)));
        async move { client.mark_read(request).await.unwrap().into_inner() }
    };
    let marked = join_all(ids[1..].iter().map(mark)).await;
    assert!(marked.iter().all(|marked| (marked.read_seq, marked.unread) == (sent, 0)));
    let commands = dialogs.commands.load(Ordering::Relaxed);
    assert!((2..=READERS / 10).contains(&commands), "{commands} commands for {READERS} marks");
    let again = join_all(ids[1..].iter().map(mark)).await;
    assert!(again.iter().all(|marked| marked.read_seq == sent));
    assert_eq!(dialogs.commands.load(Ordering::Relaxed), commands, "what is marked already is not written");
}
