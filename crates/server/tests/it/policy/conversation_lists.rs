//! Conversation lists: the listed conversations, their order, and their fields.

use crate::dialog_calls::*;
use crate::group_calls::{add, chat, chat_with_id, group_with_history, join, leave};
use crate::message_calls::*;
use crate::node::{TestNode, all_pages, assert_forbidden, assert_invalid, assert_not_found, principal};
use crate::relation_calls::{block, do_not_disturb, node_with_users, with_users};
use kith_proto::message::v1::{send_message_request::To, *};

/// Sends a text to a group as its member.
async fn say_to_group(node: &TestNode, by: i64, group: i64) {
    say(node, by, To::GroupId(group), "hi").await.unwrap();
}

#[tokio::test]
async fn list_shows_each_conversation_whole() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "1").await.unwrap();
    until_read(&node, ann, &id, 1).await;
    let mention = SendMessageRequest { mention_ids: vec![ann], ..with_id(To::UserId(ann), "m2", "2") };
    let sent = send(&node, bea, mention).await.unwrap();
    until_read(&node, bea, &id, 2).await;
    let settings =
        DialogSettings { pinned: true, marked_unread: true, ext: "draft".into(), ..Default::default() };
    update(&node, ann, to_update(&id, settings, &["*"])).await.unwrap();
    let shown = listed(&node, ann).await.remove(0);
    let expected = Conversation {
        conversation_id: id.clone(),
        max_seq: 2,
        min_seq: 1,
        read_seq: 1,
        peer_read_seq: 2,
        unread: 1,
        unread_more: false,
        first_mention_seq: 2,
        last_message: Some(Message {
            conversation_id: id.clone(),
            seq: 2,
            sender_id: bea,
            send_time: sent.send_time,
            kind: MessageKind::Message.into(),
            content_type: "text/plain".into(),
            body: "2".into(),
            mention_ids: vec![ann],
            ..Default::default()
        }),
        pinned: true,
        do_not_disturb: false,
        marked_unread: true,
        ext: "draft".into(),
        version: 3,
        settings_version: 1,
    };
    assert_eq!(shown, expected);
    assert_eq!(conversation(&node, ann, &id).await.unwrap(), expected);
    let of_bea = listed(&node, bea).await.remove(0);
    assert_eq!((of_bea.unread, of_bea.peer_read_seq, of_bea.pinned), (0, 1, false));
    assert_eq!(of_bea.last_message.unwrap().client_message_id, "m2", "shown to its sender");
}

#[tokio::test]
async fn empty_groups_are_listed_empty_direct_not() {
    let (node, [ann, bea]) = with_users().await;
    assert_eq!(listed_ids(&node, ann).await, [""; 0]);
    let request = CreateConversationRequest { other_user_id: bea, ..Default::default() };
    let made = node.messages().create_conversation(principal(ann, request)).await.unwrap().into_inner();
    assert_eq!(made.conversation.unwrap().conversation_id, direct(ann, bea));
    assert_eq!(listed_ids(&node, ann).await, [""; 0]);
    let group = chat(&node, ann, &[]).await;
    let shown = listed(&node, ann).await.remove(0);
    let first = (shown.conversation_id, shown.max_seq, shown.min_seq, shown.last_message);
    assert_eq!(first, (format!("g{group}"), 0, 1, None));
    say(&node, bea, To::UserId(ann), "hi").await.unwrap();
    assert_eq!(listed_ids(&node, ann).await.len(), 2);
    assert_eq!(listed_ids(&node, bea).await, [direct(ann, bea)]);
}

#[tokio::test]
async fn conversation_is_created_by_users_who_may_send() {
    let (node, [ann, bea]) = with_users().await;
    let create = async |by, other_user_id| {
        let request = CreateConversationRequest { other_user_id, ..Default::default() };
        node.messages().create_conversation(principal(by, request)).await
    };
    let first = create(ann, bea).await.unwrap().into_inner();
    assert_ne!(first.consistency_token, "");
    let shown = first.conversation.unwrap();
    assert_eq!((shown.version, shown.max_seq, shown.unread), (1, 0, 0));
    assert_eq!(
        create(bea, ann).await.unwrap().into_inner().conversation.unwrap().version,
        1,
        "both were made"
    );
    assert_eq!(
        create(ann, ann).await.unwrap().into_inner().conversation.unwrap().conversation_id,
        direct(ann, ann)
    );
    assert_not_found(create(ann, 987_654_321).await);
    block(&node, bea, ann).await;
    assert_forbidden(create(ann, bea).await);
}

#[tokio::test]
async fn former_member_sees_the_last_100_of_its_stay() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    // The event that Bea joined is also a message.
    fill(&node, &id, 249).await;
    leave(&node, group, bea).await;
    fill(&node, &id, 100).await;
    let shown = conversation(&node, bea, &id).await.unwrap();
    assert_eq!((shown.max_seq, shown.unread, shown.unread_more), (250, 100, true));
    assert_eq!(shown.last_message.unwrap().body, "250");
    assert_eq!(counts(&node, bea, &[&id]).await, [(id.clone(), 249)]);
    mark_up_to(&node, bea, &id, 160).await;
    let shown = conversation(&node, bea, &id).await.unwrap();
    assert_eq!((shown.unread, shown.unread_more), (90, false));
    assert_eq!(counts(&node, bea, &[&id]).await, [(id.clone(), 90)]);
}

