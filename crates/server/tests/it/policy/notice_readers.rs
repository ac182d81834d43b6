//! Notice readers: their read notices, each notice's readers, and no mark is lost.

use std::collections::BTreeSet;

use futures::future::join_all;
use kith_proto::notice::v1::*;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tonic::Code;

use crate::{
    node::{TestNode, all_pages, assert_invalid, mask, until},
    notice_calls::{
        audience, in_seconds, list, mark, new_notice, node_with_audience, publish, totals, unmark,
    },
};

async fn published(node: &TestNode, count: i64) -> Vec<i64> {
    let mut ids = Vec::new();
    for notice_id in 1..=count {
        ids.push(publish(node, Notice { notice_id, ..new_notice(&[1]) }).await.notice_id);
    }
    ids
}

async fn register(node: &TestNode, audience_id: i32, readers: Vec<Reader>) -> i32 {
    let request = RegisterReadersRequest { audience_id, readers };
    node.notices().register_readers(request).await.unwrap().into_inner().registered
}

/// Makes readers whose start is the beginning of time.
fn readers(ids: impl Iterator<Item = i64>) -> Vec<Reader> {
    ids.map(|reader_id| Reader { reader_id, since: Some(prost_types::Timestamp::default()) }).collect()
}

async fn count(node: &TestNode, notice_ids: Vec<i64>) -> CountReadersResponse {
    node.notices()
        .count_readers(CountReadersRequest { audience_id: 1, notice_ids })
        .await
        .unwrap()
        .into_inner()
}

/// Waits until a notice has these counts, which may be 10 s old.
async fn counts_become(node: &TestNode, notice_id: i64, expected: (i64, i64)) {
    until(async || {
        let counted = count(node, vec![notice_id]).await.counts[0];
        (counted.read, counted.confirmed) == expected
    })
    .await;
}

/// Returns all readers in a state, page by page.
async fn who(node: &TestNode, notice_id: i64, state: ReaderState) -> Vec<i64> {
    let all = all_pages(async |page_token| {
        let request =
            ListReadersRequest { audience_id: 1, notice_id, state: state.into(), page_size: 3, page_token };
        let page = node.notices().list_readers(request).await?.into_inner();
        assert!(page.reader_ids.len() <= 3);
        Ok((page.reader_ids, page.next_page_token))
    });
    all.await.unwrap()
}

async fn states(node: &TestNode, reader_id: i64, notice_ids: &[i64]) -> Vec<(i64, bool, bool)> {
    let request =
        GetReadStateRequest { audience_id: 1, reader_id, notice_ids: notice_ids.to_vec(), consistency: None };
    let states = node.notices().get_read_state(request).await.unwrap().into_inner().states;
    states.iter().map(|state| (state.notice_id, state.read, state.confirmed)).collect()
}

#[tokio::test]
async fn marks_and_unmarks_are_seen_at_once() {
    let node = node_with_audience(|_| {}).await;
    let ids = published(&node, 70).await;
    let marked = mark(&node, 1, 7, &[ids[0], ids[69], 999, ids[5], ids[0]]).await;
    assert_eq!(marked.not_found, [999]);
    assert_eq!(marked.totals, Some(Totals { read: 3, unread: 67, unconfirmed: 0 }));
    assert_eq!(totals(&node, 1, 7).await, (3, 67, 0));
    assert_eq!(
        states(&node, 7, &[ids[5], 999, ids[6]]).await,
        [(ids[5], true, false), (ids[6], false, false)]
    );
    let unmarked = unmark(&node, 1, 7, &[ids[69], ids[1]]).await;
    assert_eq!(unmarked.totals, Some(Totals { read: 2, unread: 68, unconfirmed: 0 }));
    let read: BTreeSet<i64> = list(&node, 1, 7)
        .await
        .into_iter()
        .filter(|listed| listed.read)
        .map(|listed| listed.notice.unwrap().notice_id)
        .collect();
    assert_eq!(read, [ids[0], ids[5]].into());
    let all = MarkReadRequest { audience_id: 1, reader_id: 7, all: true, ..Default::default() };
    node.notices().mark_read(all).await.unwrap();
    assert_eq!(totals(&node, 1, 7).await, (70, 0, 0));
    assert_eq!(totals(&node, 1, 8).await, (0, 70, 0), "another reader");
}

