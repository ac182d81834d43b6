//! Member store cases: bans, and mutes that outlive a membership.

use std::sync::Arc;

use super::{
    member_sample::{
        GROUP, assert_refused, by, change, changed_rows, founded, groups, key, list, member, roster, service,
        state, try_change, users,
    },
    relation_sample::{at, moment},
    sample::{applied, at_once, group_id, user_id, write},
};
use crate::{
    Ban, ChangeContext, GroupId, MEMBERS_AT_ONCE, MemberChange, MemberRefusal, MembersUpdated, StoreError,
    Stored, Stores, Timestamp, Write,
};

/// Later than any test runs.
const FAR: Timestamp = Timestamp(4_000_000_000_000);

fn ban(ids: impl IntoIterator<Item = i64>, until: Option<Timestamp>) -> MemberChange {
    MemberChange::Ban(users(ids), until)
}

fn unban(ids: impl IntoIterator<Item = i64>) -> MemberChange {
    MemberChange::Unban(users(ids))
}

async fn written(stores: &Stores, change: MemberChange, write: Write) -> Result<MembersUpdated, StoreError> {
    stores.members.change_members(group_id(GROUP), change, service(), write).await.map(applied)
}

async fn listed(stores: &Stores, group: i64, now: Timestamp) -> Vec<i64> {
    let bans = stores.members.ban_list(group_id(group), None, 1_000, now).await.unwrap();
    bans.iter().map(|ban| ban.key.user.get()).collect()
}

async fn banned_from(stores: &Stores, user: i64) -> Vec<i64> {
    let groups = stores.members.banned_from(user_id(user), None, 100).await.unwrap();
    groups.into_iter().map(GroupId::get).collect()
}

pub async fn ban_keeps_out_until_unbanned(stores: Stores) {
    founded(&stores, 4).await;
    let before = roster(&stores, GROUP).await;
    let banned = try_change(&stores, ban([8, 3], None), by(2)).await.unwrap();
    assert_eq!(changed_rows(&banned), [(3, false, before.version.next())]);
    assert_eq!((list(&stores, GROUP).await, groups(&stores, 3).await), (vec![1, 2, 4], vec![]));
    for id in [3, 8] {
        let found = stores.members.ban(key(GROUP, id), Timestamp::now()).await.unwrap().unwrap();
        let expected = Ban { key: key(GROUP, id), by: Some(user_id(2)), since: found.since, until: None };
        assert_eq!((found, banned_from(&stores, id).await), (expected, vec![GROUP]));
        let join = try_change(&stores, MemberChange::Join(user_id(id)), by(id)).await;
        assert_refused(join, MemberRefusal::Banned);
        let add = try_change(&stores, MemberChange::Add(users([7, id])), service()).await;
        assert_refused(add, MemberRefusal::Banned);
    }
    assert_eq!(list(&stores, GROUP).await, [1, 2, 4]);
    let ended = try_change(&stores, unban([3, 8]), by(2)).await.unwrap();
    let lifted: Vec<_> = ended.bans.iter().map(|row| (row.ban.key.user.get(), row.live)).collect();
    assert_eq!((lifted, changed_rows(&ended)), (vec![(3, false), (8, false)], vec![]));
    assert_eq!(listed(&stores, GROUP, Timestamp::now()).await, Vec::<i64>::new());
    assert_eq!(stores.members.ban(key(GROUP, 3), Timestamp::now()).await.unwrap(), None);
    change(&stores, MemberChange::Add(users([3, 8]))).await;
    assert_eq!(list(&stores, GROUP).await, [1, 2, 3, 4, 8]);
}

pub async fn ban_ends_at_its_time(stores: Stores) {
    founded(&stores, 3).await;
    written(&stores, ban([3], Some(moment(60))), at(10)).await.unwrap();
    let join = || MemberChange::Join(user_id(3));
    assert_refused(written(&stores, join(), at(59)).await, MemberRefusal::Banned);
    assert_eq!(listed(&stores, GROUP, moment(59)).await, [3]);
    assert_eq!(listed(&stores, GROUP, moment(60)).await, Vec::<i64>::new());
    assert_eq!(stores.members.ban(key(GROUP, 3), moment(60)).await.unwrap(), None);
    written(&stores, join(), at(60)).await.unwrap();
    assert_refused(written(&stores, ban([8], Some(moment(70))), at(70)).await, MemberRefusal::BanIsOver);
}

pub async fn ban_again_sets_another_end(stores: Stores) {
    founded(&stores, 3).await;
    change(&stores, ban([3], Some(FAR))).await;
    let before = roster(&stores, GROUP).await;
    assert_eq!(change(&stores, ban([3], Some(FAR))).await.roster, before, "nothing to change");
    let again = try_change(&stores, ban([3], None), by(1)).await.unwrap();
    assert_eq!((again.roster.version, changed_rows(&again)), (before.version.next(), vec![]));
    let found = stores.members.ban(key(GROUP, 3), FAR).await.unwrap().unwrap();
    assert_eq!((found.until, found.by), (None, Some(user_id(1))));
}

