//! A deleted user's messages are erased, and its id is held until the erasure has ended.

use std::{any::Any, time::Duration};

use kith_proto::{
    message::v1::{
        SendMessageRequest, message_service_client::MessageServiceClient, send_message_request::To,
    },
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use kith_server::{config::Config, edge::Edge, node::services::Services};
use kith_store::{ConversationId, Erasure, ImportedFollow, Stores, Timestamp, UserId, Write};
use tonic::Status;

use crate::bare_node;
use crate::node::{assert_forbidden, until};

const CHOSEN: i64 = 11;
/// The time is long past, so that no wait is necessary.
const LONG_AGO: Timestamp = Timestamp(1_000);

/// A node's services whose background tasks have not begun.
struct Node {
    edge: Edge,
    services: Services,
    stores: Stores,
    _open: Box<dyn Any>,
}

impl Node {
    async fn over(stores: Stores, open: Box<dyn Any>) -> Self {
        let mut config = Config::default();
        config.limits.write_answer = Duration::from_secs(8);
        config.messages.erase_on_delete = true;
        // The erasure is so slow that an id could be given before its end.
        config.messages.erase_rate = 2;
        let (edge, services) = bare_node::serve(&stores, &config).await;
        Self { edge, services, stores, _open: open }
    }

    async fn over_a_file() -> Self {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        Self::over(file.stores(), Box::new(file)).await
    }

    #[cfg(feature = "cluster")]
    async fn over_a_cluster() -> Self {
        use crate::node::{data_stores::DataStores, variable};
        use kith_store_cluster::{CqlOptions, MongoOptions, connect};

        let folder = tempfile::tempdir().unwrap();
        let [uri, cql] = ["KITH_TEST_MONGODB", "KITH_TEST_CQL"].map(|name| variable(name).unwrap());
        let lent = DataStores::of(folder.path(), &uri, Some(&cql)).await;
        let mongo = MongoOptions::new(uri, &lent.stores.database);
        let keyspace = lent.stores.keyspace.clone().unwrap();
        let cql = CqlOptions { request: Duration::from_secs(10), ..CqlOptions::new([cql], keyspace) };
        let handle = connect(mongo).await.unwrap().with_relations(cql).unwrap();
        let stores = handle.stores();
        stores.migrations.migrate().await.unwrap();
        until(async || stores.edges.removals(1).await.is_ok()).await;
        Self::over(stores, Box::new((handle, lent, folder))).await
    }

    fn start(&self) {
        self.services.cleanup.start();
        self.services.message_upkeep.start();
    }

    async fn create(&self, user_id: i64, name: &str) -> Result<i64, Status> {
        let user = users::User { user_id, user_name: name.to_owned(), ..Default::default() };
        let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
        let made = UserServiceClient::new(self.edge.clone()).create_user(request).await?.into_inner();
        Ok(made.user.unwrap().user_id)
    }

    /// Sends a text from the user to another.
    async fn say(&self, to: i64, body: &'static str) {
        let request = SendMessageRequest {
            sender_id: CHOSEN,
            to: Some(To::UserId(to)),
            body: body.into(),
            ..Default::default()
        };
        MessageServiceClient::new(self.edge.clone()).send_message(request).await.unwrap();
    }

    /// Deletes like a node that dies right afterwards.
    async fn delete(&self, user: i64, at: Timestamp) {
        self.stores.edges.note_removal(id(user), at).await.unwrap();
        self.stores.users.delete_user(id(user), at, Write::at(at)).await.unwrap();
    }

    /// Creates the user and two others. The user sends a text to each of them, and to itself.
    async fn talk(&self) -> [i64; 3] {
        let [ann, bea] = [self.create(0, "ann").await.unwrap(), self.create(0, "bea").await.unwrap()];
        self.create(CHOSEN, "first").await.unwrap();
        for other in [ann, bea, CHOSEN] {
            self.say(other, "secret").await;
        }
        [ann, bea, CHOSEN]
    }

    /// Returns the user's last erasure.
    async fn erasure(&self) -> Erasure {
        self.stores.erasures.begin_erasure(id(CHOSEN), false, LONG_AGO).await.unwrap()
    }

    /// Waits until the id can be created again.
    async fn until_free(&self) {
        until(async || match self.create(CHOSEN, "second").await {
            Ok(_) => true,
            refused => {
                assert_forbidden(refused);
                false
            }
        })
        .await;
    }

    /// Returns the texts that the user sent to another, without events.
    async fn texts_to(&self, other: i64) -> Vec<String> {
        let log = ConversationId::direct(id(CHOSEN), id(other));
        let found = self.stores.messages.messages(log, 1, 100).await.unwrap();
        let of_user = found.iter().filter(|message| message.sender == Some(id(CHOSEN)));
        of_user.map(|message| String::from_utf8(message.body.to_vec()).unwrap()).collect()
    }
}

fn id(user: i64) -> UserId {
    UserId::new(user).unwrap()
}

async fn id_is_free_when_the_messages_are_erased(node: Node) {
    let others = node.talk().await;
    node.delete(CHOSEN, LONG_AGO).await;
    node.start();
    node.until_free().await;
    let erasure = node.erasure().await;
    assert!(erasure.ended, "{erasure:?}");
    assert_eq!((erasure.run, erasure.conversations_done, erasure.messages), (1, 3, 3));
    for other in others {
        assert_eq!(node.texts_to(other).await, [""]);
    }
}

/// Messages may have arrived since then.
async fn earlier_erasure_does_not_count(node: Node, ended: bool) {
    let others = node.talk().await;
    let begun = node.stores.erasures.begin_erasure(id(CHOSEN), false, LONG_AGO).await.unwrap();
    node.stores.erasures.save_erasure(&Erasure { ended, ..begun }).await.unwrap().unwrap();
    node.delete(CHOSEN, LONG_AGO).await;
    node.start();
    node.until_free().await;
    let erasure = node.erasure().await;
    assert_eq!((erasure.run, erasure.ended), (2, true));
    for other in others {
        assert_eq!(node.texts_to(other).await, [""]);
    }
}

/// A message that passed its check before the deletion may arrive for a while.
async fn nothing_is_erased_right_after_the_deletion(node: Node) {
    let [ann, bea, _] = node.talk().await;
    let edge = kith_store::Edge::new(id(bea), id(ann)).unwrap();
    let follow = ImportedFollow { edge, since: Timestamp(1) };
    node.stores.follows.import_follows(&[follow], Timestamp(1_000)).await.unwrap();
    let now = Timestamp::now();
    node.delete(CHOSEN, now).await;
    node.delete(bea, Timestamp(now.0 + 1)).await;
    node.start();
    // Notes are handled in time order.
    until(async || {
        let found = node.stores.follows.follows(&[edge]).await.unwrap();
        found.into_iter().all(|(_, follow)| follow.live().is_none())
    })
    .await;
    assert_eq!(node.erasure().await.begun, LONG_AGO, "it is begun here");
}

#[tokio::test]
async fn id_waits_for_the_erasure_over_a_file() {
    id_is_free_when_the_messages_are_erased(Node::over_a_file().await).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn id_waits_for_the_erasure_over_a_cluster() {
    id_is_free_when_the_messages_are_erased(Node::over_a_cluster().await).await;
}

#[tokio::test]
async fn earlier_erasure_does_not_count_over_a_file() {
    for ended in [true, false] {
        earlier_erasure_does_not_count(Node::over_a_file().await, ended).await;
    }
}

#[cfg(feature = "cluster")]
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn earlier_erasure_does_not_count_over_a_cluster() {
    earlier_erasure_does_not_count(Node::over_a_cluster().await, true).await;
}

#[tokio::test]
async fn messages_under_way_are_waited_for_over_a_file() {
    nothing_is_erased_right_after_the_deletion(Node::over_a_file().await).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn erasure_waits_for_messages_in_a_cluster() {
    nothing_is_erased_right_after_the_deletion(Node::over_a_cluster().await).await;
}
