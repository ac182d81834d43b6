//! Member store cases: lists by pages, a user's groups, and what has changed since a version.

use std::collections::BTreeMap;

use super::{
    member_sample::{GROUP, change, change_of, founded, groups, list, member, roster, state, users},
    relation_sample::moment,
    sample::{group_id, user_id, version},
};
use crate::{
    GroupId, MEMBER_CHANGES_KEPT, Member, MemberChange, MemberChangeEvent, Role, Stored, Stores, UserId,
    Version,
};

/// Reads a page of the group's members.
async fn page(stores: &Stores, least: Role, after: Option<i64>, limit: usize) -> Vec<Member> {
    let after = after.map(user_id);
    stores.members.member_list(group_id(GROUP), least, after, limit).await.unwrap()
}

fn ids(members: &[Member]) -> Vec<i64> {
    members.iter().map(|member| member.key.user.get()).collect()
}

/// Reads which users changed after this.
async fn since(stores: &Stores, after: (Version, i64), limit: usize) -> Option<Vec<MemberChangeEvent>> {
    let after = MemberChangeEvent { version: after.0, user: user_id(after.1) };
    stores.members.member_changes(group_id(GROUP), after, limit).await.unwrap()
}

/// Together with a version: everything about that version is known.
const ALL: i64 = i64::MAX;

pub async fn list_is_paged_by_rising_id(stores: Stores) {
    founded(&stores, 250).await;
    for user in [7, 100, 250] {
        change(&stores, MemberChange::Leave(user_id(user))).await;
    }
    let expected: Vec<i64> = (1..250).filter(|user| ![7, 100].contains(user)).collect();
    assert_eq!(ids(&page(&stores, Role::Member, None, 1_000).await), expected);
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let found = page(&stores, Role::Member, after, 60).await;
        let ended = found.len() < 60;
        after = found.last().map(|member| member.key.user.get());
        walked.extend(found);
        if ended {
            break;
        }
    }
    assert_eq!(ids(&walked), expected);
    assert_eq!(walked[1], member(&stores, 2).await);
    assert_eq!(page(&stores, Role::Member, None, 0).await, []);
    assert_eq!(page(&stores, Role::Member, Some(ALL), 9).await, []);
}

pub async fn list_by_role_has_no_lower_role(stores: Stores) {
    founded(&stores, 30).await;
    for user in [11, 20, 29] {
        change(&stores, MemberChange::SetRole(user_id(user), Role::Admin)).await;
    }
    change(&stores, MemberChange::SetRole(user_id(20), Role::Member)).await;
    change(&stores, MemberChange::Remove(users([29]))).await;
    change(&stores, MemberChange::Remark(user_id(11), "Bo".into())).await;
    assert_eq!(ids(&page(&stores, Role::Admin, None, 100).await), [1, 2, 11]);
    assert_eq!(ids(&page(&stores, Role::Owner, None, 100).await), [1]);
    assert_eq!(page(&stores, Role::Admin, Some(2), 1).await, [member(&stores, 11).await]);
    change(&stores, MemberChange::Transfer(user_id(11))).await;
    assert_eq!(ids(&page(&stores, Role::Owner, None, 100).await), [11]);
}

pub async fn rejoined_member_is_listed_once(stores: Stores) {
    founded(&stores, 4).await;
    for _ in 0..3 {
        change(&stores, MemberChange::Leave(user_id(3))).await;
        assert_eq!((list(&stores, GROUP).await, groups(&stores, 3).await), (vec![1, 2, 4], vec![]));
        change(&stores, MemberChange::Join(user_id(3))).await;
        assert_eq!((list(&stores, GROUP).await, groups(&stores, 3).await), (vec![1, 2, 3, 4], vec![GROUP]));
    }
}

pub async fn groups_of_a_user_are_paged(stores: Stores) {
    for group in (10..=40).rev() {
        change_of(&stores, group, MemberChange::AddFounder(user_id(1))).await;
        change_of(&stores, group, MemberChange::Add(users([2]))).await;
    }
    change_of(&stores, 17, MemberChange::Leave(user_id(2))).await;
    let expected: Vec<i64> = (10..=40).filter(|group| *group != 17).collect();
    assert_eq!(groups(&stores, 2).await, expected);
    let (mut walked, mut after): (Vec<i64>, Option<GroupId>) = (Vec::new(), None);
    loop {
        let found = stores.members.memberships(user_id(2), after, 10).await.unwrap();
        after = found.last().copied();
        walked.extend(found.iter().map(|group| group.get()));
        if found.len() < 10 {
            break;
        }
    }
    assert_eq!(walked, expected);
    assert_eq!(stores.members.memberships(user_id(2), None, 0).await.unwrap(), []);
}

