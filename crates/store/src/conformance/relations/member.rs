//! Member store cases: one change after the other.

use super::{
    member_sample::{
        GROUP, assert_refused, by, change, change_of, changed_rows, founded, groups, key, list, member,
        roles, roster, service, state, try_change, users,
    },
    relation_sample::{assert_overloaded, at, moment},
    sample::{applied, expecting, group_id, user_id, version},
};
use crate::{
    BATCH_MAX, ChangeContext, MEMBERS_AT_ONCE, Member, MemberChange, MemberRefusal, Role, Roster, StoreError,
    Stored, Stores, Version, Write,
};

pub async fn new_group_has_no_members(stores: Stores) {
    assert_eq!(state(&stores, GROUP, 1).await, Stored::Never);
    assert_eq!(roster(&stores, GROUP).await, Roster::default());
    assert_eq!((list(&stores, GROUP).await, groups(&stores, 1).await), (vec![], vec![]));
    let removed = change(&stores, MemberChange::Remove(users([1]))).await;
    assert_eq!((removed.roster, changed_rows(&removed)), (Roster::default(), vec![]));
}

pub async fn founder_owns_the_group(stores: Stores) {
    let founded = change(&stores, MemberChange::AddFounder(user_id(1))).await;
    assert_eq!(changed_rows(&founded), [(1, true, version(1))]);
    let expected =
        Roster { version: version(1), count: 1, ordinals: 1, owner: Some(user_id(1)), muted_until: None };
    assert_eq!((founded.roster, roster(&stores, GROUP).await), (expected, expected));
    assert_eq!(roles(&stores).await, [(1, Role::Owner)]);
    assert_eq!(groups(&stores, 1).await, [GROUP]);
    let again = change(&stores, MemberChange::AddFounder(user_id(1))).await;
    assert_eq!((again.roster, changed_rows(&again)), (expected, vec![]));
    assert_refused(
        try_change(&stores, MemberChange::AddFounder(user_id(2)), service()).await,
        MemberRefusal::HasOwner,
    );
}

pub async fn added_members_are_returned_in_full(stores: Stores) {
    change(&stores, MemberChange::AddFounder(user_id(1))).await;
    let add = MemberChange::Add(users([5, 3]));
    let write = at(60);
    let changed = stores.members.change_members(group_id(GROUP), add, service(), write).await;
    let changed = applied(changed.unwrap());
    assert_eq!(changed_rows(&changed), [(3, true, version(2)), (5, true, version(2))]);
    assert_eq!((changed.roster.count, changed.roster.ordinals), (3, 3));
    for (at, row) in changed.rows.iter().enumerate() {
        let expected = Member {
            key: row.member.key,
            version: version(2),
            role: Role::Member,
            ordinal: u32::try_from(at).unwrap() + 1,
            remark: "".into(),
            muted_until: None,
            joined: moment(60),
            from_seq: 1,
            joined_seq: 1,
        };
        assert_eq!((&row.member, row.live), (&expected, true));
        assert_eq!(member(&stores, row.member.key.user.get()).await, expected);
        assert_eq!(groups(&stores, row.member.key.user.get()).await, [GROUP]);
    }
}

pub async fn existing_member_is_unchanged(stores: Stores) {
    founded(&stores, 4).await;
    let before = (member(&stores, 3).await, roster(&stores, GROUP).await);
    let joined = change(&stores, MemberChange::Join(user_id(3))).await;
    assert_eq!((changed_rows(&joined), joined.roster), (vec![], before.1));
    let added = change(&stores, MemberChange::Add(users([2, 3, 4, 6]))).await;
    assert_eq!(changed_rows(&added), [(6, true, before.1.version.next())]);
    assert_eq!(member(&stores, 3).await, before.0);
}

