//! Member store cases: many changes to one group at once.

use std::collections::BTreeSet;

use super::{
    member_sample::{GROUP, by, change, founded, groups, list, roster, service, state},
    relation_sample::{await_equal, moment},
    sample::{assert_fails, each_at_once, group_id, user_id, write},
};
use crate::{
    ChangeContext, Member, MemberChange, MemberRefusal, MembersUpdated, Role, StoreError, Stored, Stores,
};

/// Changes the group, at once.
async fn sent(
    stores: &Stores,
    changes: impl IntoIterator<Item = (MemberChange, ChangeContext)>,
) -> Vec<Result<MembersUpdated, StoreError>> {
    each_at_once(stores, changes, |stores, (change, terms)| async move {
        let applied = stores.members.change_members(group_id(GROUP), change, terms, write()).await?;
        Ok(applied.record)
    })
    .await
}

/// Whether this user is in the group, according to the user's list of groups.
async fn is_in(stores: &Stores, user: i64) -> bool {
    groups(stores, user).await == [GROUP]
}

async fn all_agree(stores: &Stores, users: impl IntoIterator<Item = i64>) {
    let listed = list(stores, GROUP).await;
    assert_eq!(u32::try_from(listed.len()).unwrap(), roster(stores, GROUP).await.count);
    for user in users {
        let is_member = matches!(state(stores, GROUP, user).await, Stored::Live(_));
        assert_eq!(listed.contains(&user), is_member, "{user}");
        await_equal(&is_member, async || is_in(stores, user).await).await;
    }
}

pub async fn concurrent_joins_stop_at_member_limit(stores: Stores) {
    founded(&stores, 6).await;
    let terms = ChangeContext { members_max: 20, ..service() };
    let results = sent(&stores, (100..164).map(|user| (MemberChange::Join(user_id(user)), terms))).await;
    let joined = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(joined, 14);
    for result in results.into_iter().filter(Result::is_err) {
        assert_fails!(result, StoreError::Member(MemberRefusal::Full));
    }
    assert_eq!(roster(&stores, GROUP).await.count, 20);
    all_agree(&stores, 100..164).await;
}

pub async fn joins_at_once_get_ordinals_without_gaps(stores: Stores) {
    founded(&stores, 3).await;
    let joins = (10..74).map(|user| (MemberChange::Join(user_id(user)), by(user)));
    let results = sent(&stores, joins).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let members = stores.members.member_list(group_id(GROUP), Role::Member, None, 100).await.unwrap();
    let ordinals: BTreeSet<u32> = members.iter().map(|member: &Member| member.ordinal).collect();
    assert_eq!(ordinals, (0..67).collect());
    assert_eq!(roster(&stores, GROUP).await.ordinals, 67);
}

pub async fn racing_joins_and_leaves_agree_everywhere(stores: Stores) {
    founded(&stores, 3).await;
    for round in 0..5 {
        let changes = (10..18).flat_map(|user| {
            [
                (MemberChange::Join(user_id(user)), by(user)),
                (MemberChange::Leave(user_id(user)), by(user)),
                (MemberChange::Remove(vec![user_id(user)]), by(1)),
                (MemberChange::Join(user_id(user)), by(user)),
            ]
        });
        for result in sent(&stores, changes).await {
            let gone = matches!(result, Err(StoreError::Member(MemberRefusal::NotAMember)));
            assert!(result.is_ok() || gone, "{result:?}");
        }
        all_agree(&stores, 10..18).await;
        assert_eq!(roster(&stores, GROUP).await.ordinals, 3 + 8, "in round {round}");
    }
}

pub async fn one_of_many_founders_owns_the_group(stores: Stores) {
    let results =
        sent(&stores, (1..=8).map(|user| (MemberChange::AddFounder(user_id(user)), service()))).await;
    let owner = roster(&stores, GROUP).await.owner.unwrap();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(list(&stores, GROUP).await, [owner.get()]);
    all_agree(&stores, 1..=8).await;
}

pub async fn one_owner_is_left_by_transfers_at_once(stores: Stores) {
    founded(&stores, 8).await;
    let transfers = (2..=8).map(|user| (MemberChange::Transfer(user_id(user)), by(1)));
    let results = sent(&stores, transfers).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let owner = roster(&stores, GROUP).await.owner.unwrap();
    let members = stores.members.member_list(group_id(GROUP), Role::Owner, None, 10).await.unwrap();
    assert_eq!(members.iter().map(|member| member.key.user).collect::<Vec<_>>(), [owner]);
    assert_ne!(owner, user_id(1));
}

pub async fn each_change_returns_its_own_version(stores: Stores) {
    founded(&stores, 40).await;
    let before = roster(&stores, GROUP).await.version.get();
    let mutes = (3..=40).map(|user| (MemberChange::Mute(user_id(user), Some(moment(user))), by(1)));
    let mut versions = Vec::new();
    for result in sent(&stores, mutes).await {
        let MembersUpdated { roster, rows, .. } = result.unwrap();
        assert_eq!(rows.len(), 1);
        let member = &rows[0].member;
        assert_eq!(
            (member.version, member.muted_until),
            (roster.version, Some(moment(member.key.user.get())))
        );
        versions.push(roster.version.get() - before);
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=38).collect::<Vec<_>>());
}

pub async fn concurrent_changes_of_groups_all_succeed(stores: Stores) {
    let joins = (1..=32).flat_map(|group| (1..=3).map(move |user| (group, user)));
    each_at_once(&stores, joins, |stores, (group, user)| async move {
        let join = MemberChange::Join(user_id(user));
        stores.members.change_members(group_id(group), join, service(), write()).await.unwrap();
    })
    .await;
    for user in 1..=3 {
        assert_eq!(groups(&stores, user).await, (1..=32).collect::<Vec<_>>());
    }
    change(&stores, MemberChange::Leave(user_id(2))).await;
    assert_eq!(list(&stores, GROUP).await, [1, 3]);
}