#[tokio::test]
async fn late_reader_sees_later_notices_only() {
    let node = node_with_audience(|_| {}).await;
    let publish_time = Some(in_seconds(-100));
    let old = publish(&node, Notice { publish_time, ..new_notice(&[1]) }).await.notice_id;
    let welcome =
        publish(&node, Notice { publish_time, for_newcomers: true, ..new_notice(&[1]) }).await.notice_id;
    assert_eq!(register(&node, 1, vec![Reader { reader_id: 7, since: Some(in_seconds(-50)) }]).await, 1);
    assert_eq!(register(&node, 1, vec![Reader { reader_id: 7, since: None }]).await, 0);
    let new = publish(&node, new_notice(&[1])).await.notice_id;
    assert_eq!(totals(&node, 1, 7).await, (0, 2, 0));
    assert_eq!(mark(&node, 1, 7, &[old, welcome, new]).await.not_found, [old]);
    assert_eq!(totals(&node, 1, 8).await, (0, 3, 0), "one that is not registered has always been there");
    mark(&node, 1, 8, &[welcome]).await;
    assert_eq!(who(&node, old, ReaderState::Unread).await, [8], "it is not visible to the other one");
    assert_eq!(who(&node, welcome, ReaderState::Read).await, [7, 8]);
}

#[tokio::test]
async fn edit_makes_unread_only_if_requested() {
    let node = node_with_audience(|_| {}).await;
    let notice_id = publish(&node, new_notice(&[1])).await.notice_id;
    mark(&node, 1, 7, &[notice_id]).await;
    for (make_unread, expected) in [(false, (1, 0, 0)), (true, (0, 1, 0))] {
        let update = UpdateNoticeRequest {
            notice: Some(Notice { notice_id, title: "Changed".into(), ..Default::default() }),
            update_mask: mask(&["title"]),
            make_unread,
            ..Default::default()
        };
        node.notices().update_notice(update).await.unwrap();
        assert_eq!(totals(&node, 1, 7).await, expected, "{make_unread}");
    }
    mark(&node, 1, 7, &[notice_id]).await;
    assert_eq!(totals(&node, 1, 7).await, (1, 0, 0));
}

#[tokio::test]
async fn confirmation_is_counted_and_is_not_undone() {
    let node = node_with_audience(|_| {}).await;
    let must_confirm = true;
    let notice_id = publish(&node, Notice { must_confirm, ..new_notice(&[1]) }).await.notice_id;
    let plain = publish(&node, new_notice(&[1])).await.notice_id;
    assert_eq!(totals(&node, 1, 7).await, (0, 2, 1));
    mark(&node, 1, 7, &[notice_id]).await;
    assert_eq!(totals(&node, 1, 7).await, (1, 1, 1), "reading is not confirming");
    let confirm = |notice_ids| MarkReadRequest {
        audience_id: 1,
        reader_id: 8,
        notice_ids,
        confirm: true,
        ..Default::default()
    };
    assert_invalid(node.notices().mark_read(confirm(vec![plain])).await, "confirm");
    node.notices().mark_read(confirm(vec![notice_id])).await.unwrap();
    assert_eq!(totals(&node, 1, 8).await, (1, 1, 0), "what is confirmed is read");
    unmark(&node, 1, 8, &[notice_id]).await;
    assert_eq!(totals(&node, 1, 8).await, (0, 2, 0));
    assert_eq!(states(&node, 8, &[notice_id]).await, [(notice_id, false, true)]);
    counts_become(&node, notice_id, (1, 1)).await;
    assert_eq!(who(&node, notice_id, ReaderState::Confirmed).await, [8]);
    assert_eq!(who(&node, notice_id, ReaderState::Unconfirmed).await, [7]);
    let request = ListReadersRequest {
        audience_id: 1,
        notice_id: plain,
        state: ReaderState::Confirmed.into(),
        ..Default::default()
    };
    assert_invalid(node.notices().list_readers(request).await, "state");
}