pub async fn former_member_keeps_ordinal_and_mute(stores: Stores) {
    let far = crate::Timestamp(4_000_000_000_000);
    founded(&stores, 4).await;
    change(&stores, MemberChange::SetRole(user_id(4), Role::Admin)).await;
    change(&stores, MemberChange::Mute(user_id(4), Some(far))).await;
    change(&stores, MemberChange::Remark(user_id(4), "Bo".into())).await;
    let before = member(&stores, 4).await;
    let left = change(&stores, MemberChange::Leave(user_id(4))).await;
    assert_eq!(changed_rows(&left), [(4, false, before.version.next())]);
    assert_eq!(state(&stores, GROUP, 4).await, Stored::Deleted(before.version.next()));
    assert_eq!((left.roster.count, left.roster.ordinals), (3, 4));
    assert_eq!((groups(&stores, 4).await, list(&stores, GROUP).await), (vec![], vec![1, 2, 3]));
    assert_refused(
        try_change(&stores, MemberChange::Leave(user_id(4)), by(4)).await,
        MemberRefusal::NotAMember,
    );
    change(&stores, MemberChange::Join(user_id(7))).await;
    change(&stores, MemberChange::Join(user_id(4))).await;
    let again = member(&stores, 4).await;
    assert_eq!((again.ordinal, again.role), (before.ordinal, Role::Member));
    assert_eq!(again.muted_until, Some(far));
    assert_eq!((&*again.remark, member(&stores, 7).await.ordinal), ("", 4));
    assert_eq!(groups(&stores, 4).await, [GROUP]);
}

pub async fn the_owner_stays_until_another_one_is(stores: Stores) {
    founded(&stores, 4).await;
    let stays = MemberRefusal::OwnerStays;
    assert_refused(try_change(&stores, MemberChange::Leave(user_id(1)), by(1)).await, stays);
    assert_refused(try_change(&stores, MemberChange::Remove(users([3, 1])), service()).await, stays);
    assert_refused(
        try_change(&stores, MemberChange::SetRole(user_id(1), Role::Admin), service()).await,
        stays,
    );
    assert_refused(try_change(&stores, MemberChange::SetRole(user_id(3), Role::Owner), by(1)).await, stays);
    let lone = MemberChange::Transfer(user_id(9));
    assert_refused(try_change(&stores, lone, by(1)).await, MemberRefusal::NotAMember);
    let given = try_change(&stores, MemberChange::Transfer(user_id(3)), by(1)).await.unwrap();
    assert_eq!(changed_rows(&given), [(1, true, given.roster.version), (3, true, given.roster.version)]);
    assert_eq!(given.roster.owner, Some(user_id(3)));
    let expected = [(1, Role::Admin), (2, Role::Admin), (3, Role::Owner), (4, Role::Member)];
    assert_eq!(roles(&stores).await, expected);
    try_change(&stores, MemberChange::Leave(user_id(1)), by(1)).await.unwrap();
    assert_eq!(list(&stores, GROUP).await, [2, 3, 4]);
}

pub async fn deleted_owner_leaves_group_without_owner(stores: Stores) {
    founded(&stores, 3).await;
    assert_refused(
        try_change(&stores, MemberChange::AccountDeleted(user_id(1)), by(1)).await,
        MemberRefusal::RoleTooLow,
    );
    let gone = change(&stores, MemberChange::AccountDeleted(user_id(1))).await;
    assert_eq!(changed_rows(&gone), [(1, false, gone.roster.version)]);
    assert_eq!((gone.roster.owner, gone.roster.count), (None, 2));
    assert_eq!((roster(&stores, GROUP).await, groups(&stores, 1).await), (gone.roster, vec![]));
    assert_eq!(changed_rows(&change(&stores, MemberChange::AccountDeleted(user_id(1))).await), []);
    change(&stores, MemberChange::AddFounder(user_id(2))).await;
    assert_eq!(roles(&stores).await, [(2, Role::Owner), (3, Role::Member)]);
}

pub async fn roles_decide_who_may_change_whom(stores: Stores) {
    founded(&stores, 5).await;
    let low = MemberRefusal::RoleTooLow;
    for (user, change) in [
        (3, MemberChange::Add(users([9]))),
        (3, MemberChange::Remove(users([4]))),
        (9, MemberChange::Remove(users([4]))),
        (2, MemberChange::Remove(users([2]))),
        (2, MemberChange::SetRole(user_id(3), Role::Admin)),
        (3, MemberChange::Mute(user_id(4), Some(moment(1)))),
        (2, MemberChange::Mute(user_id(2), Some(moment(1)))),
        (3, MemberChange::MuteAll(Some(moment(1)))),
        (3, MemberChange::Remark(user_id(4), "Bo".into())),
        (2, MemberChange::Transfer(user_id(2))),
    ] {
        assert_refused(try_change(&stores, change, by(user)).await, low);
    }
    for (user, change) in [
        (2, MemberChange::Add(users([9]))),
        (2, MemberChange::Remove(users([4]))),
        (2, MemberChange::Mute(user_id(3), Some(moment(1)))),
        (2, MemberChange::MuteAll(Some(moment(1)))),
        (3, MemberChange::Remark(user_id(3), "Bo".into())),
        (2, MemberChange::Remark(user_id(3), "Mo".into())),
        (1, MemberChange::SetRole(user_id(3), Role::Admin)),
        (1, MemberChange::Remove(users([2, 3]))),
    ] {
        try_change(&stores, change, by(user)).await.unwrap();
    }
    assert_eq!(list(&stores, GROUP).await, [1, 5, 9]);
}

