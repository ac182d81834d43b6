//! Member store cases: members and bans that are imported as they were elsewhere.

use super::{
    member_sample::{
        GROUP, assert_refused, by, change, founded, groups, key, list, member, roster, service, try_change,
        users,
    },
    relation_sample::moment,
    sample::{group_id, user_id},
};
use crate::{
    Ban, ChangeContext, Member, MemberChange, MemberRefusal, MemberRow, Role, StayHistory, Stores, Text,
    Timestamp, UserId, Version,
};

fn row(user: i64, role: Role, live: bool) -> MemberRow {
    let member = Member {
        key: key(GROUP, user),
        version: Version::NONE,
        role,
        ordinal: 0,
        remark: Text::from("Bo"),
        muted_until: Some(moment(9)),
        joined: moment(3),
        from_seq: 4,
        joined_seq: 4,
    };
    let left_seq = if live { 0 } else { 8 };
    MemberRow { member, live, stays: StayHistory { left_seq, first_seq: 1, earlier: vec![(1, 2)] } }
}

async fn stored(stores: &Stores, user: i64) -> Option<MemberRow> {
    stores.members.stored_members(&[key(GROUP, user)]).await.unwrap().pop().unwrap()
}

pub async fn imported_members_are_as_they_were(stores: Stores) {
    founded(&stores, 1).await;
    let sent = [row(1, Role::Admin, true), row(5, Role::Member, false), row(3, Role::Owner, true)];
    let imported = change(&stores, MemberChange::Import(sent.to_vec())).await;
    assert_eq!(imported.rows.len(), 3);
    for row in &sent {
        let found = stored(&stores, row.member.key.user.get()).await.unwrap();
        assert!(found.is_imported(row), "{found:?}");
    }
    let found = roster(&stores, GROUP).await;
    assert_eq!((found.count, found.ordinals, found.owner), (2, 3, Some(user_id(3))));
    assert_eq!(list(&stores, GROUP).await, [1, 3]);
    assert_eq!(groups(&stores, 3).await, [GROUP]);
    assert_eq!(groups(&stores, 5).await, [0_i64; 0]);
    assert_eq!(member(&stores, 3).await.ordinal, 2, "in the order of the records");
}

pub async fn import_changes_no_stored_member(stores: Stores) {
    founded(&stores, 3).await;
    let before = roster(&stores, GROUP).await;
    let sent = [1, 2, 3].map(|user| row(user, Role::Member, true));
    let imported = change(&stores, MemberChange::Import(sent[1..].to_vec())).await;
    assert!(imported.rows.is_empty());
    let owner = change(&stores, MemberChange::Import(vec![row(7, Role::Owner, true)])).await;
    assert!(owner.rows.is_empty(), "the group has an owner");
    assert_eq!(roster(&stores, GROUP).await, before);
    let full = ChangeContext { members_max: 3, ..service() };
    let one = MemberChange::Import(vec![row(8, Role::Member, true)]);
    assert_refused(try_change(&stores, one.clone(), full).await, MemberRefusal::Full);
    assert_refused(try_change(&stores, one, by(1)).await, MemberRefusal::RoleTooLow);
}

pub async fn imported_bans_keep_their_times(stores: Stores) {
    founded(&stores, 2).await;
    let of = |user: i64, by: Option<UserId>| Ban { key: key(GROUP, user), by, since: moment(1), until: None };
    let sent = vec![of(2, None), of(5, Some(user_id(1))), of(6, None)];
    change(&stores, MemberChange::ImportBans(sent.clone())).await;
    let listed = stores.members.ban_list(group_id(GROUP), None, 10, Timestamp::now()).await.unwrap();
    assert_eq!(listed, sent[1..], "a member is not banned");
    let version = roster(&stores, GROUP).await.version;
    change(&stores, MemberChange::ImportBans(sent)).await;
    assert_eq!(roster(&stores, GROUP).await.version, version);
    assert_refused(
        try_change(&stores, MemberChange::Join(users([5])[0]), service()).await,
        MemberRefusal::Banned,
    );
}
