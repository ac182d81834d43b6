//! An acceptance checks its preconditions, also where no node could close the application: each of these
//! changes is made in the store alone, as if the node had crashed after it.

use crate::application_calls::*;
use crate::bare_node::{change_members, in_store, new_group};
use crate::group_calls::{is_in, make_admin, public_group};
use crate::node::TestNode;
use crate::relation_calls;
use kith_proto::{
    application::v1::{State, list_applications_request::List},
    group::v1 as groups,
};
use kith_store::{
    Gender, GroupId, JoinPolicy, MemberChange, NewUser, Params, Role, SecretChange, Stores, Text, Timestamp,
    UserId, UserName, Write,
};
use tempfile::TempDir;

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

fn group_id(id: i64) -> GroupId {
    GroupId::new(id).unwrap()
}

fn now() -> Write {
    Write::at(Timestamp::now())
}

/// A node with ann, who owns a group, bob, who is its admin, cid and dan, who are not in it.
struct Scene {
    /// The folder of the earlier node, if there was one.
    _folder: Option<TempDir>,
    node: TestNode,
    users: [i64; 4],
    chess: i64,
}

impl Scene {
    async fn new() -> Self {
        let node = TestNode::start().await;
        let users: [i64; 4] = relation_calls::users(&node).await;
        let chess = public_group(&node, users[0], groups::JoinPolicy::Approval).await;
        make_admin(&node, chess, users[1]).await;
        Self { _folder: None, node, users, chess }
    }

    /// Stops the node, makes changes in its store, and starts it again.
    async fn changed(self, change: impl AsyncFnOnce(&Stores)) -> Self {
        let folder = self.node.stop().await;
        in_store(&folder, change).await;
        let node = TestNode::start_over(&folder).await;
        Self { node, _folder: Some(folder), ..self }
    }
}

async fn change(stores: &Stores, group: i64, change: MemberChange) {
    change_members(stores, group_id(group), change, Timestamp::now()).await;
}

/// Deletes a user, and creates another one under its id.
pub(crate) async fn replace(stores: &Stores, id: i64) {
    let deletion = now();
    stores.users.delete_user(user(id), deletion.now, deletion.clone()).await.unwrap();
    stores.users.release_id(user(id), deletion.now).await.unwrap();
    let new = NewUser {
        id: user(id),
        user_name: UserName::new("another").unwrap(),
        nick_name: Text::default(),
        email: None,
        phone: None,
        gender: Gender::Unspecified,
        age: 0,
        region: Text::default(),
        icon: Text::default(),
        params: Params::default(),
        secrets: SecretChange::new(),
    };
    stores.users.create_user(new, now()).await.unwrap();
}

/// Dismisses a group, and creates another one under its id.
async fn replace_group(stores: &Stores, id: i64, owner: i64) {
    stores.groups.dismiss_group(group_id(id), now()).await.unwrap();
    stores.members.end_members(group_id(id), 100, Timestamp::now()).await.unwrap();
    let new = new_group(group_id(id), JoinPolicy::Approval, Some(user(owner)));
    stores.groups.create_group(new, now()).await.unwrap();
    change(stores, id, MemberChange::AddFounder(user(owner))).await;
}

#[tokio::test]
async fn request_of_an_earlier_account_is_not_accepted() {
    let scene = Scene::new().await;
    let [ann, _, cid, dan] = scene.users;
    let chess = scene.chess;
    let join = apply(&scene.node, cid, to_join(chess, "")).await.unwrap().application_id;
    let friend = befriend(&scene.node, cid, dan).await.application_id;
    let scene = scene.changed(async |stores| replace(stores, cid).await).await;
    assert_closed(accept(&scene.node, ann, of_group(chess), join).await);
    assert_closed(accept(&scene.node, dan, of_user(dan), friend).await);
    assert!(!is_in(&scene.node, chess, cid).await && !are_friends(&scene.node, cid, dan).await);
    let counts = (pending(&scene.node, of_group(chess)).await, pending(&scene.node, of_user(dan)).await);
    assert_eq!(counts, ((0, 0), (0, 0)));
}

