//! Message receipts: the users who have read a message.

use kith_proto::{
    group::v1::{Group, ReceiptVisibility},
    message::v1::{RecallMessageRequest, send_message_request::To},
    receipt::v1::{GetReceiptRequest, ReceiptForm, receipt::Who},
};
use tonic::Code;

use crate::dialog_calls::mark_up_to;
use crate::group_calls::{add, chat, leave};
use crate::message_calls::*;
use crate::node::{
    SERVICE, TestNode, assert_denied, assert_error, assert_forbidden, assert_invalid, assert_not_found,
    principal,
};
use crate::receipt_calls::{self, batch, bits, counts, get, lists, ordinals, show, to_get};
use crate::relation_calls::{block, node_with_users, with_users};

/// Creates five users in a group, A to E. Returns its conversation, too.
async fn five() -> (TestNode, [i64; 5], i64, String) {
    let (node, users) = with_users().await;
    let group = chat(&node, users[0], &users[1..]).await;
    (node, users, group, format!("g{group}"))
}

async fn say_to(node: &TestNode, by: i64, group: i64) -> i64 {
    say(node, by, To::GroupId(group), "x").await.unwrap()
}

#[tokio::test]
async fn smallest_is_the_lists_while_few_have_read() {
    let (node, [ann]) = with_users().await;
    let mut members = Vec::new();
    for at in 0..40 {
        members.push(node.user(&format!("member{at}")).await.user_id);
    }
    let group = chat(&node, ann, &members).await;
    let (seq, id) = (say_to(&node, ann, group).await, format!("g{group}"));
    mark_up_to(&node, members[4], &id, seq).await;
    let request = GetReceiptRequest { form: ReceiptForm::Smallest.into(), ..to_get(&id, seq) };
    let Some(Who::Lists(lists)) = get(&node, ann, request.clone()).await.unwrap().who else {
        panic!("lists")
    };
    assert_eq!((lists.readers, lists.quitters, lists.names_present), (vec![5], vec![], false));
    for reader in &members[..10] {
        mark_up_to(&node, *reader, &id, seq).await;
    }
    let Some(Who::Packed(packed)) = get(&node, ann, request).await.unwrap().who else { panic!("bits") };
    assert_eq!(packed, [41, 0, 0, 0, 0b1111_1110, 0b111, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..packed.len()]);
    assert_eq!(packed.len(), 4 + 2 * 6);
}

#[tokio::test]
async fn member_who_left_unread_is_listed_as_left() {
    let (node, [a, b, c, ..], group, id) = five().await;
    let seq = say_to(&node, a, group).await;
    mark_up_to(&node, b, &id, seq).await;
    leave(&node, group, b).await;
    leave(&node, group, c).await;
    assert_eq!(ordinals(&node, a, &id).await.unwrap()[1..3], [(b, true), (c, true)]);
    let [readers, _, left] = lists(&node, a, &id, seq).await.unwrap();
    assert_eq!((readers, left), (vec![b], vec![c]), "what was read stays read");
}

#[tokio::test]
async fn group_decides_who_sees_receipts() {
    let (node, [a, b, c, ..], group, id) = five().await;
    let seq = say_to(&node, a, group).await;
    assert_eq!(counts(&node, a, &id, seq).await.unwrap(), [0, 4, 0], "the sender by default");
    assert_denied(counts(&node, b, &id, seq).await);
    assert_denied(lists(&node, b, &id, seq).await);
    show(&node, group, ReceiptVisibility::Members).await;
    let late = node.user("late").await.user_id;
    add(&node, group, &[late]).await;
    leave(&node, group, c).await;
    for asker in [a, b, SERVICE] {
        assert_eq!(counts(&node, asker, &id, seq).await.unwrap(), [0, 3, 1], "{asker}");
    }
    assert_denied(counts(&node, c, &id, seq).await);
    assert_not_found(counts(&node, late, &id, seq).await);
    show(&node, group, ReceiptVisibility::Off).await;
    for asker in [a, b] {
        assert_forbidden(counts(&node, asker, &id, seq).await);
        assert_forbidden(lists(&node, asker, &id, seq).await);
    }
    assert_eq!(counts(&node, SERVICE, &id, seq).await.unwrap(), [0, 3, 1]);
    show(&node, group, ReceiptVisibility::Unspecified).await;
    assert_denied(counts(&node, b, &id, seq).await);
}

