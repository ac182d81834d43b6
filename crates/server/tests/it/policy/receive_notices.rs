//! Streams bring the number of notices that their user has not read.

use std::time::{Duration, Instant};

use kith_proto::{
    message::v1::{delivery::What, send_message_request::To, *},
    notice::v1::{DeleteNoticeRequest, MarkReadRequest, Notice},
};

use crate::{
    message_calls::*,
    message_streams::{Stream, after, has, now, open},
    node::TestNode,
    notice_calls::{audience, mark, new_notice, publish, unmark},
    relation_calls::with_users,
};

/// How late totals may be.
const LATE: Duration = Duration::from_secs(2);

/// Also asks for the totals in audience 1.
fn with_totals(request: ReceiveRequest) -> ReceiveRequest {
    ReceiveRequest { notice_audiences: vec![1], ..request }
}

/// Makes the read, unread and unconfirmed totals in an audience.
fn is(audience_id: i32, totals: [i32; 3]) -> What {
    let [read, unread, unconfirmed] = totals;
    What::NoticeTotals(NoticeTotals { audience_id, read, unread, unconfirmed })
}

/// Opens a live stream. Returns it with its first deliveries.
async fn live_with_totals(node: &TestNode, by: i64) -> (Stream, Vec<What>) {
    let mut stream = open(node, by, with_totals(now())).await.unwrap();
    let before = stream.until_live().await;
    (stream, before)
}

/// Makes a notice that was published long ago, so that every user sees it.
fn for_all() -> Notice {
    Notice { for_newcomers: true, ..new_notice(&[1]) }
}

#[tokio::test]
async fn other_devices_mark_changes_totals_within_2_s() {
    let (node, [ann]) = with_users().await;
    audience(&node, 1, true).await;
    let first = publish(&node, for_all()).await.notice_id;
    let second = publish(&node, for_all()).await.notice_id;
    let (mut phone, before) = live_with_totals(&node, ann).await;
    assert_eq!(before, [is(1, [0, 2, 0])]);
    let (mut tablet, _) = live_with_totals(&node, ann).await;
    let begun = Instant::now();
    mark(&node, 1, ann, &[first]).await;
    for stream in [&mut phone, &mut tablet] {
        assert_eq!(stream.next().await, is(1, [1, 1, 0]));
    }
    assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    mark(&node, 1, ann, &[second]).await;
    assert_eq!(phone.next().await, is(1, [2, 0, 0]));
    unmark(&node, 1, ann, &[first]).await;
    assert_eq!(phone.next().await, is(1, [1, 1, 0]));
}

#[tokio::test]
async fn notice_changes_change_the_totals() {
    let (node, [ann]) = with_users().await;
    audience(&node, 1, true).await;
    let (mut stream, before) = live_with_totals(&node, ann).await;
    assert_eq!(before, [is(1, [0, 0, 0])]);
    let begun = Instant::now();
    let notice_id = publish(&node, Notice { must_confirm: true, ..for_all() }).await.notice_id;
    assert_eq!(stream.next().await, is(1, [0, 1, 1]));
    assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    let (notice_ids, confirm) = (vec![notice_id], true);
    let request = MarkReadRequest { audience_id: 1, reader_id: ann, notice_ids, confirm, all: false };
    node.notices().mark_read(request).await.unwrap();
    assert_eq!(stream.next().await, is(1, [1, 0, 0]));
    let request = DeleteNoticeRequest { notice_id, ..Default::default() };
    node.notices().delete_notice(request).await.unwrap();
    assert_eq!(stream.next().await, is(1, [0, 0, 0]));
}

#[tokio::test]
async fn each_audience_has_its_own_totals() {
    let (node, [ann]) = with_users().await;
    for audience_id in [1, 2, 3] {
        audience(&node, audience_id, true).await;
    }
    publish(&node, Notice { audience_ids: vec![2, 3], ..for_all() }).await;
    let request = ReceiveRequest { notice_audiences: vec![2, 1], ..now() };
    let mut stream = open(&node, ann, request).await.unwrap();
    assert_eq!(stream.until_live().await, [is(2, [0, 1, 0]), is(1, [0, 0, 0])]);
    publish(&node, Notice { audience_ids: vec![3], ..for_all() }).await;
    publish(&node, for_all()).await;
    assert_eq!(stream.next().await, is(1, [0, 1, 0]), "audience 3 is not asked for");
}

#[tokio::test]
async fn totals_come_at_every_start_not_in_cursors() {
    let (node, [ann]) = with_users().await;
    audience(&node, 1, true).await;
    let (mut stream, _) = live_with_totals(&node, ann).await;
    publish(&node, for_all()).await;
    let changed = stream.next().await;
    assert_eq!(changed, is(1, [0, 1, 0]));
    let cursor = stream.cursor.clone();
    drop(stream);
    say(&node, ann, To::UserId(ann), "x").await.unwrap();
    let mut resumed = open(&node, ann, with_totals(after(&cursor))).await.unwrap();
    let came = resumed.until_live().await;
    assert_eq!(came[0], changed);
    assert!(matches!(&came[1..], [What::Message(message)] if message.seq == 1), "{came:?}");
    let mut without = open(&node, ann, after(&cursor)).await.unwrap();
    assert!(matches!(&without.until_live().await[..], [What::Message(_)]), "the request alone decides");
    let mut caught_up = open(&node, ann, with_totals(has(&[(&direct(ann, ann), 0)]))).await.unwrap();
    let came = caught_up.until_live().await;
    assert!(matches!(&came[..], [What::NoticeTotals(_), What::Message(_)]), "{came:?}");
}

#[tokio::test]
async fn stream_that_is_reset_brings_no_totals() {
    let (node, [ann]) = with_users().await;
    audience(&node, 1, true).await;
    open(&node, ann, with_totals(ReceiveRequest::default())).await.unwrap().assert_reset().await;
}