pub async fn a_refused_change_changes_nothing(stores: Stores) {
    founded(&stores, 4).await;
    let before = (roster(&stores, GROUP).await, roles(&stores).await);
    let some_in = ChangeContext { members_max: 5, ..service() };
    let add = MemberChange::Add(users([5, 6]));
    assert_refused(try_change(&stores, add, some_in).await, MemberRefusal::Full);
    let remove = MemberChange::Remove(users([3, 2]));
    assert_refused(try_change(&stores, remove, by(2)).await, MemberRefusal::RoleTooLow);
    assert_eq!((roster(&stores, GROUP).await, roles(&stores).await), before);
    assert_eq!(groups(&stores, 5).await, Vec::<i64>::new());
}

pub async fn the_limit_is_met_and_not_passed(stores: Stores) {
    let terms = ChangeContext { members_max: 5, ..service() };
    founded(&stores, 3).await;
    try_change(&stores, MemberChange::Add(users([3, 4, 5])), terms).await.unwrap();
    assert_refused(try_change(&stores, MemberChange::Join(user_id(6)), terms).await, MemberRefusal::Full);
    try_change(&stores, MemberChange::Join(user_id(5)), terms).await.unwrap();
    try_change(&stores, MemberChange::Leave(user_id(5)), terms).await.unwrap();
    try_change(&stores, MemberChange::Join(user_id(6)), terms).await.unwrap();
    assert_eq!(roster(&stores, GROUP).await.count, 5);
}

pub async fn mute_is_set_for_one_and_for_all(stores: Stores) {
    founded(&stores, 4).await;
    let mute = |until| MemberChange::Mute(user_id(3), until);
    let muted = change(&stores, mute(Some(moment(5)))).await;
    assert_eq!(changed_rows(&muted), [(3, true, muted.roster.version)]);
    assert_eq!(member(&stores, 3).await.muted_until, Some(moment(5)));
    assert_eq!(changed_rows(&change(&stores, mute(Some(moment(5)))).await), []);
    change(&stores, mute(None)).await;
    assert_eq!(member(&stores, 3).await.muted_until, None);
    let all = change(&stores, MemberChange::MuteAll(Some(moment(7)))).await;
    assert_eq!((changed_rows(&all), all.roster.muted_until), (vec![], Some(moment(7))));
    assert_eq!(roster(&stores, GROUP).await, all.roster);
    let none = change(&stores, MemberChange::MuteAll(None)).await;
    assert_eq!((none.roster.muted_until, none.roster.version), (None, all.roster.version.next()));
    let result = try_change(&stores, MemberChange::Mute(user_id(9), None), service()).await;
    assert_refused(result, MemberRefusal::NotAMember);
}

pub async fn a_remark_is_kept_as_it_was_written(stores: Stores) {
    founded(&stores, 3).await;
    for remark in ["'; DROP TABLE members;-- \u{1F600}", &"é".repeat(64), ""] {
        let remark = Member::remark(remark).unwrap();
        change(&stores, MemberChange::Remark(user_id(3), remark.clone())).await;
        assert_eq!(member(&stores, 3).await.remark, remark);
    }
}

pub async fn an_expected_version_is_that_of_the_roster(stores: Stores) {
    founded(&stores, 3).await;
    let current = roster(&stores, GROUP).await.version;
    let join = async |write: Write| {
        stores.members.change_members(group_id(GROUP), MemberChange::Join(user_id(7)), service(), write).await
    };
    for expected in [0, current.get() - 1, current.get() + 1] {
        let error = join(expecting(expected)).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Conflict { current: reported } if reported == current),
            "{error:?}"
        );
    }
    let joined = applied(join(expecting(current.get())).await.unwrap());
    assert_eq!(joined.roster.version, current.next());
}

