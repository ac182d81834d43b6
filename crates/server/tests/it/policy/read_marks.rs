//! Read marks and unread counts.

use crate::dialog_calls::*;
use crate::group_calls::{add, chat, leave};
use crate::message_calls::*;
use crate::node::{
    SERVICE, assert_denied, assert_error, assert_exhausted, assert_invalid, assert_not_found, principal,
};
use crate::relation_calls::{block, unblock};
use futures::future::join_all;
use kith_proto::message::v1::{send_message_request::To, *};
use tonic::Code;

#[tokio::test]
async fn mark_clears_unread_up_to_its_number() {
    let (node, [ann, bea], _, id) = filled(10).await;
    assert_eq!(
        (conversation(&node, ann, &id).await.unwrap().unread, read(&node, ann, &id).await.read_seq),
        (9, 0)
    );
    assert_eq!(mark_up_to(&node, ann, &id, 4).await, (4, 6));
    assert_eq!(mark_up_to(&node, ann, &id, 10).await, (10, 0));
    let shown = conversation(&node, ann, &id).await.unwrap();
    assert_eq!((shown.read_seq, shown.unread, shown.max_seq), (10, 0, 10));
    assert_eq!(conversation(&node, bea, &id).await.unwrap().unread, 9, "marks are of one user");
}

#[tokio::test]
async fn mark_never_falls() {
    let (node, [ann, _], _, id) = filled(10).await;
    mark_up_to(&node, ann, &id, 8).await;
    let before = conversation(&node, ann, &id).await.unwrap().version;
    assert_eq!(mark_up_to(&node, ann, &id, 3).await, (8, 2));
    assert_eq!(mark_up_to(&node, ann, &id, 8).await, (8, 2));
    assert_eq!(conversation(&node, ann, &id).await.unwrap().version, before, "nothing was written");
}

#[tokio::test]
async fn mark_above_the_end_is_out_of_range() {
    let (node, [ann, _], _, id) = filled(5).await;
    let requests =
        [to_mark(&id, 6), to_hide(&id, 6), to_mark_ranges(&id, &[(1, 2), (5, 6)]), to_mark(&id, i64::MAX)];
    for request in requests {
        assert_error(mark(&node, ann, request).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
    }
    assert_eq!(read(&node, ann, &id).await.read_seq, 0);
    fill(&node, &id, 1).await;
    assert_eq!(mark_up_to(&node, ann, &id, 6).await, (6, 0));
}

#[tokio::test]
async fn ranges_leave_what_they_skip_unread() {
    let (node, [ann, _], _, id) = filled(20).await;
    let marked = mark(&node, ann, to_mark_ranges(&id, &[(12, 14), (3, 4)])).await.unwrap();
    assert_eq!(marked.read_seq, 14);
    assert_eq!(skipped(&node, ann, &id).await, [(1, 2), (5, 11)]);
    mark(&node, ann, to_mark_ranges(&id, &[(5, 11)])).await.unwrap();
    assert_eq!(skipped(&node, ann, &id).await, [(1, 2)]);
    mark_up_to(&node, ann, &id, 14).await;
    assert_eq!(skipped(&node, ann, &id).await, []);
}

#[tokio::test]
async fn too_many_unread_ranges_are_refused() {
    let (node, [ann, _], _, id) = filled(700).await;
    let every_second =
        |first: i64| -> Vec<(i64, i64)> { (0..100).map(|at| (first + 2 * at, first + 2 * at)).collect() };
    for first in [2, 202] {
        mark(&node, ann, to_mark_ranges(&id, &every_second(first))).await.unwrap();
    }
    assert_exhausted(mark(&node, ann, to_mark_ranges(&id, &every_second(402))).await, "TOO_MANY_RANGES");
    assert_eq!(skipped(&node, ann, &id).await.len(), 200, "nothing was marked");
    assert_eq!(mark_up_to(&node, ann, &id, 700).await, (700, 0), "a plain mark is never refused");
    assert_eq!(skipped(&node, ann, &id).await, []);
}

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
async fn own_message_is_read_by_its_sender() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "1").await.unwrap();
    say(&node, bea, To::UserId(ann), "2").await.unwrap();
    until_read(&node, bea, &id, 2).await;
    until_read(&node, ann, &id, 1).await;
    assert_eq!(counts(&node, ann, &[&id]).await, [(id.clone(), 1)]);
    assert_eq!(counts(&node, bea, &[&id]).await, []);
}

#[tokio::test]
async fn keep_unread_leaves_the_badge() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "are you there?").await.unwrap();
    let reply = SendMessageRequest { keep_unread: true, ..text(To::UserId(ann), "on holiday") };
    assert_eq!(send(&node, bea, reply.clone()).await.unwrap().seq, 2);
    let reply = SendMessageRequest { sender_id: bea, ..reply };
    assert_eq!(send(&node, SERVICE, reply).await.unwrap().seq, 3);
    // A later message's mark comes after the reply's mark would have come.
    say(&node, ann, To::UserId(bea), "no hurry").await.unwrap();
    until_read(&node, ann, &id, 4).await;
    assert_eq!(counts(&node, bea, &[&id]).await, [(id.clone(), 2)]);
    assert_eq!(conversation(&node, bea, &id).await.unwrap().version, 1, "its dialog was made");
}

