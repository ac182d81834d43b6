//! A node whose upkeep the tests start, over a store in memory.

use std::time::Duration;

use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    message::v1::{TrimConversationRequest, message_service_client::MessageServiceClient},
};
use kith_server::{config::Config, edge::Edge, node::services::Services};
use kith_store::{Conversation, ConversationId, GroupId, MessageKey, NewMessage, Seq, Stores, Timestamp};
use kith_store_sqlite::SqliteHandle;

use super::faults::{self, Faults};
use crate::{
    bare_node,
    node::{principal, until},
};

/// A node's services over a store in memory, whose upkeep has not begun.
pub(super) struct Node {
    pub(super) edge: Edge,
    pub(super) services: Services,
    pub(super) stores: Stores,
    pub(super) faults: Faults,
    _file: SqliteHandle,
}

impl Node {
    pub(super) async fn start(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_over(change, |_| {}).await
    }

    pub(super) async fn start_over(
        change: impl FnOnce(&mut Config),
        replace: impl FnOnce(&mut Stores),
    ) -> Self {
        let mut config = Config::default();
        config.limits.write_answer = Duration::from_secs(8);
        change(&mut config);
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let mut stores = file.stores();
        replace(&mut stores);
        let faults = Faults::default();
        faults::put_into(&mut stores, &faults);
        let (edge, services) = bare_node::serve(&stores, &config).await;
        Self { edge, services, stores, faults, _file: file }
    }

    /// Creates a group with one user. Returns both.
    pub(super) async fn group(&self, name: &str) -> (i64, i64) {
        let owner = bare_node::user(&self.edge, 0, name).await;
        let group = groups::Group { name: name.to_owned(), creator_id: owner, ..Default::default() };
        let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
        let made = GroupServiceClient::new(self.edge.clone()).create_group(request).await.unwrap();
        (made.into_inner().group.unwrap().group_id, owner)
    }

    /// Sets the time by which old data were removed last.
    pub(super) async fn set_removal_time(&self, time: Timestamp) {
        let marks = &self.stores.coordination;
        assert!(marks.lease("removal_time", "alone", Duration::from_secs(5)).await.unwrap());
        assert!(marks.set_mark("removal_time", "alone", &time.0.to_le_bytes()).await.unwrap());
    }

    /// Adds messages from a service that were sent at this time.
    pub(super) async fn fill(&self, group: i64, count: usize, sent: Timestamp) {
        self.append(group, (0..count).map(|_| message(sent)).collect()).await;
    }

    pub(super) async fn append(&self, group: i64, messages: Vec<NewMessage>) {
        for some in messages.chunks(100) {
            self.stores.messages.append(log(group), some).await.unwrap();
        }
    }

    pub(super) async fn trim(&self, group: i64, min_seq: Seq) {
        let request = TrimConversationRequest { conversation_id: format!("g{group}"), min_seq };
        MessageServiceClient::new(self.edge.clone()).trim_conversation(request).await.unwrap();
    }

    /// Returns the stored messages' numbers.
    pub(super) async fn stored(&self, group: i64) -> Vec<Seq> {
        let end = self.stores.messages.strong_end(log(group)).await.unwrap();
        let mut found = Vec::new();
        for first in (1..=end).step_by(100) {
            let some = self.stores.messages.messages(log(group), first, first + 99).await.unwrap();
            found.extend(some.iter().map(|message| message.seq));
        }
        found
    }

    pub(super) async fn record(&self, group: i64) -> Conversation {
        let found = self.stores.conversations.conversations(&[log(group)]).await.unwrap();
        found.first().copied().unwrap_or(Conversation::absent(log(group)))
    }

    /// Waits until a conversation has been trimmed completely.
    pub(super) async fn until_trimmed(&self, group: i64) {
        until(async || {
            let record = self.record(group).await;
            record.min_seq > 0 && !record.trim
        })
        .await;
    }

    pub(super) async fn dismiss(&self, group: i64, owner: i64) {
        let request = groups::DismissGroupRequest { group_id: group, ..Default::default() };
        GroupServiceClient::new(self.edge.clone()).dismiss_group(principal(owner, request)).await.unwrap();
    }
}

pub(super) fn log(group: i64) -> ConversationId {
    ConversationId::Group(GroupId::new(group).unwrap())
}

pub(super) fn message(sent: Timestamp) -> NewMessage {
    bare_node::new_message(MessageKey(uuid::Uuid::new_v4().into_bytes()), None, sent, "hi")
}

/// Returns a time so old that everything may be removed.
pub(super) fn old() -> Timestamp {
    Timestamp(Timestamp::now().0 - 86_400_000)
}