#[tokio::test]
async fn late_member_sees_no_earlier_receipt() {
    let (node, [a, b]) = with_users().await;
    let history_for_new_members = true;
    let receipts = ReceiptVisibility::Members.into();
    let group =
        Group { name: "Club".into(), creator_id: a, history_for_new_members, receipts, ..Default::default() };
    let group = node.group(group).await;
    assert_eq!(group.receipts(), ReceiptVisibility::Members);
    let (group, seq) = (group.group_id, say_to(&node, a, group.group_id).await);
    add(&node, group, &[b]).await;
    assert_denied(counts(&node, b, &format!("g{group}"), seq).await);
}

#[tokio::test]
async fn configuration_decides_if_the_group_does_not() {
    let shown = kith_service::receipt::ReceiptsShown::Off;
    let (node, [a, b]) = node_with_users(|config| config.receipts.shown = shown).await;
    let group = chat(&node, a, &[b]).await;
    let (seq, id) = (say_to(&node, a, group).await, format!("g{group}"));
    assert_forbidden(counts(&node, a, &id, seq).await);
    show(&node, group, ReceiptVisibility::Sender).await;
    assert_eq!(counts(&node, a, &id, seq).await.unwrap(), [0, 1, 0]);
}

#[tokio::test]
async fn others_learn_nothing() {
    let (node, [a, b, ..], group, id) = five().await;
    let (seq, other) = (say_to(&node, a, group).await, node.user("other").await.user_id);
    assert_not_found(counts(&node, other, &id, seq).await);
    assert_not_found(batch(&node, other, &id, &[seq]).await);
    assert_not_found(ordinals(&node, other, &id).await);
    assert_not_found(counts(&node, SERVICE, "g999999", 1).await);
    assert_not_found(ordinals(&node, SERVICE, "g999999").await);
    assert_not_found(counts(&node, other, &direct(a, b), 1).await);
    leave(&node, group, b).await;
    assert_denied(ordinals(&node, b, &id).await);
}

