//! Receipts on several nodes: marks go through all nodes, and members come and go.

use std::time::Duration;

use kith_proto::{
    group::v1::{CreateGroupRequest, Group},
    member::v1::{AddMembersRequest, RemoveMembersRequest},
    message::v1::{send_message_request::To, *},
    receipt::v1::{GetReceiptRequest, receipt_service_client::ReceiptServiceClient},
    r#type::v1::{AtLeast, Consistency, consistency::Level},
    user::v1::{ImportUser, ImportUsersRequest, User},
};
use kith_server::config::Config;

use super::windows::acting;
use crate::cluster::{
    hand,
    redis::{Monitor, Redis},
    site::{Peer, Site, stop, with_relations},
};

const GROUP: i64 = 9;
const ID: &str = "g9";

/// Starts nodes that follow, with a member store.
async fn nodes<const N: usize>(site: &Site, change: impl Fn(&mut Config)) -> [Peer; N] {
    site.nodes(|config| {
        with_relations(config);
        change(config);
    })
    .await
}

/// Creates the users from 1 to `last`, and a group with all of them.
async fn group(node: &Peer, last: i64) {
    let user = |id| User { user_id: id, user_name: format!("user{id}"), ..User::default() };
    let record = |id| ImportUser { record: id, user: Some(user(id)), ..ImportUser::default() };
    let records: Vec<_> = (1..=last).map(record).collect();
    let parts: Vec<_> =
        records.chunks(500).map(|part| ImportUsersRequest { records: part.to_vec() }).collect();
    let mut answers = node.users().import_users(tokio_stream::iter(parts)).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    let group = Group { group_id: GROUP, name: "All".to_owned(), ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    node.groups().create_group(request).await.unwrap();
    for some in (1..=last).collect::<Vec<_>>().chunks(100) {
        let request = AddMembersRequest { group_id: GROUP, user_ids: some.to_vec(), ..Default::default() };
        node.members().add_members(request).await.unwrap();
    }
}

/// Sends a user's message. Returns its number. Leaves the sender's mark out, because it would come later.
async fn say(node: &Peer, by: i64) -> i64 {
    let to = Some(To::GroupId(GROUP));
    let request =
        SendMessageRequest { to, sender_id: by, body: "x".into(), keep_unread: true, ..Default::default() };
    node.messages().send_message(request).await.unwrap().into_inner().seq
}

/// Marks up to a number. Returns the token.
async fn mark(node: &Peer, by: i64, up_to: i64) -> String {
    let request = MarkReadRequest { conversation_id: ID.to_owned(), up_to, ..MarkReadRequest::default() };
    node.messages().mark_read(acting(by, request)).await.unwrap().into_inner().consistency_token
}

/// Returns how many have read a message, have not read it, and have left.
async fn counts(node: &Peer, seq: i64, level: Option<Level>) -> [i64; 3] {
    let consistency = level.map(|level| Consistency { level: Some(level) });
    let request = GetReceiptRequest { conversation_id: ID.to_owned(), seq, consistency, form: 0 };
    let answer = ReceiptServiceClient::new(node.channel()).get_receipt(request).await.unwrap();
    let receipt = answer.into_inner().receipt.unwrap();
    [receipt.read, receipt.unread, receipt.left]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn receipt_is_as_fresh_as_the_call_asks() {
    let site = Site::in_redis_of_tests();
    let keeping = |config: &mut Config| config.receipts.memory = Duration::from_secs(60);
    let [a, b] = nodes(&site, keeping).await;
    group(&a, 4).await;
    let seq = say(&a, 1).await;
    assert_eq!(counts(&a, seq, None).await, [0, 3, 0]);
    let token = mark(&b, 2, seq).await;
    assert_eq!(counts(&a, seq, None).await, [0, 3, 0], "marks of other nodes are seen when the copy is old");
    let at_least = Level::AtLeast(AtLeast { consistency_tokens: vec![token] });
    assert_eq!(counts(&a, seq, Some(at_least)).await, [1, 2, 0]);
    mark(&b, 3, seq).await;
    assert_eq!(counts(&a, seq, Some(Level::Strong(true))).await, [2, 1, 0]);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn removal_elsewhere_is_in_the_next_receipt() {
    let site = Site::in_redis_of_tests();
    let [a, b] = nodes(&site, |_| {}).await;
    group(&a, 4).await;
    for round in 0..20 {
        let (changer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let seq = say(reader, 1).await;
        assert_eq!(counts(reader, seq, None).await, [0, 3, 0], "{round}");
        let mut members = changer.members();
        let remove = RemoveMembersRequest { group_id: GROUP, user_ids: vec![4], ..Default::default() };
        members.remove_members(remove).await.unwrap();
        assert_eq!(counts(reader, seq, None).await, [0, 2, 1], "{round}");
        let next = say(changer, 1).await;
        assert_eq!(counts(reader, next, None).await, [0, 2, 0], "{round}");
        let add = AddMembersRequest { group_id: GROUP, user_ids: vec![4], ..Default::default() };
        members.add_members(add).await.unwrap();
        let last = say(changer, 1).await;
        assert_eq!(counts(reader, last, None).await, [0, 3, 0], "{round}");
    }
    stop([a, b]).await;
}

/// Counts the server commands that opening a chat may cost: one reads the log's end, one writes the mark, one
/// publishes, and one notifies the user's other devices.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn opening_500_unread_takes_3_round_trips() {
    const MEMBERS: i64 = 200;
    let redis = Redis::start(&[]).await;
    let site = Site::new(Some(redis.url()));
    let [a, b] = nodes(&site, |config| config.receipts.notify_every = Duration::ZERO).await;
    group(&a, MEMBERS).await;
    let text = SendMessageRequest { to: Some(To::GroupId(GROUP)), body: "x".into(), ..Default::default() };
    for _ in 0..5 {
        let request = BatchSendRequest { messages: vec![text.clone(); 100] };
        a.messages().batch_send(request).await.unwrap();
    }
    let end = a.messages().send_message(text).await.unwrap().into_inner().seq;
    let mut monitor = Monitor::start(&redis.url()).await;
    let (mut trips, mut operations) = (Vec::new(), Vec::new());
    for user in 2..=10 {
        // The client shows the chat before it marks it.
        let shown = GetConversationRequest { conversation_id: ID.to_owned(), ..Default::default() };
        a.messages().get_conversation(acting(user, shown)).await.unwrap();
        hand::profile(&site.database, true);
        monitor.take().await;
        mark(&a, user, end).await;
        trips.push(monitor.take().await.len());
        hand::profile(&site.database, false);
        let of = ["dialogs", "messages", "conversations", "groups", "users"];
        operations.push(of.map(|collection| hand::profiled(&site.database, collection)));
    }
    // Nodes also observe each other, and reread values that were too old: operations that every call has
    // belong to the call.
    assert_eq!(operations.iter().min(), Some(&[1, 1, 0, 0, 0]), "{operations:?}");
    assert!(trips.iter().min().is_some_and(|trips| (1..=3).contains(trips)), "{trips:?}");
    stop([a, b]).await;
}
