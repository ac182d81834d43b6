//! Group store cases: one record at a time, and many.

use std::collections::BTreeSet;

use super::sample::{
    applied, bare_group, create_group, expecting, full_group, group_id, group_state, live_group, params,
    params_of, setting, tags, user_id, version, write,
};
use crate::{
    BATCH_MAX, Group, GroupId, GroupPatch, GroupType, JoinPolicy, NewGroup, PARAMS_BYTES_MAX, Params,
    ParamsPatch, ReceiptVisibility, StoreError, Stored, Stores, Text, Timestamp, Version, Visibility, Write,
};

pub async fn a_group_that_was_never_stored_is_never(stores: Stores) {
    assert_eq!(group_state(&stores, 1).await, Stored::Never);
}

pub async fn every_field_reads_back_as_it_was_created(stores: Stores) {
    let created = create_group(&stores, full_group(5)).await;
    assert_eq!(live_group(&stores, 5).await, created);
    assert_eq!(created, as_created(&full_group(5), created.created));
}

pub async fn a_group_with_a_name_alone_reads_back_bare(stores: Stores) {
    let created = create_group(&stores, bare_group(5, "g")).await;
    assert_eq!(live_group(&stores, 5).await, created);
    assert_eq!(created, as_created(&bare_group(5, "g"), created.created));
}

/// The record that the creation at `now` must leave.
fn as_created(new: &NewGroup, now: Timestamp) -> Group {
    Group {
        id: new.id,
        version: Version::FIRST,
        name: new.name.clone(),
        icon: new.icon.clone(),
        tags: new.tags.clone(),
        kind: new.kind,
        visibility: new.visibility,
        join_policy: new.join_policy,
        history_for_new_members: new.history_for_new_members,
        receipts: new.receipts,
        params: new.params.clone(),
        creator: new.creator,
        created: now,
        updated: now,
    }
}

pub async fn every_kind_visibility_and_policy_reads_back(stores: Stores) {
    let mut id = 0;
    for kind in [GroupType::Chat, GroupType::Channel] {
        for visibility in [Visibility::Public, Visibility::Private] {
            for join_policy in [JoinPolicy::Open, JoinPolicy::Approval, JoinPolicy::Code, JoinPolicy::Invite]
            {
                id += 1;
                let group = NewGroup { kind, visibility, join_policy, ..bare_group(id, "g") };
                let created = create_group(&stores, group.clone()).await;
                assert_eq!(created, as_created(&group, created.created));
                assert_eq!(live_group(&stores, id).await, created);
            }
        }
    }
}

pub async fn times_are_those_of_the_writes(stores: Stores) {
    let made = write();
    let changed = Write { now: Timestamp(made.now.0 + 12_345), ..expecting(1) };
    stores.groups.create_group(bare_group(1, "g"), made.clone()).await.unwrap();
    let created = live_group(&stores, 1).await;
    assert_eq!((created.created, created.updated), (made.now, made.now));
    stores.groups.update_group(group_id(1), GroupPatch::default(), changed.clone()).await.unwrap();
    let updated = live_group(&stores, 1).await;
    assert_eq!((updated.created, updated.updated), (made.now, changed.now));
}

pub async fn existing_id_is_taken(stores: Stores) {
    let before = create_group(&stores, full_group(1)).await;
    let error = stores.groups.create_group(bare_group(1, "other"), write()).await.unwrap_err();
    assert!(matches!(error, StoreError::IdTaken), "{error:?}");
    assert_eq!(live_group(&stores, 1).await, before);
}

pub async fn names_need_not_be_unique(stores: Stores) {
    for id in 1..4 {
        assert_eq!(create_group(&stores, bare_group(id, "same")).await.name, "same");
    }
}

pub async fn users_and_groups_of_one_id_are_apart(stores: Stores) {
    let group = create_group(&stores, full_group(1)).await;
    let user = super::sample::create_user(&stores, super::sample::full_user(1)).await;
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!((user.version, live_group(&stores, 1).await), (version(1), group));
}

pub async fn versions_count_from_one(stores: Stores) {
    assert_eq!(create_group(&stores, bare_group(1, "g")).await.version, version(1));
    for number in 2..5 {
        let patch = GroupPatch { name: Some(format!("g{number}").into()), ..GroupPatch::default() };
        let updated = applied(stores.groups.update_group(group_id(1), patch, write()).await.unwrap());
        assert_eq!(updated.version, version(number));
        assert_eq!(live_group(&stores, 1).await, updated);
    }
}