pub async fn unban_of_others_changes_nothing(stores: Stores) {
    founded(&stores, 3).await;
    let before = roster(&stores, GROUP).await;
    let none = change(&stores, unban([3, 9])).await;
    assert_eq!((none.roster, none.bans), (before, vec![]));
    assert_refused(try_change(&stores, unban([9]), by(3)).await, MemberRefusal::RoleTooLow);
    assert_refused(try_change(&stores, ban([9], None), by(3)).await, MemberRefusal::RoleTooLow);
    assert_refused(try_change(&stores, ban([1], None), by(2)).await, MemberRefusal::RoleTooLow);
    assert_eq!(roster(&stores, GROUP).await, before);
}

pub async fn bans_are_listed_in_pages(stores: Stores) {
    founded(&stores, 2).await;
    let some = [40, 7, 1_000_000, 12, 39];
    change(&stores, ban(some, None)).await;
    change(&stores, unban([12])).await;
    let (mut read, mut after) = (Vec::new(), None);
    loop {
        let page = stores.members.ban_list(group_id(GROUP), after, 2, Timestamp::now()).await.unwrap();
        after = page.last().map(|ban| ban.key.user);
        read.extend(page.iter().map(|ban| ban.key.user.get()));
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(read, [7, 39, 40, 1_000_000]);
    assert_eq!(stores.members.ban_list(group_id(GROUP), None, 0, Timestamp::now()).await.unwrap(), []);
}

pub async fn bans_are_limited_without_those_that_ended(stores: Stores) {
    founded(&stores, 2).await;
    let write = |change, seconds| {
        let terms = ChangeContext { bans_max: 3, ..service() };
        stores.members.change_members(group_id(GROUP), change, terms, at(seconds))
    };
    write(ban([10], Some(moment(60))), 1).await.unwrap();
    write(ban([11, 12], None), 2).await.unwrap();
    assert_refused(write(ban([13], None), 3).await, MemberRefusal::TooManyBans(3));
    assert_eq!(listed(&stores, GROUP, moment(3)).await, [10, 11, 12]);
    write(ban([13], None), 60).await.unwrap();
    assert_refused(write(ban([10], None), 61).await, MemberRefusal::TooManyBans(3));
    write(unban([11]), 62).await.unwrap();
    write(ban([10], None), 63).await.unwrap();
    assert_eq!(listed(&stores, GROUP, moment(64)).await, [10, 12, 13]);
}

pub async fn bans_and_joins_at_once_exclude_each_other(stores: Stores) {
    founded(&stores, 2).await;
    let candidates = 100..140;
    let changes = candidates.clone().flat_map(|user| {
        let (join, out) = (MemberChange::Join(user_id(user)), ban([user], None));
        if user % 2 == 0 { [join, out] } else { [out, join] }
    });
    let calls = changes.map(|change| {
        let members = Arc::clone(&stores.members);
        async move { members.change_members(group_id(GROUP), change, service(), write()).await }
    });
    for result in at_once(calls.collect::<Vec<_>>()).await {
        if result.is_err() {
            assert_refused(result, MemberRefusal::Banned);
        }
    }
    assert_eq!(list(&stores, GROUP).await, [1, 2]);
    assert_eq!(listed(&stores, GROUP, Timestamp::now()).await, candidates.collect::<Vec<_>>());
    assert_eq!(roster(&stores, GROUP).await.count, 2);
}

pub async fn bans_of_groups_are_separate(stores: Stores) {
    founded(&stores, 2).await;
    change(&stores, ban([5], None)).await;
    for other in [8, 10] {
        super::member_sample::change_of(&stores, other, MemberChange::AddFounder(user_id(5))).await;
        super::member_sample::change_of(&stores, other, ban([7], None)).await;
    }
    assert_eq!((groups(&stores, 5).await, banned_from(&stores, 5).await), (vec![8, 10], vec![GROUP]));
    assert_eq!(banned_from(&stores, 7).await, [8, 10]);
    let after = stores.members.banned_from(user_id(7), Some(group_id(8)), 1).await.unwrap();
    assert_eq!(after, [group_id(10)]);
    super::member_sample::change_of(&stores, 8, unban([7])).await;
    assert_eq!(listed(&stores, 10, Timestamp::now()).await, [7]);
}

pub async fn ended_group_has_no_bans_or_mutes(stores: Stores) {
    founded(&stores, 4).await;
    change(&stores, MemberChange::Mute(user_id(3), Some(FAR))).await;
    change(&stores, MemberChange::Mute(user_id(4), Some(FAR))).await;
    change(&stores, MemberChange::Leave(user_id(3))).await;
    change(&stores, MemberChange::MuteAll(Some(FAR))).await;
    for first in [1_000, 2_000] {
        change(&stores, ban((first..).take(MEMBERS_AT_ONCE), None)).await;
    }
    let mut steps = 0;
    while stores.members.end_members(group_id(GROUP), 50, Timestamp::now()).await.unwrap() > 0 {
        steps += 1;
        assert!(steps < 12, "the group does not end");
    }
    assert_eq!(listed(&stores, GROUP, Timestamp::now()).await, Vec::<i64>::new());
    assert!(matches!(state(&stores, GROUP, 4).await, Stored::Deleted(_)));
    assert_eq!(roster(&stores, GROUP).await.muted_until, None);
    change(&stores, MemberChange::AddFounder(user_id(9))).await;
    change(&stores, MemberChange::Add(users([3, 4, 1_000]))).await;
    for user in [3, 4, 1_000] {
        assert_eq!(member(&stores, user).await.muted_until, None);
    }
}