#[tokio::test]
async fn events_and_missing_numbers_have_no_receipt() {
    let (node, [a, ..], group, id) = five().await;
    let seq = say_to(&node, a, group).await;
    let reasons = |results: Vec<Result<[i64; 3], String>>| -> Vec<String> {
        results
            .into_iter()
            .map(|result| result.map_or_else(|why| why, |counts| format!("{counts:?}")))
            .collect()
    };
    let found = reasons(batch(&node, SERVICE, &id, &[seq + 1, 1, seq, seq]).await.unwrap());
    assert_eq!(
        found,
        ["SEQ_OUT_OF_RANGE", "NOT_FOUND", "[0, 4, 0]", "[0, 4, 0]"],
        "the first message is an event"
    );
    assert_error(counts(&node, a, &id, seq + 1).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
    let recall = RecallMessageRequest { user_id: a, conversation_id: id.clone(), seq };
    node.messages().recall_message(principal(a, recall)).await.unwrap();
    assert_eq!(counts(&node, a, &id, seq).await.unwrap(), [0, 4, 0], "a recalled message keeps its receipt");
    let min_seq = say_to(&node, a, group).await;
    let trim = kith_proto::message::v1::TrimConversationRequest { conversation_id: id.clone(), min_seq };
    node.messages().trim_conversation(trim).await.unwrap();
    assert_not_found(counts(&node, SERVICE, &id, seq).await);
}

#[tokio::test]
async fn cached_receipt_respects_the_callers_range() {
    let (node, [a, b, ..], group, id) = five().await;
    show(&node, group, ReceiptVisibility::Members).await;
    let seq = say_to(&node, a, group).await;
    let late = node.user("late").await.user_id;
    add(&node, group, &[late]).await;
    leave(&node, group, b).await;
    let last = say_to(&node, a, group).await;
    // From now on the node knows both messages' senders.
    assert_eq!(counts(&node, SERVICE, &id, seq).await.unwrap(), [0, 3, 1]);
    assert_eq!(counts(&node, SERVICE, &id, last).await.unwrap(), [0, 4, 0]);
    for _ in 0..2 {
        assert_not_found(counts(&node, late, &id, seq).await);
        assert_error(counts(&node, b, &id, last).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
        assert_eq!(counts(&node, late, &id, last).await.unwrap(), [0, 4, 0]);
    }
}

#[tokio::test]
async fn direct_reader_is_the_other_user() {
    let (node, [ann, bea]) = with_users().await;
    let (seq, id) = (say(&node, bea, To::UserId(ann), "x").await.unwrap(), direct(ann, bea));
    assert_eq!(lists(&node, bea, &id, seq).await.unwrap(), [vec![], vec![ann], vec![]]);
    assert_denied(counts(&node, ann, &id, seq).await);
    mark_up_to(&node, ann, &id, seq).await;
    assert_eq!(lists(&node, bea, &id, seq).await.unwrap(), [vec![ann], vec![], vec![]]);
    assert_eq!(bits(&node, &id, seq).await, [2, 0, 0, 0, if ann < bea { 0b01 } else { 0b10 }, 0]);
    let both = [(ann.min(bea), false), (ann.max(bea), false)];
    assert_eq!(ordinals(&node, ann, &id).await.unwrap(), both);
    let note = say(&node, ann, To::UserId(ann), "x").await.unwrap();
    assert_eq!(counts(&node, ann, &direct(ann, ann), note).await.unwrap(), [0, 0, 0]);
    assert_eq!(bits(&node, &direct(ann, ann), note).await, [1, 0, 0, 0, 0, 0]);
    let (seq, id) = (say(&node, ann, To::UserId(bea), "x").await.unwrap(), direct(ann, bea));
    mark_up_to(&node, bea, &id, seq).await;
    assert_eq!(counts(&node, ann, &id, seq).await.unwrap(), [1, 0, 0]);
    block(&node, bea, ann).await;
    assert_eq!(counts(&node, ann, &id, seq).await.unwrap(), [0, 1, 0]);
    assert_eq!(counts(&node, SERVICE, &id, seq).await.unwrap(), [1, 0, 0]);
}

#[tokio::test]
async fn deleted_user_stays_a_reader() {
    let (node, [a, b, c, ..], group, id) = five().await;
    let seq = say_to(&node, a, group).await;
    mark_up_to(&node, b, &id, seq).await;
    for user_id in [b, c] {
        node.delete_user(user_id).await;
    }
    crate::node::until(async || lists(&node, SERVICE, &id, seq).await.unwrap()[2] == [c]).await;
    assert_eq!(lists(&node, SERVICE, &id, seq).await.unwrap()[0], [b]);
}

#[tokio::test]
async fn pages_go_on_by_ordinal() {
    let (node, [a, b, c, d, e], group, id) = five().await;
    let seq = say_to(&node, a, group).await;
    for reader in [e, b, d] {
        mark_up_to(&node, reader, &id, seq).await;
    }
    let page = async |size, token: &str| receipt_calls::readers(&node, a, &id, seq, size, token).await;
    let (first, token) = page(2, "").await.unwrap();
    assert_eq!(first, [b, d]);
    mark_up_to(&node, c, &id, seq).await;
    assert_eq!(page(2, &token).await.unwrap(), (vec![e], String::new()));
    assert_eq!(page(4, "").await.unwrap(), (vec![b, c, d, e], String::new()));
    let other = say_to(&node, a, group).await;
    assert_invalid(receipt_calls::readers(&node, a, &id, other, 2, &token).await, "page_token");
}

/// Starts a node that keeps copies as long as possible.
async fn keeping() -> (TestNode, [i64; 2], String, i64) {
    let minute = std::time::Duration::from_secs(60);
    let node = TestNode::start_with_relations(|config| config.receipts.memory = minute).await;
    let users: [i64; 2] = crate::relation_calls::users(&node).await;
    let group = chat(&node, users[0], &users[1..]).await;
    let seq = say_to(&node, users[0], group).await;
    (node, users, format!("g{group}"), seq)
}

#[tokio::test]
async fn mark_is_seen_at_once_on_its_node() {
    let (node, [a, b], id, seq) = keeping().await;
    assert_eq!(counts(&node, a, &id, seq).await.unwrap(), [0, 1, 0]);
    mark_up_to(&node, b, &id, seq).await;
    assert_eq!(counts(&node, a, &id, seq).await.unwrap(), [1, 0, 0]);
}