pub async fn stale_group_update_conflicts(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    let patch = || GroupPatch { name: Some("other".into()), ..GroupPatch::default() };
    stores.groups.update_group(group_id(1), GroupPatch::default(), expecting(1)).await.unwrap();
    let before = live_group(&stores, 1).await;
    for stale in [1, 3, 0] {
        let error = stores.groups.update_group(group_id(1), patch(), expecting(stale)).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict { current } if current == version(2)), "{error:?}");
    }
    assert_eq!(live_group(&stores, 1).await, before);
}

pub async fn update_of_missing_group_is_not_found(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    for id in [1, 2] {
        for write in [write(), expecting(1), expecting(2)] {
            let error =
                stores.groups.update_group(group_id(id), GroupPatch::default(), write).await.unwrap_err();
            assert!(matches!(error, StoreError::NotFound), "{error:?}");
        }
    }
    assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2)));
    assert_eq!(group_state(&stores, 2).await, Stored::Never);
}

/// Changes a record, as a patch does.
type Change = fn(&mut Group);

/// Makes one patch for each field, with a value that [`full_group`] does not have.
fn single_field_patches() -> Vec<(GroupPatch, Change)> {
    let none = GroupPatch::default;
    vec![
        (GroupPatch { name: Some("new".into()), ..none() }, |group| group.name = "new".into()),
        (GroupPatch { icon: Some("東.png".into()), ..none() }, |group| group.icon = "東.png".into()),
        (GroupPatch { icon: Some(Text::default()), ..none() }, |group| group.icon = Text::default()),
        (GroupPatch { tags: Some(tags(&["z", "a"])), ..none() }, |group| group.tags = tags(&["z", "a"])),
        (GroupPatch { kind: Some(GroupType::Chat), ..none() }, |group| group.kind = GroupType::Chat),
        (GroupPatch { visibility: Some(Visibility::Private), ..none() }, |group| {
            group.visibility = Visibility::Private;
        }),
        (GroupPatch { join_policy: Some(JoinPolicy::Approval), ..none() }, |group| {
            group.join_policy = JoinPolicy::Approval;
        }),
        (GroupPatch { receipts: Some(Some(ReceiptVisibility::Off)), ..none() }, |group| {
            group.receipts = Some(ReceiptVisibility::Off);
        }),
        (GroupPatch { receipts: Some(None), ..none() }, |group| group.receipts = None),
        (GroupPatch { history_for_new_members: Some(false), ..none() }, |group| {
            group.history_for_new_members = false;
        }),
        (GroupPatch { params: setting(&[("color", "blue")]), ..none() }, |group| {
            group.params = params(&[("color", "blue"), ("level", "3")]);
        }),
        (none(), |_| ()),
    ]
}

pub async fn each_field_of_a_patch_leaves_the_others(stores: Stores) {
    let mut expected = create_group(&stores, full_group(1)).await;
    for (patch, change) in single_field_patches() {
        let updated = applied(stores.groups.update_group(group_id(1), patch, write()).await.unwrap());
        change(&mut expected);
        expected.version = expected.version.next();
        expected.updated = updated.updated;
        assert_eq!(updated, expected);
        assert_eq!(live_group(&stores, 1).await, expected);
    }
}

pub async fn tags_can_be_removed_and_keep_their_order(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    for words in [tags(&["z", "a", "M", "é"]), Vec::new(), tags(&["a", "z"])] {
        let patch = GroupPatch { tags: Some(words.clone()), ..GroupPatch::default() };
        stores.groups.update_group(group_id(1), patch, write()).await.unwrap();
        assert_eq!(live_group(&stores, 1).await.tags, words);
    }
}

pub async fn the_creator_never_changes(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    for (patch, _) in single_field_patches() {
        stores.groups.update_group(group_id(1), patch, write()).await.unwrap();
        assert_eq!(live_group(&stores, 1).await.creator, Some(user_id(77)));
    }
}

pub async fn parameters_are_set_unset_and_replaced(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    let change = async |params| {
        let patch = GroupPatch { params, ..GroupPatch::default() };
        stores.groups.update_group(group_id(1), patch, write()).await.unwrap();
        live_group(&stores, 1).await.params
    };
    let unset = BTreeSet::from(["level".to_owned(), "absent".to_owned()]);
    let after = change(ParamsPatch { unset, ..setting(&[("lang", "cs")]) }).await;
    assert_eq!(after, params(&[("color", "red"), ("lang", "cs")]));
    let after = change(ParamsPatch { replace: true, ..setting(&[("only", "\"$set\"")]) }).await;
    assert_eq!(after, params(&[("only", "\"$set\"")]));
    assert_eq!(change(ParamsPatch { replace: true, ..ParamsPatch::default() }).await, Params::default());
}

