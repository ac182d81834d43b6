//! A backup includes messages, dialogs and member ranges.

use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, RemoveMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{send_message_request::To, *},
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use tonic::transport::Channel;

use crate::backup::node::{Node, backup, restore};

fn messages(channel: &Channel) -> message_service_client::MessageServiceClient<Channel> {
    message_service_client::MessageServiceClient::new(channel.clone())
}

/// Creates the users 1 to 3, all in group 9.
async fn fill(channel: &Channel) {
    for user_id in 1..=3 {
        let user = users::User { user_id, user_name: format!("user {user_id}"), ..Default::default() };
        let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
        UserServiceClient::new(channel.clone()).create_user(request).await.unwrap();
    }
    let group = groups::Group { group_id: 9, name: "Chess".into(), creator_id: 1, ..Default::default() };
    let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
    GroupServiceClient::new(channel.clone()).create_group(request).await.unwrap();
    let request = AddMembersRequest { group_id: 9, user_ids: vec![2, 3], ..Default::default() };
    MemberServiceClient::new(channel.clone()).add_members(request).await.unwrap();
}

async fn send(channel: &Channel, body: &str) -> SendMessageResponse {
    let message = SendMessageRequest {
        to: Some(To::GroupId(9)),
        sender_id: 1,
        client_message_id: body.into(),
        body: body.to_owned().into(),
        ..Default::default()
    };
    messages(channel).send_message(message).await.unwrap().into_inner()
}

/// Returns the messages that a user reads in the group, and its conversation.
async fn seen(channel: &Channel, user_id: i64) -> (Vec<Message>, Conversation) {
    let conversation_id = "g9".to_owned();
    let pull = PullMessagesRequest {
        user_id,
        conversation_id: conversation_id.clone(),
        limit: 1000,
        ..Default::default()
    };
    let pulled = messages(channel).pull_messages(pull).await.unwrap().into_inner();
    let get = GetConversationRequest { user_id, conversation_id, consistency: None };
    let shown = messages(channel).get_conversation(get).await.unwrap().into_inner();
    (pulled.messages, shown.conversation.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_node_has_messages_marks_and_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let (data, restored, to) =
        (folder.path().join("data"), folder.path().join("restored"), folder.path().join("backup.db"));
    std::fs::create_dir(&data).unwrap();
    let node = Node::start(&data).await;
    fill(&node.channel).await;
    for number in 1..=150 {
        send(&node.channel, &format!("m-{number}")).await;
    }
    let mark = MarkReadRequest { user_id: 2, conversation_id: "g9".into(), up_to: 120, ..Default::default() };
    messages(&node.channel).mark_read(mark).await.unwrap();
    let trim = TrimConversationRequest { conversation_id: "g9".into(), min_seq: 11 };
    messages(&node.channel).trim_conversation(trim).await.unwrap();
    let remove = RemoveMembersRequest { group_id: 9, user_ids: vec![3], ..Default::default() };
    MemberServiceClient::new(node.channel.clone()).remove_members(remove).await.unwrap();
    send(&node.channel, "m-151").await;
    let before = [seen(&node.channel, 2).await, seen(&node.channel, 3).await];
    backup(&data, &to);
    send(&node.channel, "lost").await;
    drop(node);

    restore(&to, &restored);
    let again = Node::start(&restored).await;
    assert_eq!([seen(&again.channel, 2).await, seen(&again.channel, 3).await], before);
    let of_member = &before[0];
    assert_eq!(
        (of_member.0.len(), of_member.1.read_seq, of_member.1.unread),
        (143, 120, 32),
        "with two events"
    );
    assert_eq!((before[1].1.min_seq, before[1].1.max_seq), (11, 151), "a former member");
    let replayed = send(&again.channel, "m-7").await;
    assert_eq!((replayed.seq, replayed.replayed), (8, true));
    let next = send(&again.channel, "new").await;
    assert_eq!((next.seq, next.replayed), (154, false), "the number of the message that is lost");
}
