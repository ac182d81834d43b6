//! Cases for audiences and their notices.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    notice_sample::{
        MANY, audience, audience_id, change, listed, new_audience, new_notice, notice, notice_id, publish,
        register,
    },
    sample::{
        applied, assert_fails, assert_mismatch, each_at_once, expecting, one_effect, params, replay,
        requested, write,
    },
};
use crate::{
    BATCH_MAX, EXPIRED_KEPT, NewAudience, NewNotice, NoticeChange, NoticePatch, NoticeRefusal, NoticeTerms,
    ParamsPatch, StoreError, Stored, Stores, Timestamp, Version, Write,
};

fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> NoticeRefusal {
    match result.unwrap_err() {
        StoreError::Notice(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

async fn try_change(stores: &Stores, id: i64, change: NoticeChange, write: Write) -> Result<(), StoreError> {
    stores.notices.change_notice(notice_id(id), change, MANY, write).await.map(drop)
}

pub async fn audience_is_registered_once_and_renamed(stores: Stores) {
    assert_eq!(stores.notices.audiences(&[audience_id(1)], false).await.unwrap(), []);
    register(&stores, &[1]).await;
    let first = audience(&stores, 1).await;
    assert_eq!((first.version, first.name.as_str(), first.next_slot), (Version::FIRST, "audience 1", 0));
    assert!(!first.of_users && first.entries.is_empty());
    register(&stores, &[1]).await;
    assert_eq!(audience(&stores, 1).await, first, "nothing has changed");
    applied(stores.notices.register_audience(new_audience(1, "Staff"), MANY, write()).await.unwrap());
    let renamed = audience(&stores, 1).await;
    assert_eq!((renamed.version, renamed.name.as_str()), (Version::FIRST.next(), "Staff"));
    assert_eq!(renamed.created, first.created);
}

pub async fn audience_of_another_kind_is_refused(stores: Stores) {
    register(&stores, &[1]).await;
    let other = NewAudience { of_users: true, ..new_audience(1, "x") };
    let refused = stores.notices.register_audience(other, MANY, write()).await;
    assert_eq!(refusal(refused), NoticeRefusal::AnotherKind);
    assert_eq!(audience(&stores, 1).await.version, Version::FIRST);
}

pub async fn audiences_have_a_limit(stores: Stores) {
    register(&stores, &[1, 2]).await;
    let refused = stores.notices.register_audience(new_audience(3, "x"), 2, write()).await;
    assert_eq!(refusal(refused), NoticeRefusal::TooManyAudiences);
    applied(stores.notices.register_audience(new_audience(2, "y"), 2, write()).await.unwrap());
}

pub async fn audiences_are_listed_by_rising_id(stores: Stores) {
    register(&stores, &[7, i64::from(i32::MAX), 1, 30]).await;
    let page = async |after: Option<i64>, limit| {
        let found = stores.notices.audience_list(after.map(audience_id), limit).await.unwrap();
        found.iter().map(|audience| audience.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, [1, 7]);
    assert_eq!(page(Some(7), 10).await, [30, i32::MAX]);
    assert_eq!(page(Some(i64::from(i32::MAX)), 10).await, [0_i32; 0]);
}

pub async fn notice_comes_back_as_it_was_published(stores: Stores) {
    register(&stores, &[1, 2]).await;
    let terms = NoticeTerms {
        publish: Timestamp(5),
        expire: Some(Timestamp(i64::MAX)),
        pinned: true,
        must_confirm: true,
        for_newcomers: true,
    };
    let new = NewNotice { params: params(&[("link", "/a?b=c")]), terms, ..new_notice(&[2, 1]) };
    let published = publish(&stores, i64::MAX, new.clone()).await;
    assert_eq!(notice(&stores, i64::MAX).await, Stored::Live(Arc::new(published.clone())));
    assert_eq!((published.version, published.revision), (Version::FIRST, 1));
    assert_eq!((&published.title, &published.body), (&new.title, &new.body));
    assert_eq!((&published.params, &published.audiences), (&new.params, &new.audiences));
    assert_eq!(published.terms, terms);
    let after = audience(&stores, 1).await;
    let entry = after.entries[0];
    assert_eq!((entry.slot, entry.confirm_slot, after.next_slot), (0, Some(1), 2));
    assert_eq!((entry.publish, entry.expire), (terms.publish, terms.expire));
    assert!(entry.pinned && entry.for_newcomers);
    assert_eq!(after.version, Version::FIRST.next());
}

pub async fn notice_is_published_to_all_audiences_or_none(stores: Stores) {
    register(&stores, &[1, 2]).await;
    publish(&stores, 1, new_notice(&[1, 2])).await;
    for (audiences, live_max, expected) in
        [(&[1, 2, 3][..], MANY, NoticeRefusal::NoAudience), (&[1, 2], 1, NoticeRefusal::TooManyNotices)]
    {
        let publish = NoticeChange::Publish(new_notice(audiences));
        let refused = stores.notices.change_notice(notice_id(9), publish, live_max, write()).await;
        assert_eq!(refusal(refused), expected);
        assert_eq!(notice(&stores, 9).await, Stored::Never);
        for id in [1, 2] {
            assert_eq!(audience(&stores, id).await.version, Version::FIRST.next(), "audience {id}");
        }
    }
}

pub async fn taken_and_deleted_ids_are_refused(stores: Stores) {
    register(&stores, &[1]).await;
    publish(&stores, 1, new_notice(&[1])).await;
    let again = async || {
        assert_fails!(
            try_change(&stores, 1, NoticeChange::Publish(new_notice(&[1])), write()).await,
            StoreError::IdTaken
        );
    };
    again().await;
    change(&stores, 1, NoticeChange::Delete(Vec::new())).await;
    again().await;
    for gone in [NoticeChange::Delete(Vec::new()), NoticeChange::Update(NoticePatch::default())] {
        assert_fails!(try_change(&stores, 1, gone.clone(), write()).await, StoreError::NotFound);
        assert_fails!(try_change(&stores, 2, gone, write()).await, StoreError::NotFound);
    }
}

pub async fn update_changes_what_it_names_in_all_audiences(stores: Stores) {
    register(&stores, &[1, 2]).await;
    let before = publish(&stores, 1, new_notice(&[1, 2])).await;
    let patch = NoticePatch {
        title: Some("Moved".into()),
        params: ParamsPatch { set: params(&[("a", "b")]), ..ParamsPatch::default() },
        expire: Some(Some(Timestamp(i64::MAX))),
        pinned: Some(true),
        ..NoticePatch::default()
    };
    let after = change(&stores, 1, NoticeChange::Update(patch)).await.notice.unwrap();
    assert_eq!(notice(&stores, 1).await, Stored::Live(Arc::new(after.clone())));
    assert_eq!((after.version.get(), after.revision), (2, 2));
    assert_eq!((after.title.as_str(), &after.body), ("Moved", &before.body));
    assert_eq!(after.params, params(&[("a", "b")]));
    for id in [1, 2] {
        let entry = audience(&stores, id).await.entries[0];
        assert_eq!((entry.slot, entry.pinned, entry.expire), (0, true, Some(Timestamp(i64::MAX))));
    }
    let unset = NoticePatch { expire: Some(None), ..NoticePatch::default() };
    let after = change(&stores, 1, NoticeChange::Update(unset)).await.notice.unwrap();
    assert_eq!((after.terms.expire, after.terms.pinned, after.revision), (None, true, 3));
    assert_eq!(notice(&stores, 1).await, Stored::Live(Arc::new(after)));
}

pub async fn update_moves_a_notice_between_audiences(stores: Stores) {
    register(&stores, &[1, 2, 3]).await;
    publish(&stores, 1, new_notice(&[1, 2])).await;
    let moved = NoticePatch { audiences: Some([2, 3].map(audience_id).to_vec()), ..NoticePatch::default() };
    let after = change(&stores, 1, NoticeChange::Update(moved)).await;
    assert_eq!(after.audiences.iter().map(|changed| changed.id.get()).collect::<Vec<_>>(), [1, 3]);
    let lists = [listed(&stores, 1).await, listed(&stores, 2).await, listed(&stores, 3).await];
    assert_eq!(lists, [vec![], vec![1], vec![1]]);
    let nowhere = NoticePatch { audiences: Some(vec![audience_id(9)]), ..NoticePatch::default() };
    let refused = try_change(&stores, 1, NoticeChange::Update(nowhere), write()).await;
    assert_eq!(refusal(refused), NoticeRefusal::NoAudience);
    assert_eq!(listed(&stores, 2).await, [1]);
}

pub async fn make_unread_gives_new_slots(stores: Stores) {
    register(&stores, &[1]).await;
    publish(&stores, 1, new_notice(&[1])).await;
    let unread = NoticePatch { make_unread: true, ..NoticePatch::default() };
    let changed = change(&stores, 1, NoticeChange::Update(unread)).await;
    assert_eq!(changed.audiences[0].slots, [1]);
    let after = audience(&stores, 1).await;
    assert_eq!((after.entries.len(), after.entries[0].slot, after.next_slot), (1, 1, 2));
    change(&stores, 1, NoticeChange::Update(NoticePatch::default())).await;
    assert_eq!(audience(&stores, 1).await.entries[0].slot, 1);
}

pub async fn expected_version_decides_changes(stores: Stores) {
    register(&stores, &[1]).await;
    publish(&stores, 1, new_notice(&[1])).await;
    for change in [NoticeChange::Update(NoticePatch::default()), NoticeChange::Delete(Vec::new())] {
        let refused = try_change(&stores, 1, change, expecting(7)).await.unwrap_err();
        assert!(
            matches!(refused, StoreError::Conflict { current } if current == Version::FIRST),
            "{refused:?}"
        );
    }
    try_change(&stores, 1, NoticeChange::Update(NoticePatch::default()), expecting(1)).await.unwrap();
    try_change(&stores, 1, NoticeChange::Delete(Vec::new()), expecting(2)).await.unwrap();
}

pub async fn publish_time_changes_until_it_has_passed(stores: Stores) {
    register(&stores, &[1]).await;
    let at = |publish| NoticePatch { publish: Some(Timestamp(publish)), ..NoticePatch::default() };
    let scheduled = Timestamp(i64::MAX - 1);
    let terms = NoticeTerms { publish: scheduled, ..new_notice(&[1]).terms };
    publish(&stores, 1, NewNotice { terms, ..new_notice(&[1]) }).await;
    let early = NoticePatch { expire: Some(Some(scheduled)), ..NoticePatch::default() };
    let refused = try_change(&stores, 1, NoticeChange::Update(early), write()).await;
    assert_eq!(refusal(refused), NoticeRefusal::ExpiresTooEarly);
    change(&stores, 1, NoticeChange::Update(at(2_000))).await;
    assert_eq!(audience(&stores, 1).await.entries[0].publish, Timestamp(2_000));
    let refused = try_change(&stores, 1, NoticeChange::Update(at(3_000)), write()).await;
    assert_eq!(refusal(refused), NoticeRefusal::Published);
    change(&stores, 1, NoticeChange::Update(at(2_000))).await;
}

pub async fn removal_from_the_last_audience_leaves_a_stub(stores: Stores) {
    register(&stores, &[1, 2, 3]).await;
    publish(&stores, 1, new_notice(&[1, 2])).await;
    let some = |ids: &[i64]| NoticeChange::Delete(ids.iter().map(|id| audience_id(*id)).collect());
    let changed = change(&stores, 1, some(&[1, 3])).await;
    assert_eq!((changed.version.get(), changed.notice.unwrap().audiences), (2, vec![audience_id(2)]));
    assert_eq!((listed(&stores, 1).await, listed(&stores, 2).await), (vec![], vec![1]));
    let changed = change(&stores, 1, some(&[2])).await;
    assert_eq!((changed.version.get(), changed.notice), (3, None));
    assert_eq!(notice(&stores, 1).await, Stored::Deleted(Version::new(3).unwrap()));
    assert_eq!(listed(&stores, 2).await, [0_i64; 0]);
}

pub async fn audience_takes_as_many_notices_as_it_may(stores: Stores) {
    register(&stores, &[1]).await;
    for id in 1..=3 {
        let publish = NoticeChange::Publish(new_notice(&[1]));
        stores.notices.change_notice(notice_id(id), publish, 3, write()).await.unwrap();
    }
    let publish = NoticeChange::Publish(new_notice(&[1]));
    let refused = stores.notices.change_notice(notice_id(4), publish.clone(), 3, write()).await;
    assert_eq!(refusal(refused), NoticeRefusal::TooManyNotices);
    change(&stores, 2, NoticeChange::Delete(Vec::new())).await;
    stores.notices.change_notice(notice_id(4), publish, 3, write()).await.unwrap();
    assert_eq!(listed(&stores, 1).await, [4, 3, 1]);
}

pub async fn request_is_answered_once(stores: Stores) {
    register(&stores, &[1]).await;
    let publish = || NoticeChange::Publish(new_notice(&[1]));
    let call = async |write| stores.notices.change_notice(notice_id(1), publish(), MANY, write).await;
    let first = applied(call(requested("a", 1)).await.unwrap());
    assert_eq!(replay(call(requested("a", 1)).await), first);
    assert_mismatch(call(requested("a", 2)).await);
    let register = async |write| stores.notices.register_audience(new_audience(5, "x"), MANY, write).await;
    applied(register(requested("b", 1)).await.unwrap());
    replay(register(requested("b", 1)).await);
    assert_mismatch(register(requested("b", 2)).await);
}

pub async fn requests_at_once_publish_once(stores: Stores) {
    register(&stores, &[1, 2]).await;
    let calls = each_at_once(&stores, 0..8, |stores, _| async move {
        let publish = NoticeChange::Publish(new_notice(&[1, 2]));
        stores.notices.change_notice(notice_id(1), publish, MANY, requested("a", 1)).await
    });
    one_effect(calls.await);
    assert_eq!((audience(&stores, 1).await.next_slot, listed(&stores, 2).await), (1, vec![1]));
}

pub async fn publishers_at_once_lose_no_entry(stores: Stores) {
    register(&stores, &[1, 2]).await;
    each_at_once(&stores, 1..=32, |stores, id| async move {
        let publish = NoticeChange::Publish(new_notice(&[1, 2]));
        applied(stores.notices.change_notice(notice_id(id), publish, MANY, write()).await.unwrap())
    })
    .await;
    for id in [1, 2] {
        let after = audience(&stores, id).await;
        let slots: BTreeSet<u32> = after.entries.iter().map(|entry| entry.slot).collect();
        assert_eq!((after.version.get(), after.next_slot), (33, 32));
        assert_eq!(slots, (0..32).collect(), "a slot is assigned once");
    }
    assert_eq!(listed(&stores, 1).await, (1..=32).rev().collect::<Vec<i64>>());
}

pub async fn expired_entries_are_removed_after_an_hour(stores: Stores) {
    register(&stores, &[1]).await;
    let expire = Timestamp::now().after(EXPIRED_KEPT);
    let terms = NoticeTerms { expire: Some(expire), ..new_notice(&[1]).terms };
    publish(&stores, 1, NewNotice { terms, ..new_notice(&[1]) }).await;
    let ahead = Write::at(expire.after(EXPIRED_KEPT));
    let publish_later = NoticeChange::Publish(new_notice(&[1]));
    stores.notices.change_notice(notice_id(2), publish_later, MANY, ahead).await.unwrap();
    assert_eq!(audience(&stores, 1).await.entries.len(), 2, "a clock that is ahead removes nothing");
    assert!(!stores.notices.remove_expired(audience_id(1), expire).await.unwrap());
    let later = expire.after(EXPIRED_KEPT);
    assert!(stores.notices.remove_expired(audience_id(1), later).await.unwrap());
    let after = audience(&stores, 1).await;
    assert_eq!((after.version.get(), after.next_slot, listed(&stores, 1).await), (4, 2, vec![2]));
    assert!(!stores.notices.remove_expired(audience_id(1), later).await.unwrap());
    assert!(!stores.notices.remove_expired(audience_id(9), later).await.unwrap());
    assert!(matches!(notice(&stores, 1).await, Stored::Live(_)), "the notice is kept longer");
}

pub async fn expired_notices_are_found(stores: Stores) {
    register(&stores, &[1]).await;
    for (id, expire) in [(1, Some(5_000)), (2, Some(6_000)), (3, None), (4, Some(5_000))] {
        let terms = NoticeTerms { expire: expire.map(Timestamp), ..new_notice(&[1]).terms };
        publish(&stores, id, NewNotice { terms, ..new_notice(&[1]) }).await;
    }
    change(&stores, 4, NoticeChange::Delete(Vec::new())).await;
    let found = async |before, limit| {
        let found = stores.notices.expired_notices(Timestamp(before), limit).await.unwrap();
        found.iter().map(|id| id.get()).collect::<BTreeSet<_>>()
    };
    assert_eq!(found(5_000, 10).await, BTreeSet::new());
    assert_eq!(found(6_000, 10).await, BTreeSet::from([1]));
    assert_eq!(found(6_001, 10).await, BTreeSet::from([1, 2]));
    assert_eq!(found(6_001, 1).await.len(), 1);
}

pub async fn more_ids_than_allowed_are_refused(stores: Stores) {
    let audiences = vec![audience_id(1); BATCH_MAX + 1];
    assert_fails!(stores.notices.audiences(&audiences, false).await, StoreError::Overloaded);
    let notices = vec![notice_id(1); BATCH_MAX + 1];
    assert_fails!(stores.notices.notices(&notices, false).await, StoreError::Overloaded);
    assert_eq!(stores.notices.audiences(&[], false).await.unwrap(), []);
    assert_eq!(stores.notices.notices(&[], false).await.unwrap(), []);
}
