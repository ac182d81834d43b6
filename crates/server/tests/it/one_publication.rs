//! A write is one publication, whatever it changes: other nodes drop all changed records at once, and its
//! token covers them all.

use kith_proto::{
    group::v1::{group_service_client::GroupServiceClient, *},
    member::v1::{member_service_client::MemberServiceClient, *},
    relation::v1::{
        BlockRequest, FollowRequest, UnfollowRequest, relation_service_client::RelationServiceClient,
    },
    user::v1::{DeleteUserRequest, user_service_client::UserServiceClient},
};
use kith_server::{config::Config, edge::Edge, node::services::Services};
use prost_types::FieldMask;

use crate::bare_node;

/// A node without background work, whose publications are counted.
struct CountedNode {
    edge: Edge,
    services: Services,
    _file: kith_store_sqlite::SqliteHandle,
}

impl CountedNode {
    async fn start() -> Self {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let (edge, services) = bare_node::serve(&file.stores(), &Config::default()).await;
        Self { edge, services, _file: file }
    }

    /// Returns how many publications a call makes.
    async fn publications<T>(&self, call: impl Future<Output = Result<T, tonic::Status>>) -> u64 {
        let before = self.services.node.applied();
        call.await.unwrap();
        self.services.node.applied() - before
    }

    async fn users<const N: usize>(&self) -> [i64; N] {
        let mut ids = [0; N];
        for (at, id) in ids.iter_mut().enumerate() {
            *id = bare_node::user(&self.edge, 0, &format!("user{at}")).await;
        }
        ids
    }

    fn groups(&self) -> GroupServiceClient<Edge> {
        GroupServiceClient::new(self.edge.clone())
    }

    fn members(&self) -> MemberServiceClient<Edge> {
        MemberServiceClient::new(self.edge.clone())
    }

    fn relations(&self) -> RelationServiceClient<Edge> {
        RelationServiceClient::new(self.edge.clone())
    }
}

#[tokio::test]
async fn writes_of_relations_are_one_publication() {
    let node = CountedNode::start().await;
    let [user_id, target_id] = node.users().await;
    let follow = FollowRequest { user_id, target_id, ..Default::default() };
    assert_eq!(node.publications(node.relations().follow(follow.clone())).await, 1);
    let unfollow = UnfollowRequest { user_id, target_id, ..Default::default() };
    assert_eq!(node.publications(node.relations().unfollow(unfollow)).await, 1);
    node.relations().follow(follow).await.unwrap();
    let block = BlockRequest { user_id: target_id, target_id: user_id, ..Default::default() };
    assert_eq!(node.publications(node.relations().block(block)).await, 1, "with the follow that it ends");
}

#[tokio::test]
async fn writes_of_members_are_one_publication() {
    let node = CountedNode::start().await;
    let [owner, ann, bob] = node.users().await;
    let group = Group {
        name: "chess".into(),
        creator_id: owner,
        join_policy: JoinPolicy::Open.into(),
        ..Default::default()
    };
    let create = CreateGroupRequest { group: Some(group), ..Default::default() };
    let made = node.groups().create_group(create).await.unwrap().into_inner().group.unwrap();
    let group_id = made.group_id;

    let join = JoinRequest { group_id, user_id: ann, ..Default::default() };
    assert_eq!(node.publications(node.members().join(join)).await, 1);
    let add = AddMembersRequest { group_id, user_ids: vec![bob], ..Default::default() };
    assert_eq!(node.publications(node.members().add_members(add)).await, 1);
    let role = SetRoleRequest { group_id, user_id: ann, role: Role::Admin.into(), ..Default::default() };
    assert_eq!(node.publications(node.members().set_role(role)).await, 1);
    let transfer = TransferGroupRequest { group_id, owner_id: ann, ..Default::default() };
    assert_eq!(node.publications(node.groups().transfer_group(transfer)).await, 1);
    let leave = LeaveRequest { group_id, user_id: bob, ..Default::default() };
    assert_eq!(node.publications(node.members().leave(leave)).await, 1);
    let remove = RemoveMembersRequest { group_id, user_ids: vec![owner], ..Default::default() };
    assert_eq!(node.publications(node.members().remove_members(remove)).await, 1);
}

#[tokio::test]
async fn other_writes_are_one_publication() {
    let node = CountedNode::start().await;
    let [owner] = node.users().await;
    let group = Group { name: "chess".into(), creator_id: owner, ..Default::default() };
    let create = CreateGroupRequest { group: Some(group), ..Default::default() };
    let made = node.groups().create_group(create).await.unwrap().into_inner().group.unwrap();
    let renamed = Group { group_id: made.group_id, name: "go".into(), ..Default::default() };
    let update = UpdateGroupRequest {
        group: Some(renamed),
        update_mask: Some(FieldMask { paths: vec!["name".into()] }),
        ..Default::default()
    };
    assert_eq!(node.publications(node.groups().update_group(update)).await, 1, "with its searches");
    let delete = DeleteUserRequest { user_id: owner, ..Default::default() };
    let mut users = UserServiceClient::new(node.edge.clone());
    assert_eq!(node.publications(users.delete_user(delete)).await, 1, "with its access");
}
