//! A node is killed while a user reads: the unread count and the message receipts change together.

use std::time::Duration;

use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        GetConversationRequest, MarkReadRequest, SendMessageRequest,
        message_service_client::MessageServiceClient, send_message_request::To,
    },
    receipt::v1::{BatchGetReceiptsRequest, receipt_result, receipt_service_client::ReceiptServiceClient},
    user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient},
};
use tokio::sync::watch;
use tonic::transport::Channel;

use crate::backup::node::Node;

const ANN: i64 = 7;
const BEA: i64 = 8;
const GROUP: i64 = 9;
/// Few enough messages for an exact unread count.
const MESSAGES: usize = 99;
const KILLS: i64 = 8;

/// Creates Ann and Bea in a group. Returns Ann's message numbers.
async fn begin(channel: &Channel) -> Vec<i64> {
    for user_id in [ANN, BEA] {
        let user = User { user_id, user_name: format!("user {user_id}"), ..User::default() };
        let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
        UserServiceClient::new(channel.clone()).create_user(request).await.unwrap();
    }
    let group = Group { group_id: GROUP, name: "talk".to_owned(), creator_id: ANN, ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    GroupServiceClient::new(channel.clone()).create_group(request).await.unwrap();
    let request = AddMembersRequest { group_id: GROUP, user_ids: vec![BEA], ..AddMembersRequest::default() };
    MemberServiceClient::new(channel.clone()).add_members(request).await.unwrap();
    let mut seqs = Vec::with_capacity(MESSAGES);
    for _ in 0..MESSAGES {
        let request = SendMessageRequest {
            to: Some(To::GroupId(GROUP)),
            sender_id: ANN,
            content_type: "text/plain".to_owned(),
            ..SendMessageRequest::default()
        };
        let sent = MessageServiceClient::new(channel.clone()).send_message(request).await.unwrap();
        seqs.push(sent.into_inner().seq);
    }
    seqs
}

/// Reads one more message at a time until the node is gone. Records how far the node has acknowledged.
async fn read(channel: Channel, seqs: Vec<i64>, acknowledged: watch::Sender<i64>) {
    let mut messages = MessageServiceClient::new(channel);
    for up_to in seqs {
        let request = MarkReadRequest {
            user_id: BEA,
            conversation_id: format!("g{GROUP}"),
            up_to,
            ..MarkReadRequest::default()
        };
        if messages.mark_read(request).await.is_err() {
            return;
        }
        acknowledged.send_replace(up_to);
    }
}

/// Returns how much Bea has read, by her unread count and by Ann's receipts.
async fn found(channel: &Channel, seqs: &[i64]) -> (i64, usize, Vec<i64>) {
    let conversation_id = format!("g{GROUP}");
    let request = GetConversationRequest {
        user_id: BEA,
        conversation_id: conversation_id.clone(),
        ..GetConversationRequest::default()
    };
    let mut messages = MessageServiceClient::new(channel.clone());
    let conversation = messages.get_conversation(request).await.unwrap().into_inner().conversation.unwrap();
    let request = BatchGetReceiptsRequest {
        conversation_id,
        seqs: seqs.to_vec(),
        ..BatchGetReceiptsRequest::default()
    };
    let receipts = ReceiptServiceClient::new(channel.clone()).batch_get_receipts(request).await.unwrap();
    let read = receipts.into_inner().results.into_iter().filter_map(|result| match result.result {
        Some(receipt_result::Result::Receipt(receipt)) if receipt.read == 1 => Some(receipt.seq),
        Some(receipt_result::Result::Receipt(_)) => None,
        other => panic!("{other:?}"),
    });
    (conversation.read_seq, usize::try_from(conversation.unread).unwrap(), read.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn badge_and_receipt_agree_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::start(dir.path()).await;
    let seqs = begin(&node.channel).await;
    let mut least = 0;
    for round in 1..=KILLS {
        let (acknowledged, mut so_far) = watch::channel(least);
        let reading = tokio::spawn(read(
            node.channel.clone(),
            seqs.iter().copied().filter(move |seq| *seq > least).collect(),
            acknowledged,
        ));
        let enough = so_far.wait_for(|up_to| *up_to >= least + round);
        tokio::time::timeout(Duration::from_secs(30), enough).await.expect("marks are acknowledged").unwrap();
        drop(node);
        reading.await.unwrap();
        least = *so_far.borrow();
        node = Node::start(dir.path()).await;
        let (read_seq, unread, read) = found(&node.channel, &seqs).await;
        assert!(read_seq >= least, "{read_seq} was acknowledged up to {least}");
        let expected: Vec<i64> = seqs.iter().copied().filter(|seq| *seq <= read_seq).collect();
        assert_eq!((unread, &read), (seqs.len() - expected.len(), &expected), "read up to {read_seq}");
        least = read_seq;
    }
}