#[tokio::test]
async fn mark_of_a_deleted_notice_changes_nothing() {
    let node = node_with_audience(|_| {}).await;
    let ids = published(&node, 2).await;
    let delete = DeleteNoticeRequest { notice_id: ids[0], ..Default::default() };
    node.notices().delete_notice(delete).await.unwrap();
    let marked = mark(&node, 1, 7, &[ids[0]]).await;
    assert_eq!((marked.not_found, marked.totals.unwrap().read), (vec![ids[0]], 0));
    publish(&node, new_notice(&[1])).await;
    assert_eq!(totals(&node, 1, 7).await, (0, 2, 0), "a later notice does not take over its bit");
    let request = CountReadersRequest { audience_id: 1, notice_ids: vec![ids[0]] };
    let refused = node.notices().count_readers(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn readers_are_listed_by_registration() {
    let node = node_with_audience(|_| {}).await;
    let ids = published(&node, 1).await;
    for reader in [50, 10, 40, 20, 30, 60, 70] {
        register(&node, 1, readers([reader].into_iter())).await;
    }
    for reader in [40, 10, 60, 70] {
        mark(&node, 1, reader, &ids).await;
    }
    assert_eq!(who(&node, ids[0], ReaderState::Read).await, [10, 40, 60, 70]);
    assert_eq!(who(&node, ids[0], ReaderState::Unread).await, [50, 20, 30]);
    unmark(&node, 1, 60, &ids).await;
    assert_eq!(who(&node, ids[0], ReaderState::Unread).await, [50, 20, 30, 60]);
}

#[tokio::test]
async fn user_sees_notices_since_its_creation() {
    let node = TestNode::start().await;
    audience(&node, 1, true).await;
    let publish_time = Some(in_seconds(-100));
    publish(&node, Notice { publish_time, ..new_notice(&[1]) }).await;
    let ann = node.user("ann").await.user_id;
    let publish_time = Some(in_seconds(1));
    let later = publish(&node, Notice { publish_time, ..new_notice(&[1]) }).await.notice_id;
    until(async || totals(&node, 1, ann).await == (0, 1, 0)).await;
    mark(&node, 1, ann, &[later]).await;
    assert_eq!(totals(&node, 1, ann).await, (1, 0, 0));
    let missing = CountNoticesRequest { audience_id: 1, reader_id: 4711, consistency: None };
    assert_eq!(node.notices().count_notices(missing).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn marks_of_a_deleted_user_are_cleared() {
    let node = TestNode::start().await;
    audience(&node, 1, true).await;
    audience(&node, 2, false).await;
    let ann = node.user("ann").await.user_id;
    register(&node, 1, readers([ann].into_iter())).await;
    let notice_id = publish(&node, new_notice(&[1, 2])).await.notice_id;
    for audience_id in [1, 2] {
        mark(&node, audience_id, ann, &[notice_id]).await;
    }
    node.delete_user(ann).await;
    until(async || who(&node, notice_id, ReaderState::Read).await.is_empty()).await;
    assert_eq!(totals(&node, 2, ann).await, (1, 0, 0), "a reader id of the caller is no user");
    let later = publish(&node, Notice { for_newcomers: true, ..new_notice(&[1]) }).await.notice_id;
    assert_eq!(who(&node, later, ReaderState::Unread).await, [0_i64; 0], "no user has the id");
    let request = RegisterReadersRequest { audience_id: 1, readers: readers([ann].into_iter()) };
    assert_eq!(node.notices().register_readers(request).await.unwrap_err().code(), Code::NotFound);
}

/// Random concurrent marks and unmarks equal a plain model: totals, states, lists, counts.
#[tokio::test]
async fn random_marks_and_unmarks_equal_a_plain_model() {
    const READERS: i64 = 60;
    const NOTICES: i64 = 70;
    let node = node_with_audience(|_| {}).await;
    let notices = published(&node, NOTICES).await;
    register(&node, 1, readers(1..=READERS)).await;
    // Each reader's calls follow each other; the readers run at the same time.
    let run = |reader: i64| {
        let (node, notices) = (&node, &notices);
        async move {
            let mut rng = StdRng::seed_from_u64(reader.unsigned_abs());
            let mut read = BTreeSet::new();
            for _ in 0..12 {
                let some: Vec<i64> = notices.iter().copied().filter(|_| rng.random_bool(0.1)).collect();
                if rng.random_bool(0.6) {
                    mark(node, 1, reader, &some).await;
                    read.extend(some);
                } else {
                    let left = unmark(node, 1, reader, &some).await.totals.unwrap();
                    read.retain(|notice| !some.contains(notice));
                    assert_eq!(usize::try_from(left.read).unwrap(), read.len());
                }
            }
            read
        }
    };
    let model: Vec<BTreeSet<i64>> = join_all((1..=READERS).map(run)).await;
    for (reader, read) in (1..).zip(&model) {
        let all = i32::try_from(NOTICES).unwrap();
        let count = i32::try_from(read.len()).unwrap();
        assert_eq!(totals(&node, 1, reader).await, (count, all - count, 0));
        let listed: BTreeSet<i64> = list(&node, 1, reader)
            .await
            .into_iter()
            .filter(|listed| listed.read)
            .map(|listed| listed.notice.unwrap().notice_id)
            .collect();
        assert_eq!(&listed, read);
    }
    let counted = count(&node, notices.clone()).await;
    assert_eq!((counted.registered, counted.incomplete), (READERS, false));
    for (notice, counted) in notices.iter().zip(&counted.counts) {
        let expected = model.iter().filter(|read| read.contains(notice)).count();
        assert_eq!((counted.notice_id, usize::try_from(counted.read).unwrap()), (*notice, expected));
    }
    let readers_of: BTreeSet<i64> = who(&node, notices[3], ReaderState::Read).await.into_iter().collect();
    let expected = (1..).zip(&model).filter(|(_, read)| read.contains(&notices[3])).map(|(reader, _)| reader);
    assert_eq!(readers_of, expected.collect());
}
