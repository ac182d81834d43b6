//! The position from which new group members may read.

use crate::bare_node::in_store;
use crate::group_calls::{add, chess, join, make};
use crate::node::{TestNode, principal, update_of_group};
use crate::relation_calls::node_with_users;
use kith_proto::group::v1::*;
use kith_store::{GroupId, MemberKey, UserId};

async fn set_history(node: &TestNode, owner: i64, group_id: i64, history_for_new_members: bool) {
    let group = Group { group_id, history_for_new_members, ..Default::default() };
    let request = update_of_group(group, &["history_for_new_members"]);
    node.groups().update_group(principal(owner, request)).await.unwrap();
    let request = GetGroupRequest { group_id, consistency: None };
    let read = node.groups().get_group(request).await.unwrap().into_inner().group.unwrap();
    assert_eq!(read.history_for_new_members, history_for_new_members);
}

fn key(group: i64, user: i64) -> MemberKey {
    MemberKey { group: GroupId::new(group).unwrap(), user: UserId::new(user).unwrap() }
}

#[tokio::test]
async fn history_setting_at_join_decides_the_range() {
    let (node, [owner, ann, bob, cid, dora]) = node_with_users(|config| config.messages.events = false).await;
    let made = async |history_for_new_members| {
        let group = chess(Visibility::Public, JoinPolicy::Open);
        make(&node, owner, Group { history_for_new_members, ..group }).await
    };
    let [shown, hidden] = [made(true).await, made(false).await];
    join(&node, shown, ann).await.unwrap();
    add(&node, shown, &[bob]).await;
    join(&node, hidden, ann).await.unwrap();
    set_history(&node, owner, shown, false).await;
    set_history(&node, owner, hidden, true).await;
    join(&node, shown, cid).await.unwrap();
    add(&node, hidden, &[dora]).await;

    let folder = node.stop().await;
    // 0 means the first message; the logs are empty, so all other ranges begin with message 1.
    let expected = [
        (key(shown, owner), 0),
        (key(shown, ann), 0),
        (key(shown, bob), 0),
        (key(shown, cid), 1),
        (key(hidden, owner), 1),
        (key(hidden, ann), 1),
        (key(hidden, dora), 0),
    ];
    in_store(&folder, async |stores| {
        for (key, from_seq) in expected {
            let found = stores.members.members(&[key]).await.unwrap();
            let member = found[0].1.clone().live().unwrap();
            assert_eq!((member.from_seq, member.joined_seq), (from_seq, 1), "{key:?}");
        }
    })
    .await;
}
