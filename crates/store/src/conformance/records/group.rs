//! Group store cases: a group's fields.

use super::sample::{
    applied, bare_group, create_group, full_group, group_id, live_group, params, setting, tags, user_id,
    version, write,
};
use crate::{
    Group, GroupPatch, GroupType, JoinPolicy, NewGroup, ReceiptVisibility, Stores, Text, Timestamp, Version,
    Visibility, Write,
};

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

pub async fn recreated_group_has_no_old_data(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    let again = Write { now: Timestamp(write().now.0 + 777), ..write() };
    let created = applied(stores.groups.create_group(bare_group(1, "g"), again.clone()).await.unwrap());
    let expected = Group { version: version(3), ..as_created(&bare_group(1, "g"), again.now) };
    assert_eq!(created, expected);
    assert_eq!(live_group(&stores, 1).await, expected);
}