pub async fn group_params_above_byte_limit_are_refused(stores: Stores) {
    let group = NewGroup { params: params_of(PARAMS_BYTES_MAX - 10), ..bare_group(1, "g") };
    let before = create_group(&stores, group).await;
    let params = setting(&[("longer", "12345")]);
    let patch = GroupPatch { params, name: Some("other".into()), ..GroupPatch::default() };
    let error = stores.groups.update_group(group_id(1), patch, write()).await.unwrap_err();
    assert!(matches!(error, StoreError::ParamsTooLarge), "{error:?}");
    assert_eq!(live_group(&stores, 1).await, before);
}

pub async fn dismissed_group_leaves_versioned_stub(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    assert_eq!(applied(stores.groups.dismiss_group(group_id(1), expecting(1)).await.unwrap()), version(2));
    assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn stale_dismissal_conflicts(stores: Stores) {
    let before = create_group(&stores, full_group(1)).await;
    let error = stores.groups.dismiss_group(group_id(1), expecting(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { current } if current == version(1)), "{error:?}");
    assert_eq!(live_group(&stores, 1).await, before);
}

pub async fn dismissal_of_missing_group_is_not_found(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    for id in [1, 2] {
        let error = stores.groups.dismiss_group(group_id(id), write()).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn recreated_group_continues_the_version(stores: Stores) {
    for round in 0..3 {
        assert_eq!(create_group(&stores, full_group(1)).await.version, version(2 * round + 1));
        stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
        assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2 * round + 2)));
    }
}

pub async fn recreated_group_has_no_old_data(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    let again = Write { now: Timestamp(write().now.0 + 777), ..write() };
    let created = applied(stores.groups.create_group(bare_group(1, "g"), again.clone()).await.unwrap());
    let expected = Group { version: version(3), ..as_created(&bare_group(1, "g"), again.now) };
    assert_eq!(created, expected);
    assert_eq!(live_group(&stores, 1).await, expected);
}

pub async fn batch_returns_live_and_dismissed_groups_once(stores: Stores) {
    let first = create_group(&stores, full_group(1)).await;
    let third = create_group(&stores, bare_group(3, "g")).await;
    create_group(&stores, bare_group(2, "g")).await;
    stores.groups.dismiss_group(group_id(2), write()).await.unwrap();
    create_group(&stores, bare_group(5, "not asked for")).await;
    let mut read = stores.groups.groups(&[3, 1, 2, 4, 1, 3, 2, 4].map(group_id)).await.unwrap();
    read.sort_by_key(|(id, _)| *id);
    let expected = [
        (first.id, Stored::Live(first.into())),
        (group_id(2), Stored::Deleted(version(2))),
        (third.id, Stored::Live(third.into())),
    ];
    assert_eq!(read, expected);
    assert_eq!(stores.groups.groups(&[]).await.unwrap(), []);
}

pub async fn group_batch_is_refused_above_limit(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    create_group(&stores, bare_group(500, "g")).await;
    let ids: Vec<GroupId> = (1..).map(group_id).take(BATCH_MAX + 1).collect();
    let read = stores.groups.groups(&ids[..BATCH_MAX]).await.unwrap();
    assert_eq!(read.iter().map(|(id, _)| id.get()).collect::<BTreeSet<_>>(), BTreeSet::from([1, 500]));
    let error = stores.groups.groups(&ids).await.unwrap_err();
    assert!(matches!(error, StoreError::Overloaded), "{error:?}");
}

pub async fn scan_pages_live_groups_by_id(stores: Stores) {
    for id in [9, 2, 30, 4, i64::MAX] {
        let group = NewGroup { visibility: Visibility::Private, ..bare_group(id, "g") };
        create_group(&stores, group).await;
    }
    stores.groups.dismiss_group(group_id(9), write()).await.unwrap();
    let page = async |after: Option<i64>, limit| {
        let groups = stores.groups.scan_groups(after.map(group_id), limit).await.unwrap();
        groups.iter().map(|group| group.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 10).await, [2, 4, 30, i64::MAX]);
    assert_eq!(page(None, 2).await, [2, 4]);
    assert_eq!(page(Some(4), 2).await, [30, i64::MAX]);
    assert_eq!(page(Some(5), 1).await, [30]);
    assert_eq!(page(Some(i64::MAX), 2).await, [0_i64; 0]);
}
