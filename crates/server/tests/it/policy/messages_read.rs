//! Message pages, and the part of a conversation that each reader may read.

use crate::group_calls::{add, group_with_history, leave, remove};
use crate::message_calls::*;
use crate::node::TestNode;
use crate::relation_calls::with_users;
use kith_proto::message::v1::{send_message_request::To, *};
use prost_types::Timestamp;

const FAR: Timestamp = Timestamp { seconds: 4_000_000_000, nanos: 0 };

#[tokio::test]
async fn pull_returns_the_range_that_was_asked() {
    let (node, [ann, _], _, conversation) = filled(120).await;
    let page = async |from, to, limit| {
        let page = pull(&node, ann, to_pull(&conversation, from, to, limit)).await.unwrap();
        let written = seqs(&page.messages).into_iter().filter(|seq| *seq > 1);
        assert_eq!(texts(&page.messages), written.map(|seq| seq.to_string()).collect::<Vec<_>>());
        (seqs(&page.messages), page.more)
    };
    assert_eq!(page(95, 105, 0).await, ((95..=105).collect(), false));
    assert_eq!(page(95, 105, 10).await, ((95..=104).collect(), true));
    assert_eq!(page(0, 3, 0).await, (vec![1, 2, 3], false));
    assert_eq!(page(118, 0, 0).await, (vec![118, 119, 120], false));
    assert_eq!(page(118, 9_999, 0).await, (vec![118, 119, 120], false));
    assert_eq!(page(121, 0, 0).await, (vec![], false), "beyond the end");
    assert_eq!(page(i64::MAX, i64::MAX, 0).await, (vec![], false));
    assert_eq!(page(0, 0, 0).await, ((1..=50).collect(), true), "the default");
    assert_eq!(page(0, 0, i32::MAX).await, ((1..=120).collect(), false), "counts as 1000");
}

#[tokio::test]
async fn page_has_1000_messages_at_most() {
    let (node, [ann, _], _, conversation) = filled(1_001).await;
    let page = pull(&node, ann, to_pull(&conversation, 0, 0, 5_000)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.more), ((1..=1_000).collect(), true));
    let page = history(&node, ann, &conversation, 0, 5_000).await.unwrap();
    assert_eq!((seqs(&page.messages), page.more), ((2..=1_001).rev().collect(), true));
    let page = history(&node, ann, &conversation, 2, 5_000).await.unwrap();
    assert_eq!((seqs(&page.messages), page.more), (vec![1], false));
}

#[tokio::test]
async fn page_has_1_mib_at_most() {
    let (node, [ann, _], group, conversation) = filled(1).await;
    let large = SendMessageRequest { body: vec![7; 65_536].into(), ..text(To::GroupId(group), "") };
    for some in vec![large; 40].chunks(10) {
        assert!(send_batch(&node, some.to_vec()).await.iter().all(Result::is_ok));
    }
    let page = pull(&node, ann, to_pull(&conversation, 0, 0, 0)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.more), ((1..=16).collect(), true));
    let page = pull(&node, ann, to_pull(&conversation, 32, 0, 0)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.more), ((32..=41).collect(), false));
    let page = history(&node, ann, &conversation, 0, 0).await.unwrap();
    assert_eq!((seqs(&page.messages), page.more), ((27..=41).rev().collect(), true));
    let found = by_seqs(&node, ann, &conversation, &(12..=41).collect::<Vec<_>>()).await.unwrap();
    assert_eq!((seqs(&found.messages), found.more), ((12..=26).collect(), true));
    let found = by_seqs(&node, ann, &conversation, &(27..=41).collect::<Vec<_>>()).await.unwrap();
    assert_eq!((seqs(&found.messages), found.more), ((27..=41).collect(), false));
}

#[tokio::test]
async fn history_falls_to_the_first_message() {
    let (node, [ann, _], _, conversation) = filled(205).await;
    let (mut found, mut before) = (Vec::new(), 0);
    loop {
        let page = history(&node, ann, &conversation, before, 40).await.unwrap();
        found.extend(seqs(&page.messages));
        assert_eq!((page.min_seq, page.max_seq), (1, 205));
        if !page.more {
            break;
        }
        before = *found.last().unwrap();
    }
    assert_eq!(found, (1..=205).rev().collect::<Vec<_>>());
    let page = async |before, limit| {
        let page = history(&node, ann, &conversation, before, limit).await.unwrap();
        (seqs(&page.messages), page.more)
    };
    assert_eq!(page(102, 3).await, (vec![101, 100, 99], true), "the number itself is excluded");
    assert_eq!(page(4, 3).await, (vec![3, 2, 1], false));
    assert_eq!(page(1, 3).await, (vec![], false));
    assert_eq!(page(i64::MAX, 2).await, (vec![205, 204], true));
}