#[tokio::test]
async fn silent_messages_and_own_ones_are_not_unread() {
    let (node, [ann, bea], group, id) = filled(1).await;
    let silent = SendMessageRequest { silent: true, ..text(To::GroupId(group), "psst") };
    send(&node, bea, silent).await.unwrap();
    say(&node, bea, To::GroupId(group), "hi").await.unwrap();
    say(&node, bea, To::GroupId(group), "hi again").await.unwrap();
    assert_eq!(counts(&node, ann, &[]).await, [(id.clone(), 2)]);
    assert_eq!(counts(&node, bea, &[]).await, []);
}

#[tokio::test]
async fn first_mention_is_the_lowest_unread_one() {
    let (node, [ann, bea], group, id) = filled(3).await;
    let mention = |user| SendMessageRequest { mention_ids: vec![user], ..text(To::GroupId(group), "you") };
    send(&node, bea, mention(bea)).await.unwrap();
    assert_eq!(conversation(&node, ann, &id).await.unwrap().first_mention_seq, 0);
    send(&node, bea, mention(ann)).await.unwrap();
    let all = SendMessageRequest { mention_all: true, ..text(To::GroupId(group), "all") };
    send(&node, bea, all).await.unwrap();
    assert_eq!(conversation(&node, ann, &id).await.unwrap().first_mention_seq, 5);
    mark_up_to(&node, ann, &id, 5).await;
    assert_eq!(conversation(&node, ann, &id).await.unwrap().first_mention_seq, 6);
    mark_up_to(&node, ann, &id, 6).await;
    assert_eq!(conversation(&node, ann, &id).await.unwrap().first_mention_seq, 0);
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
async fn users_mark_for_themselves_services_for_all() {
    let (node, [ann, bea], _, id) = filled(3).await;
    let of_ann = MarkReadRequest { user_id: ann, ..to_mark(&id, 2) };
    assert_denied(node.messages().mark_read(principal(bea, of_ann.clone())).await);
    let marked = node.messages().mark_read(of_ann).await.unwrap().into_inner();
    assert_eq!((marked.read_seq, marked.unread), (2, 1));
    assert_invalid(node.messages().mark_read(to_mark(&id, 2)).await, "user_id");
}

#[tokio::test]
async fn new_member_marks_from_its_join_on() {
    let (node, [_, bea], group, id) = filled(5).await;
    let cid = node.user("cid").await.user_id;
    add(&node, group, &[cid]).await;
    fill(&node, &id, 5).await;
    assert_eq!(conversation(&node, cid, &id).await.unwrap().unread, 5);
    assert_eq!(mark_up_to(&node, cid, &id, 8).await, (8, 3));
    assert_eq!(skipped(&node, cid, &id).await, [], "it was no member before");
    assert_eq!(mark(&node, cid, to_mark_ranges(&id, &[(1, 3)])).await.unwrap().read_seq, 8);
    assert_eq!(conversation(&node, bea, &id).await.unwrap().unread, 9);
}

#[tokio::test]
async fn rejoin_leaves_what_was_skipped_before_unread() {
    let (node, [_, bea], group, id) = filled(5).await;
    mark_up_to(&node, bea, &id, 2).await;
    leave(&node, group, bea).await;
    fill(&node, &id, 3).await;
    add(&node, group, &[bea]).await;
    fill(&node, &id, 2).await;
    assert_eq!(mark_up_to(&node, bea, &id, 12).await, (12, 0));
    assert_eq!(skipped(&node, bea, &id).await, [(3, 5)], "of the first stay; the absence is none");
    mark(&node, bea, to_mark_ranges(&id, &[(3, 5)])).await.unwrap();
    assert_eq!(skipped(&node, bea, &id).await, [(3, 5)], "an earlier stay is not marked any more");
}

#[tokio::test]
async fn former_member_marks_up_to_its_leave() {
    let (node, [_, bea], group, id) = filled(5).await;
    leave(&node, group, bea).await;
    fill(&node, &id, 5).await;
    assert_eq!(conversation(&node, bea, &id).await.unwrap().unread, 4);
    assert_eq!(mark_up_to(&node, bea, &id, 9).await, (5, 0));
    assert_eq!(skipped(&node, bea, &id).await, []);
    add(&node, group, &[bea]).await;
    fill(&node, &id, 2).await;
    assert_eq!(conversation(&node, bea, &id).await.unwrap().unread, 2);
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
async fn marks_that_cross_lose_none() {
    let (node, [ann, bea], _, id) = filled(100).await;
    let marks = (1..=100).flat_map(|seq| [(ann, seq), (bea, 101 - seq)]);
    let made = join_all(marks.map(async |(user, seq)| mark(&node, user, to_mark(&id, seq)).await)).await;
    assert!(made.iter().all(Result::is_ok));
    for user in [ann, bea] {
        let read = read(&node, user, &id).await;
        assert_eq!((read.read_seq, read.unread_ranges), (100, vec![]));
    }
}

#[tokio::test]
async fn ranges_that_cross_lose_none() {
    let (node, [ann, _], _, id) = filled(100).await;
    let marks = (1..=100).map(|seq| to_mark_ranges(&id, &[(seq, seq)]));
    let made = join_all(marks.map(async |request| mark(&node, ann, request).await)).await;
    assert!(made.iter().all(Result::is_ok));
    let read = read(&node, ann, &id).await;
    assert_eq!((read.read_seq, read.unread_ranges), (100, vec![]));
}

#[tokio::test]
async fn users_see_what_a_plain_model_says() {
    crate::plain_chat::run(6, 120).await;
}