#[tokio::test]
async fn pages_hold_all_once_in_order() {
    let (node, [ann, bea]) = with_users().await;
    for _ in 0..13 {
        let group = chat(&node, ann, &[bea]).await;
        say_to_group(&node, bea, group).await;
    }
    let whole = listed_ids(&node, ann).await;
    assert_eq!(whole.len(), 13);
    pin(&node, ann, &whole[7], true).await;
    let whole = listed_ids(&node, ann).await;
    for size in [1, 4, 6, 13] {
        let found = all_pages(async |token| {
            let page = list(&node, ann, size, &token).await?;
            assert!(page.conversations.len() <= usize::try_from(size).unwrap());
            Ok((page.conversations, page.next_page_token))
        });
        let found = found.await.unwrap().into_iter().map(|shown| shown.conversation_id);
        assert_eq!(found.collect::<Vec<_>>(), whole, "pages of {size}");
    }
}

#[tokio::test]
async fn page_token_is_of_one_user() {
    let (node, [ann, bea]) = with_users().await;
    for _ in 0..2 {
        chat(&node, ann, &[bea]).await;
    }
    let token = list(&node, ann, 1, "").await.unwrap().next_page_token;
    assert_ne!(token, "");
    for (by, token) in [(bea, token.as_str()), (ann, "garbage")] {
        assert_invalid(list(&node, by, 1, token).await, "page_token");
    }
    assert_not_found(list(&node, 987_654_321, 0, "").await);
}

#[tokio::test]
async fn pages_of_large_messages_are_smaller() {
    let (node, [ann, bea]) = with_users().await;
    for _ in 0..60 {
        let group = chat(&node, ann, &[bea]).await;
        let large = SendMessageRequest { body: vec![7; 65_536].into(), ..text(To::GroupId(group), "") };
        send(&node, bea, large).await.unwrap();
    }
    let mut pages = 0;
    let found = all_pages(async |token| {
        let page = list(&node, ann, 200, &token).await?;
        pages += 1;
        Ok((page.conversations, page.next_page_token))
    });
    assert_eq!((found.await.unwrap().len(), pages), (60, 2));
}

#[tokio::test]
async fn too_many_conversations_are_left_out() {
    let (node, [ann, bea, cid]) = node_with_users(|config| config.messages.conversations_max = 3).await;
    let groups = [chat(&node, ann, &[]).await, chat(&node, ann, &[]).await];
    for other in [bea, cid] {
        say(&node, other, To::UserId(ann), "hi").await.unwrap();
    }
    let page = list(&node, ann, 0, "").await.unwrap();
    assert_eq!((page.conversations.len(), page.left_out), (3, 1));
    pin(&node, ann, &direct(ann, bea), true).await;
    pin(&node, ann, &direct(ann, cid), true).await;
    let page = list(&node, ann, 0, "").await.unwrap();
    let mut ids: Vec<_> = page.conversations.into_iter().map(|shown| shown.conversation_id).collect();
    ids.sort_unstable();
    let mut expected = vec![direct(ann, bea), direct(ann, cid), format!("g{}", groups[0])];
    expected.sort_unstable();
    assert_eq!((ids, page.left_out), (expected, 1), "pinned ones before groups");
}

#[tokio::test]
async fn direct_do_not_disturb_is_that_of_the_relation() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, bea, To::UserId(ann), "hi").await.unwrap();
    do_not_disturb(&node, ann, bea, true).await;
    assert!(listed(&node, ann).await[0].do_not_disturb);
    assert!(!listed(&node, bea).await[0].do_not_disturb);
    let counted = count(&node, ann, &[]).await;
    assert_eq!((counted.total, counted.muted_total), (0, 1));
    let settings = DialogSettings { do_not_disturb: false, ..Default::default() };
    assert_invalid(update(&node, ann, to_update(&id, settings, &["do_not_disturb"])).await, "update_mask");
}

#[tokio::test]
async fn shown_history_is_not_unread() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = group_with_history(&node, ann).await;
    let id = format!("g{group}");
    fill(&node, &id, 120).await;
    join(&node, group, bea).await.unwrap();
    add(&node, group, &[cid]).await;
    for user in [bea, cid] {
        let shown = conversation(&node, user, &id).await.unwrap();
        assert_eq!((shown.min_seq, shown.unread, shown.unread_more), (1, 0, false), "it may read all");
        assert_eq!(listed(&node, user).await[0].unread, 0);
        assert_eq!(counts(&node, user, &[]).await, []);
        assert_eq!(read(&node, user, &id).await.read_seq, shown.read_seq);
        assert!(shown.read_seq >= 120, "the mark begins at the join: {}", shown.read_seq);
    }
    let last = say(&node, ann, To::GroupId(group), "hi").await.unwrap();
    for user in [bea, cid] {
        assert_eq!(conversation(&node, user, &id).await.unwrap().unread, 1);
        assert_eq!(counts(&node, user, &[]).await, [(id.clone(), 1)]);
        assert_eq!(mark_up_to(&node, user, &id, last).await, (last, 0));
    }
    // It stays read after a leave.
    let group = group_with_history(&node, ann).await;
    let id = format!("g{group}");
    fill(&node, &id, 12).await;
    join(&node, group, bea).await.unwrap();
    say(&node, ann, To::GroupId(group), "hi").await.unwrap();
    leave(&node, group, bea).await;
    let shown = conversation(&node, bea, &id).await.unwrap();
    assert_eq!((shown.min_seq, shown.unread, shown.unread_more), (1, 1, false), "what came while it was in");
}
