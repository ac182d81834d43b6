//! Notices are published to all audiences or none, scheduled, changed and removed.

use kith_proto::notice::v1::*;
use tonic::Code;

use crate::{
    node::{
        TestNode, all_pages, assert_denied, assert_error, assert_exhausted, assert_forbidden, assert_invalid,
        mask, params, principal,
    },
    notice_calls::{audience, ids, in_seconds, list, new_notice, node_with_audience, notice, publish},
};

/// Returns the ids that a service sees in an audience.
async fn all(node: &TestNode, audience_id: i32) -> Vec<i64> {
    ids(&list(node, audience_id, 0).await)
}

async fn update(node: &TestNode, notice: Notice, paths: &[&str]) -> Result<Notice, tonic::Status> {
    let request =
        UpdateNoticeRequest { notice: Some(notice), update_mask: mask(paths), ..Default::default() };
    node.notices().update_notice(request).await.map(|answer| answer.into_inner().notice.unwrap())
}

#[tokio::test]
async fn audience_is_registered_and_renamed() {
    let node = TestNode::start().await;
    let first = audience(&node, 7, true).await;
    assert_eq!((first.audience_id, first.of_users, first.version, first.notices), (7, true, 1, 0));
    let renamed = Audience { name: "Staff".into(), ..first.clone() };
    let request = RegisterAudienceRequest { audience: Some(renamed), ..Default::default() };
    let renamed = node.notices().register_audience(request).await.unwrap().into_inner().audience.unwrap();
    assert_eq!((renamed.name.as_str(), renamed.version), ("Staff", 2));
    let other = Audience { of_users: false, ..first };
    let request = RegisterAudienceRequest { audience: Some(other), ..Default::default() };
    assert_invalid(node.notices().register_audience(request).await, "of_users");
}

#[tokio::test]
async fn audience_takes_as_many_notices_as_configured() {
    let node = node_with_audience(|config| config.notices.live_max = 1).await;
    audience(&node, 2, false).await;
    let published = publish(&node, new_notice(&[1])).await;
    assert!(published.notice_id >= 10_000_000_000, "allocated: {}", published.notice_id);
    let request = PublishNoticeRequest { notice: Some(new_notice(&[2, 1])), ..Default::default() };
    assert_exhausted(node.notices().publish_notice(request).await, "TOO_MANY_NOTICES");
    assert_eq!(all(&node, 2).await, [0_i64; 0], "all audiences or none");
}

#[tokio::test]
async fn notice_comes_back_as_it_was_published() {
    let node = node_with_audience(|_| {}).await;
    let new = Notice {
        notice_id: 5,
        title: "Wartung".into(),
        body: "Zeile 1\nZeile 2 \u{1F600}".into(),
        params: params([("link", "/a?b=c")]),
        audience_ids: vec![1],
        publish_time: Some(in_seconds(-10)),
        expire_time: Some(in_seconds(100)),
        pinned: true,
        must_confirm: true,
        for_newcomers: true,
        ..Default::default()
    };
    let published = publish(&node, new.clone()).await;
    assert_eq!((published.revision, published.version), (1, 1));
    let (create_time, update_time) = (published.create_time, published.update_time);
    assert_eq!(published, Notice { revision: 1, version: 1, create_time, update_time, ..new });
    assert_eq!(notice(&node, 5).await.unwrap(), published);
    let again = PublishNoticeRequest { notice: Some(published), ..Default::default() };
    assert_error(node.notices().publish_notice(again).await, Code::AlreadyExists, "ID_TAKEN");
}

#[tokio::test]
async fn scheduled_notice_is_for_services_until_due() {
    let node = node_with_audience(|_| {}).await;
    let scheduled = Notice { publish_time: Some(in_seconds(1000)), ..new_notice(&[1]) };
    let published = publish(&node, scheduled).await;
    assert_eq!(all(&node, 1).await, [published.notice_id]);
    assert_eq!(list(&node, 1, 7).await, []);
    let earlier = Notice { publish_time: Some(in_seconds(-1)), ..published.clone() };
    update(&node, earlier.clone(), &["publish_time"]).await.unwrap();
    assert_eq!(ids(&list(&node, 1, 7).await), [published.notice_id]);
    let later = Notice { publish_time: Some(in_seconds(5)), ..earlier };
    assert_forbidden(update(&node, later, &["publish_time"]).await);
}

#[tokio::test]
async fn expired_notice_is_neither_listed_nor_counted() {
    let node = node_with_audience(|_| {}).await;
    let (publish_time, expire_time) = (Some(in_seconds(-100)), Some(in_seconds(-1)));
    publish(&node, Notice { publish_time, expire_time, ..new_notice(&[1]) }).await;
    assert_eq!(list(&node, 1, 7).await, []);
    assert_eq!(all(&node, 1).await, [0_i64; 0]);
    let request = CountNoticesRequest { audience_id: 1, reader_id: 7, consistency: None };
    let totals = node.notices().count_notices(request).await.unwrap().into_inner().totals;
    assert_eq!(totals, Some(Totals::default()));
}

