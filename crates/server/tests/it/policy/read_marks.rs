//! Read marks and unread counts.

use crate::dialog_calls::*;
use crate::group_calls::{chat, leave};
use crate::message_calls::*;
use crate::node::assert_not_found;
use crate::relation_calls::{block, unblock};
use kith_proto::message::v1::{send_message_request::To, *};

#[tokio::test]
async fn hidden_mark_is_not_shown_to_the_peer() {
    let (node, [ann, bea], id) = direct_chat().await;
    for _ in 0..4 {
        say(&node, ann, To::UserId(bea), "hi").await.unwrap();
    }
    mark_up_to(&node, bea, &id, 2).await;
    let marked = mark(&node, bea, to_hide(&id, 4)).await.unwrap();
    assert_eq!((marked.read_seq, marked.unread), (4, 0), "the badge is cleared");
    assert_eq!(read(&node, ann, &id).await.peer_read_seq, 2);
    assert_eq!(conversation(&node, ann, &id).await.unwrap().peer_read_seq, 2);
    mark_up_to(&node, bea, &id, 4).await;
    assert_eq!(read(&node, ann, &id).await.peer_read_seq, 4);
}

#[tokio::test]
async fn block_hides_the_peer_mark() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "hi").await.unwrap();
    mark_up_to(&node, bea, &id, 1).await;
    for (by, target) in [(ann, bea), (bea, ann)] {
        assert_eq!(read(&node, ann, &id).await.peer_read_seq, 1);
        block(&node, by, target).await;
        assert_eq!(read(&node, ann, &id).await.peer_read_seq, 0);
        assert_eq!(conversation(&node, ann, &id).await.unwrap().peer_read_seq, 0);
        unblock(&node, by, target).await;
    }
}

#[tokio::test]
async fn list_counts_100_messages_and_count_1000() {
    let (node, [ann, _], _, id) = filled(1_005).await;
    let shown = |shown: &Conversation| (shown.unread, shown.unread_more);
    assert_eq!(shown(&conversation(&node, ann, &id).await.unwrap()), (100, true));
    let counted = count(&node, ann, &[]).await;
    assert_eq!((counted.total, counted.more, counted.counts[0].more), (1_000, true, true));
    mark_up_to(&node, ann, &id, 5).await;
    let counted = count(&node, ann, &[]).await;
    assert_eq!((counted.total, counted.more, counted.counts[0].more), (1_000, false, false));
    mark_up_to(&node, ann, &id, 904).await;
    assert_eq!(shown(&conversation(&node, ann, &id).await.unwrap()), (100, true));
    assert_eq!(count(&node, ann, &[&id]).await.total, 101);
    mark_up_to(&node, ann, &id, 905).await;
    assert_eq!(shown(&conversation(&node, ann, &id).await.unwrap()), (100, false));
    assert_eq!(count(&node, ann, &[&id]).await.total, 100);
}

#[tokio::test]
async fn counts_keep_order_and_separate_muted() {
    let (node, [ann, bea], group, id) = filled(3).await;
    let other = chat(&node, bea, &[ann]).await;
    say(&node, bea, To::GroupId(other), "hi").await.unwrap();
    say(&node, bea, To::UserId(ann), "hi").await.unwrap();
    let (other, both) = (format!("g{other}"), direct(ann, bea));
    let muted = DialogSettings { do_not_disturb: true, ..Default::default() };
    update(&node, ann, to_update(&id, muted, &["do_not_disturb"])).await.unwrap();
    let asked = [&both, &id, "g987654321", &both, &other];
    let expected = [(both.clone(), 1), (id.clone(), 2), (other.clone(), 1)];
    assert_eq!(counts(&node, ann, &asked).await, expected);
    let all = count(&node, ann, &[]).await;
    assert_eq!((all.total, all.muted_total, all.counts.len()), (2, 2, 3));
    leave(&node, group, bea).await;
    let all = count(&node, bea, &[]).await;
    assert!(
        all.counts.iter().all(|count| count.conversation_id != id),
        "a group that was left is not listed"
    );
}

#[tokio::test]
async fn strangers_have_no_dialog() {
    let (node, [ann, bea], _, id) = filled(3).await;
    let stranger = node.user("stranger").await.user_id;
    say(&node, ann, To::UserId(bea), "hi").await.unwrap();
    for id in [&id, &direct(ann, bea), "g987654321"] {
        assert_not_found(mark(&node, stranger, to_mark(id, 1)).await);
        assert_not_found(conversation(&node, stranger, id).await);
        assert_not_found(hide(&node, stranger, id).await);
        assert_not_found(clear(&node, stranger, id).await);
        let settings = DialogSettings { pinned: true, ..Default::default() };
        assert_not_found(update(&node, stranger, to_update(id, settings, &["pinned"])).await);
        assert_eq!(reads(&node, stranger, &[id]).await, [Err("NOT_FOUND".to_owned())]);
        assert_eq!(counts(&node, stranger, &[id]).await, []);
    }
    assert_eq!(listed_ids(&node, stranger).await, [""; 0]);
}

#[tokio::test]
async fn end_is_unknown_to_those_who_may_not_read_it() {
    let (node, [ann, bea], group, id) = filled(5).await;
    set_range(&node, ann, &id, None, Some(4)).await;
    leave(&node, group, bea).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        for (by, last) in [(ann, 4), (bea, 5)] {
            for request in [to_mark(&id, 8), to_hide(&id, i64::MAX), to_mark_ranges(&id, &[(2, 3), (8, 9)])] {
                seen.push((by, last, mark(&node, by, request).await.map(|marked| marked.read_seq)));
            }
            assert_eq!(hide(&node, by, &id).await.unwrap().hidden_seq, last);
            assert_eq!(clear(&node, by, &id).await.unwrap().min_seq, last + 1);
        }
        // The answers do not depend on messages sent now.
        fill(&node, &id, 7).await;
    }
    assert!(seen.iter().all(|(_, last, read)| read.as_ref().ok() == Some(last)), "{seen:?}");
    set_range(&node, ann, &id, None, None).await;
    assert_eq!(conversation(&node, ann, &id).await.unwrap().unread, 15, "what it could not see is unread");
}

#[tokio::test]
async fn users_see_what_a_plain_model_says() {
    crate::plain_chat::run(6, 120).await;
}
