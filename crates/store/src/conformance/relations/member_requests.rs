//! Member store cases: a change with a request id has one effect and one answer.

use super::{
    member_sample::{GROUP, assert_refused, change, founded, groups, list, roster, service, state, users},
    sample::{
        SentRequest, applied, assert_fails, assert_mismatch, each_at_once, expecting, group_id, one_effect,
        replay, requested, user_id, version,
    },
};
use crate::{Applied, ChangeContext, MemberChange, MemberRefusal, MembersUpdated, StoreError, Stores, Write};

/// A change by a request with this id and a body represented by the number.
async fn asked(
    stores: &Stores,
    change: MemberChange,
    request: (&str, u8),
) -> Result<Applied<MembersUpdated>, StoreError> {
    let write = requested(request.0, request.1);
    stores.members.change_members(group_id(GROUP), change, service(), write).await
}

fn join(user: i64) -> MemberChange {
    MemberChange::Join(user_id(user))
}

pub async fn a_change_has_one_effect(stores: Stores) {
    founded(&stores, 3).await;
    // The second joins without a change, and the last change is a ban.
    let ban = MemberChange::Ban(users([2]), None);
    let changes = [(5, join(5), true), (3, join(3), false), (2, ban, true)];
    for (user, sent, has_rows) in changes {
        let request = SentRequest::send(
            |body| requested(&format!("r{user}"), body),
            async |write| {
                stores.members.change_members(group_id(GROUP), sent.clone(), service(), write).await
            },
            async || {
                (state(&stores, GROUP, user).await, roster(&stores, GROUP).await, groups(&stores, user).await)
            },
        )
        .await;
        assert_eq!(
            (&request.answer.roster, request.answer.rows.is_empty()),
            (&roster(&stores, GROUP).await, !has_rows)
        );
        let later =
            if user == 2 { MemberChange::Unban(users([2])) } else { MemberChange::Remove(users([user])) };
        change(&stores, later).await;
        request.assert_kept().await;
    }
}

pub async fn another_body_is_refused_and_has_no_effect(stores: Stores) {
    founded(&stores, 3).await;
    applied(asked(&stores, join(5), ("r", 1)).await.unwrap());
    assert_mismatch(asked(&stores, join(6), ("r", 2)).await);
    assert_eq!(list(&stores, GROUP).await, [1, 2, 3, 5]);
}

pub async fn a_refusal_keeps_no_request(stores: Stores) {
    founded(&stores, 3).await;
    let full = ChangeContext { members_max: 3, ..service() };
    let refused = stores.members.change_members(group_id(GROUP), join(5), full, requested("r", 1)).await;
    assert_refused(refused, MemberRefusal::Full);
    let made = applied(asked(&stores, join(5), ("r", 1)).await.unwrap());
    assert_eq!(made.roster.count, 4);
}

pub async fn a_conflict_keeps_no_request(stores: Stores) {
    founded(&stores, 3).await;
    let stale = Write { expected: expecting(99).expected, ..requested("r", 1) };
    assert_fails!(
        stores.members.change_members(group_id(GROUP), join(5), service(), stale).await,
        StoreError::Conflict { .. }
    );
    let made = applied(asked(&stores, join(5), ("r", 1)).await.unwrap());
    assert_eq!(replay(asked(&stores, join(5), ("r", 1)).await), made);
}

pub async fn requests_of_different_ids_have_an_effect_each(stores: Stores) {
    for number in 1..=5 {
        let made = applied(asked(&stores, join(number), (&format!("r{number}"), 1)).await.unwrap());
        assert_eq!(made.roster.version, version(number));
    }
}

pub async fn a_change_sent_at_once_has_one_effect(stores: Stores) {
    founded(&stores, 3).await;
    for user in 5..=9 {
        let before = roster(&stores, GROUP).await.version;
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            asked(&stores, join(user), (&format!("r{user}"), 1)).await
        });
        let made = one_effect(calls.await);
        assert_eq!((made.roster.version, roster(&stores, GROUP).await), (before.next(), made.roster));
    }
}

pub async fn two_bodies_at_once_have_one_effect(stores: Stores) {
    founded(&stores, 3).await;
    for number in 1..=8 {
        let mut results = each_at_once(&stores, [(100, 1), (200, 2)], |stores, (user, body)| async move {
            asked(&stores, join(user + number), (&format!("r{number}"), body)).await
        })
        .await;
        results.sort_by_key(Result::is_err);
        assert_mismatch(results.pop().unwrap());
        let made = applied(results.pop().unwrap().unwrap());
        assert_eq!((made.rows.len(), made.roster.count), (1, 3 + u32::try_from(number).unwrap()));
    }
}