pub async fn members_are_read_by_many_keys_each_once(stores: Stores) {
    founded(&stores, 4).await;
    change_of(&stores, 8, MemberChange::AddFounder(user_id(4))).await;
    change(&stores, MemberChange::Leave(user_id(3))).await;
    let keys = [key(GROUP, 4), key(8, 4), key(GROUP, 3), key(GROUP, 99), key(GROUP, 4), key(7, 1)];
    let mut read = stores.members.members(&keys).await.unwrap();
    read.retain(|(_, stored)| *stored != Stored::Never);
    read.sort_unstable_by_key(|(key, _)| *key);
    let states: Vec<_> = read.iter().map(|(key, stored)| (*key, matches!(stored, Stored::Live(_)))).collect();
    assert_eq!(states, [(key(8, 4), true), (key(GROUP, 3), false), (key(GROUP, 4), true)]);
    assert_eq!(stores.members.members(&[]).await.unwrap(), []);
}

pub async fn rosters_have_the_order_of_the_groups(stores: Stores) {
    founded(&stores, 4).await;
    change_of(&stores, 8, MemberChange::AddFounder(user_id(4))).await;
    let asked = [8, 7, GROUP, 8].map(group_id);
    let counts: Vec<u32> =
        stores.members.rosters(&asked).await.unwrap().iter().map(|roster| roster.count).collect();
    assert_eq!(counts, [1, 0, 4, 1]);
}

pub async fn groups_do_not_touch_one_another(stores: Stores) {
    founded(&stores, 3).await;
    let before = roster(&stores, GROUP).await;
    change_of(&stores, 10, MemberChange::AddFounder(user_id(3))).await;
    change_of(&stores, 8, MemberChange::AddFounder(user_id(3))).await;
    change_of(&stores, 8, MemberChange::Add(users([1]))).await;
    assert_eq!(groups(&stores, 3).await, [8, GROUP, 10]);
    change(&stores, MemberChange::Leave(user_id(3))).await;
    assert_eq!(groups(&stores, 3).await, [8, 10]);
    assert_eq!(roster(&stores, GROUP).await.version, before.version.next());
    assert_eq!(list(&stores, 8).await, [1, 3]);
}

pub async fn group_ends_in_steps_and_versions_continue(stores: Stores) {
    founded(&stores, 12).await;
    let before = roster(&stores, GROUP).await;
    let mut left = before.count;
    for _ in 0..12 {
        let now = stores.members.end_members(group_id(GROUP), 5, moment(9)).await.unwrap();
        assert!(now < left && left - now <= 5, "{now} of {left}");
        left = now;
        if left == 0 {
            break;
        }
    }
    let ended = roster(&stores, GROUP).await;
    assert_eq!((ended.count, ended.owner, ended.ordinals), (0, None, 12));
    assert!(ended.version > before.version && list(&stores, GROUP).await.is_empty());
    for user in 1..=12 {
        assert_eq!(groups(&stores, user).await, Vec::<i64>::new());
        assert!(
            matches!(state(&stores, GROUP, user).await, Stored::Deleted(version) if version > Version::NONE)
        );
    }
    assert_eq!(stores.members.end_members(group_id(GROUP), 5, moment(9)).await.unwrap(), 0);
    change(&stores, MemberChange::AddFounder(user_id(5))).await;
    assert_eq!(roles(&stores).await, [(5, Role::Owner)]);
    assert!(roster(&stores, GROUP).await.version > ended.version);
}

pub async fn more_than_a_call_may_name_is_refused(stores: Stores) {
    let many = i64::try_from(MEMBERS_AT_ONCE).unwrap();
    change(&stores, MemberChange::Add(users(1..=many))).await;
    assert_overloaded(try_change(&stores, MemberChange::Add(users(1..=many + 1)), service()).await);
    assert_overloaded(try_change(&stores, MemberChange::Remove(users(1..=many + 1)), service()).await);
    let most = i64::try_from(BATCH_MAX).unwrap();
    let keys = |last| (1..=last).map(|user| key(GROUP, user)).collect::<Vec<_>>();
    let found = stores.members.members(&keys(most)).await.unwrap();
    assert_eq!(found.iter().filter(|(_, stored)| *stored != Stored::Never).count(), MEMBERS_AT_ONCE);
    assert_overloaded(stores.members.members(&keys(most + 1)).await);
    let groups: Vec<_> = (1..=most + 1).map(group_id).collect();
    assert_overloaded(stores.members.rosters(&groups).await);
}