#[tokio::test]
async fn pinned_notices_come_first_over_all_pages() {
    let node = node_with_audience(|_| {}).await;
    for (notice_id, seconds, pinned) in
        [(1, -50, false), (2, -40, true), (3, -30, false), (4, -60, true), (5, -30, false)]
    {
        let publish_time = Some(in_seconds(seconds));
        publish(&node, Notice { notice_id, publish_time, pinned, ..new_notice(&[1]) }).await;
    }
    assert_eq!(all(&node, 1).await, [2, 4, 5, 3, 1]);
    let of_reader = ListNoticesRequest { audience_id: 1, reader_id: 7, page_size: 2, ..Default::default() };
    let paged = all_pages(async |page_token| {
        let request = ListNoticesRequest { page_token, ..of_reader.clone() };
        let page = node.notices().list_notices(request).await?.into_inner();
        assert!(page.notices.len() <= 2);
        Ok((page.notices, page.next_page_token))
    });
    assert_eq!(ids(&paged.await.unwrap()), [2, 4, 5, 3, 1]);
}

#[tokio::test]
async fn large_notices_make_short_pages() {
    let node = node_with_audience(|_| {}).await;
    for notice_id in 1..=20 {
        publish(&node, Notice { notice_id, body: "x".repeat(64 << 10), ..new_notice(&[1]) }).await;
    }
    let request = ListNoticesRequest { audience_id: 1, ..Default::default() };
    let page = node.notices().list_notices(request).await.unwrap().into_inner();
    assert_eq!(page.notices.len(), 15, "1 MiB");
    let request =
        ListNoticesRequest { audience_id: 1, page_token: page.next_page_token, ..Default::default() };
    let rest = node.notices().list_notices(request).await.unwrap().into_inner();
    assert_eq!((ids(&rest.notices), rest.next_page_token.as_str()), (vec![5, 4, 3, 2, 1], ""));
}

#[tokio::test]
async fn update_changes_what_the_mask_names() {
    let node = node_with_audience(|_| {}).await;
    audience(&node, 2, false).await;
    let before =
        publish(&node, Notice { params: params([("a", "1"), ("b", "2")]), ..new_notice(&[1]) }).await;
    let new = Notice {
        title: "Moved".into(),
        audience_ids: vec![2],
        params: params([("a", "3")]),
        ..before.clone()
    };
    let after = update(&node, new.clone(), &["title", "audienceIds", "params.a"]).await.unwrap();
    assert_eq!((after.title.as_str(), &after.body, after.revision), ("Moved", &before.body, 2));
    assert_eq!((after.audience_ids.as_slice(), &after.params), (&[2][..], &params([("a", "3"), ("b", "2")])));
    assert_eq!((all(&node, 1).await, all(&node, 2).await), (vec![], vec![before.notice_id]));
    assert_eq!(notice(&node, before.notice_id).await.unwrap(), after);
    for path in ["must_confirm", "version", "nothing", "params.", ""] {
        assert_invalid(update(&node, new.clone(), &[path]).await, "update_mask");
    }
    let early = Notice { expire_time: before.publish_time, ..new };
    assert_invalid(update(&node, early, &["expire_time"]).await, "expire_time");
}

#[tokio::test]
async fn notice_is_deleted_by_audience_then_wholly() {
    let node = node_with_audience(|_| {}).await;
    audience(&node, 2, false).await;
    let notice_id = publish(&node, new_notice(&[1, 2])).await.notice_id;
    let delete = async |audience_ids: Vec<i32>| {
        let request = DeleteNoticeRequest { notice_id, audience_ids, ..Default::default() };
        node.notices().delete_notice(request).await.map(|answer| answer.into_inner())
    };
    let stale = DeleteNoticeRequest { notice_id, expected_version: 7, ..Default::default() };
    assert_error(node.notices().delete_notice(stale).await, Code::Aborted, "VERSION_CONFLICT");
    let some = delete(vec![1]).await.unwrap();
    assert_eq!((some.version, some.deleted), (2, false));
    assert_eq!((all(&node, 1).await, all(&node, 2).await), (vec![], vec![notice_id]));
    assert!(delete(vec![]).await.unwrap().deleted);
    assert_eq!(all(&node, 2).await, [0_i64; 0]);
    assert_eq!(notice(&node, notice_id).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(delete(vec![]).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn users_only_read_visible_notices() {
    let node = TestNode::start().await;
    let ann = node.user("ann").await.user_id;
    audience(&node, 1, true).await;
    audience(&node, 2, false).await;
    let visible = publish(&node, new_notice(&[1, 2])).await.notice_id;
    let elsewhere = publish(&node, new_notice(&[2])).await.notice_id;
    let scheduled =
        publish(&node, Notice { publish_time: Some(in_seconds(1000)), ..new_notice(&[1]) }).await.notice_id;
    let get = async |notice_id| {
        let request = GetNoticeRequest { notice_id, consistency: None };
        node.notices().get_notice(principal(ann, request)).await.map(drop).map_err(|error| error.code())
    };
    assert_eq!(get(visible).await, Ok(()));
    assert_eq!([get(elsewhere).await, get(scheduled).await, get(999).await], [Err(Code::NotFound); 3]);

    let own = ListNoticesRequest { audience_id: 1, reader_id: ann, ..Default::default() };
    let listed = node.notices().list_notices(principal(ann, own.clone())).await.unwrap().into_inner();
    assert_eq!(ids(&listed.notices), [visible]);
    let refused =
        node.notices().list_notices(principal(ann, ListNoticesRequest { reader_id: 0, ..own.clone() })).await;
    assert_denied(refused);
    let refused =
        node.notices().list_notices(principal(ann, ListNoticesRequest { audience_id: 2, ..own })).await;
    assert_denied(refused);
}