pub async fn changes_since_version_are_ordered_by_version(stores: Stores) {
    founded(&stores, 6).await;
    let known = roster(&stores, GROUP).await.version;
    assert_eq!(since(&stores, (known, ALL), 100).await, Some(vec![]));
    change(&stores, MemberChange::Leave(user_id(5))).await;
    change(&stores, MemberChange::Add(users([8, 7]))).await;
    change(&stores, MemberChange::Remark(user_id(3), "Bo".into())).await;
    let changes = since(&stores, (known, ALL), 100).await.unwrap();
    let numbers: Vec<_> =
        changes.iter().map(|one| (one.version.get() - known.get(), one.user.get())).collect();
    assert_eq!(numbers, [(1, 5), (2, 7), (2, 8), (3, 3)]);
    for one in changes {
        let stored = match state(&stores, GROUP, one.user.get()).await {
            Stored::Live(member) => member.version,
            Stored::Deleted(version) => version,
            Stored::Never => Version::NONE,
        };
        assert_eq!(stored, one.version);
    }
}

pub async fn changes_are_paged_without_gaps(stores: Stores) {
    founded(&stores, 30).await;
    let known = roster(&stores, GROUP).await.version;
    for user in [3, 4, 5, 3, 9, 4, 12] {
        change(&stores, MemberChange::Remark(user_id(user), format!("r{user}").as_str().into())).await;
        change(&stores, MemberChange::Remark(user_id(user), "".into())).await;
    }
    change(&stores, MemberChange::Add(users(40..=60))).await;
    let (mut last, mut after): (BTreeMap<UserId, Version>, _) = (BTreeMap::new(), (known, ALL));
    loop {
        let found = since(&stores, after, 4).await.unwrap();
        assert!(found.is_sorted() && found.len() <= 4, "{found:?}");
        assert!(found.first().is_none_or(|one| (one.version, one.user.get()) > after));
        last.extend(found.iter().map(|one| (one.user, one.version)));
        let Some(end) = found.last() else { break };
        after = (end.version, end.user.get());
    }
    let expected: Vec<i64> = [3, 4, 5, 9, 12].into_iter().chain(40..=60).collect();
    assert_eq!(last.keys().map(|user| user.get()).collect::<Vec<_>>(), expected);
    for (user, version) in last {
        assert_eq!(member(&stores, user.get()).await.version, version);
    }
}

pub async fn mute_of_all_raises_version_and_names_no_user(stores: Stores) {
    founded(&stores, 3).await;
    let known = roster(&stores, GROUP).await.version;
    let muted = change(&stores, MemberChange::MuteAll(Some(moment(3)))).await;
    assert_eq!(muted.roster.version, known.next());
    assert_eq!(since(&stores, (known, ALL), 10).await, Some(vec![]));
}

pub async fn old_changes_are_not_returned(stores: Stores) {
    founded(&stores, 3).await;
    let known = roster(&stores, GROUP).await.version;
    for number in 0..MEMBER_CHANGES_KEPT {
        let remark = MemberChange::Remark(user_id(3), format!("r{number}").as_str().into());
        change(&stores, remark).await;
    }
    let changes = since(&stores, (known, ALL), 2_000).await.unwrap();
    let last = MemberChangeEvent { version: member(&stores, 3).await.version, user: user_id(3) };
    assert_eq!(changes.last(), Some(&last));
    change(&stores, MemberChange::Join(user_id(4))).await;
    assert_eq!(since(&stores, (known, ALL), 2_000).await, None);
    let changes = since(&stores, (known.next(), ALL), 2_000).await.unwrap();
    assert_eq!(changes.last().map(|one| one.user), Some(user_id(4)));
}

pub async fn future_version_has_no_changes(stores: Stores) {
    assert_eq!(since(&stores, (Version::NONE, ALL), 10).await, Some(vec![]));
    assert_eq!(since(&stores, (version(1), ALL), 10).await, None);
    founded(&stores, 2).await;
    let current = roster(&stores, GROUP).await.version;
    assert_eq!(since(&stores, (current.next(), ALL), 10).await, None);
    let changes = since(&stores, (Version::NONE, ALL), 10).await.unwrap();
    let mut whom: Vec<i64> = changes.iter().map(|one| one.user.get()).collect();
    whom.sort_unstable();
    whom.dedup();
    assert_eq!(whom, [1, 2]);
}