#[tokio::test]
async fn messages_are_found_by_their_numbers() {
    let (node, [ann, _], _, conversation) = filled(205).await;
    let asked = [205, 3, 100, 101, 3, 206, 9_999, i64::MAX];
    let found = by_seqs(&node, ann, &conversation, &asked).await.unwrap();
    assert_eq!((seqs(&found.messages), found.more), (vec![3, 100, 101, 205], false));
    assert_eq!(texts(&found.messages), ["3", "100", "101", "205"]);
    assert_eq!(by_seqs(&node, ann, &conversation, &[]).await.unwrap(), PullBySeqsResponse::default());
}

#[tokio::test]
async fn highest_numbers_are_in_the_order_asked() {
    let (node, [ann, bea], _, conversation) = filled(3).await;
    say(&node, ann, To::UserId(bea), "hi").await.unwrap();
    let (of_both, notes) = (direct(ann, bea), direct(bea, bea));
    let asked = [&of_both, "g987654321", &conversation, &notes, &direct(ann, ann), &conversation];
    let missing = || Err("NOT_FOUND".to_owned());
    assert_eq!(max_seqs(&node, bea, &asked).await, [Ok(1), missing(), Ok(3), Ok(0), missing(), Ok(3)]);
}

#[tokio::test]
async fn reads_do_not_wait_for_a_required_number() {
    let (node, [ann, _], _, conversation) = filled(3).await;
    let request = PullMessagesRequest { at_least_seq: 9, ..to_pull(&conversation, 0, 0, 0) };
    assert_eq!(pull(&node, ann, request).await.unwrap().max_seq, 3);
    let request = HistoryRequest { conversation_id: conversation, at_least_seq: 9, ..Default::default() };
    assert_eq!(node.messages().history(request).await.unwrap().into_inner().max_seq, 3);
}

/// Checks that every call shows a user a conversation's numbers from `min` to `max` and no others.
async fn assert_reads(node: &TestNode, user: i64, conversation: &str, min: i64, max: i64) {
    let readable: Vec<i64> = (min..=max).collect();
    let page = pull(node, user, to_pull(conversation, 0, 0, 1_000)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.min_seq, page.max_seq), (readable.clone(), min, max));
    assert!(!page.more);
    let wider = pull(node, user, to_pull(conversation, 1, 9_999, 1_000)).await.unwrap();
    assert_eq!(seqs(&wider.messages), readable);
    let page = history(node, user, conversation, 0, 1_000).await.unwrap();
    assert_eq!(seqs(&page.messages), readable.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!((page.min_seq, page.max_seq, page.more), (min, max, false));
    let all: Vec<i64> = (1..=100).collect();
    assert_eq!(seqs(&by_seqs(node, user, conversation, &all).await.unwrap().messages), readable);
    assert_eq!(seq_by_time(node, user, conversation, Timestamp::default()).await.unwrap(), min);
    assert_eq!(seq_by_time(node, user, conversation, FAR).await.unwrap(), max + 1);
    let highest = if max < min { 0 } else { max };
    assert_eq!(max_seqs(node, user, &[conversation]).await, [Ok(highest)]);
}

#[tokio::test]
async fn new_member_reads_shown_history() {
    let (node, [ann, bea]) = with_users().await;
    let group = group_with_history(&node, ann).await;
    let conversation = format!("g{group}");
    fill(&node, &conversation, 20).await;
    add(&node, group, &[bea]).await;
    assert_reads(&node, bea, &conversation, 1, 21).await;
}

#[tokio::test]
async fn members_read_the_messages_of_their_last_stay() {
    let (node, [ann, bea], group, conversation) = filled(20).await;
    let cid = node.user("cid").await.user_id;
    add(&node, group, &[cid]).await;
    assert_reads(&node, cid, &conversation, 21, 21).await;
    fill(&node, &conversation, 5).await;
    assert_reads(&node, cid, &conversation, 21, 26).await;
    leave(&node, group, bea).await;
    remove(&node, group, cid).await;
    fill(&node, &conversation, 5).await;
    // Neither user reads the event for its own leave or removal: 27 and 28.
    assert_reads(&node, bea, &conversation, 1, 26).await;
    assert_reads(&node, cid, &conversation, 21, 27).await;
    assert_reads(&node, ann, &conversation, 1, 33).await;
    // Bea reads from its second join event on.
    add(&node, group, &[bea]).await;
    assert_reads(&node, bea, &conversation, 34, 34).await;
    fill(&node, &conversation, 5).await;
    leave(&node, group, bea).await;
    fill(&node, &conversation, 5).await;
    assert_reads(&node, bea, &conversation, 34, 39).await;
}