#[tokio::test]
async fn request_to_an_earlier_account_is_not_accepted() {
    let scene = Scene::new().await;
    let [ann, _, cid, dan] = scene.users;
    let friend = befriend(&scene.node, dan, cid).await.application_id;
    let invite = apply(&scene.node, ann, to_invite(scene.chess, cid)).await.unwrap().application_id;
    let scene = scene.changed(async |stores| replace(stores, cid).await).await;
    assert_closed(accept(&scene.node, cid, of_user(cid), friend).await);
    assert_closed(accept(&scene.node, cid, of_user(cid), invite).await);
    assert!(!is_in(&scene.node, scene.chess, cid).await && !are_friends(&scene.node, cid, dan).await);
}

#[tokio::test]
async fn invite_of_a_former_admin_is_not_accepted() {
    for leaves in [false, true] {
        let scene = Scene::new().await;
        let ([_, bob, cid, _], chess) = (scene.users, scene.chess);
        let id = apply(&scene.node, bob, to_invite(chess, cid)).await.unwrap().application_id;
        let ends = if leaves {
            MemberChange::Leave(user(bob))
        } else {
            MemberChange::SetRole(user(bob), Role::Member)
        };
        let scene = scene.changed(async |stores| change(stores, chess, ends).await).await;
        assert_closed(accept(&scene.node, cid, of_user(cid), id).await);
        assert!(!is_in(&scene.node, chess, cid).await);
    }
}

#[tokio::test]
async fn invite_from_before_a_removal_is_not_accepted() {
    let scene = Scene::new().await;
    let ([ann, _, cid, dan], chess) = (scene.users, scene.chess);
    let invite = apply(&scene.node, ann, to_invite(chess, cid)).await.unwrap().application_id;
    let join = apply(&scene.node, dan, to_join(chess, "")).await.unwrap().application_id;
    let scene = scene
        .changed(async |stores| {
            let both = vec![user(cid), user(dan)];
            change(stores, chess, MemberChange::Add(both.clone())).await;
            change(stores, chess, MemberChange::Remove(both)).await;
        })
        .await;
    assert_closed(accept(&scene.node, cid, of_user(cid), invite).await);
    assert_closed(accept(&scene.node, ann, of_group(chess), join).await);
    assert!(!is_in(&scene.node, chess, cid).await && !is_in(&scene.node, chess, dan).await);
}

#[tokio::test]
async fn invite_into_an_earlier_group_is_not_accepted() {
    let scene = Scene::new().await;
    let ([ann, _, cid, dan], chess) = (scene.users, scene.chess);
    let invite = apply(&scene.node, ann, to_invite(chess, cid)).await.unwrap().application_id;
    let join = apply(&scene.node, cid, to_join(chess, "")).await.unwrap().application_id;
    let scene = scene.changed(async |stores| replace_group(stores, chess, dan).await).await;
    assert_eq!(shown(&scene.node, dan, List::GroupId(chess)).await, []);
    assert_closed(accept(&scene.node, cid, of_user(cid), invite).await);
    assert_closed(accept(&scene.node, dan, of_group(chess), join).await);
    assert!(!is_in(&scene.node, chess, cid).await);
}

#[tokio::test]
async fn list_closes_what_cannot_be_accepted() {
    let scene = Scene::new().await;
    let ([ann, bob, cid, dan], chess) = (scene.users, scene.chess);
    let join = apply(&scene.node, cid, to_join(chess, "")).await.unwrap().application_id;
    let invite = apply(&scene.node, bob, to_invite(chess, dan)).await.unwrap().application_id;
    let scene = scene
        .changed(async |stores| {
            change(stores, chess, MemberChange::Add(vec![user(cid)])).await;
            change(stores, chess, MemberChange::SetRole(user(bob), Role::Member)).await;
        })
        .await;
    let node = &scene.node;
    assert_eq!(shown(node, ann, List::ReceivedBy(ann)).await, [(join, State::Closed)]);
    assert_eq!(shown(node, dan, List::ReceivedBy(dan)).await, [(invite, State::Closed)]);
    assert_eq!((pending(node, of_group(chess)).await, pending(node, of_user(dan)).await), ((0, 0), (0, 0)));
}
