//! A cluster runs without `store.cql.contact_points`.

use std::time::Duration;

use kith_proto::{
    application::v1::{ApplyRequest, Kind, application_service_client::ApplicationServiceClient},
    group::v1::{CreateGroupRequest, DismissGroupRequest, Group, Visibility},
    member::v1::{JoinRequest, ListMembersRequest},
    relation::v1::{FollowRequest, ListFansRequest, relation_service_client::RelationServiceClient},
    user::v1::{CreateUserRequest, DeleteUserRequest, User},
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    cluster::site::{Peer, Site},
    polls::until,
};

async fn group(node: &Peer, group_id: i64, creator_id: i64) -> Result<i64, Status> {
    let visibility = Visibility::Public.into();
    let group = Group { group_id, creator_id, name: "chess".to_owned(), visibility, ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..Default::default() };
    let made = node.groups().create_group(request).await?.into_inner();
    Ok(made.group.unwrap().group_id)
}

/// Makes a read and a write in each service that needs the store.
async fn refused(node: &Peer, user_id: i64, target_id: i64, group_id: i64) -> Vec<Status> {
    let mut relations = RelationServiceClient::new(node.channel());
    let mut members = node.members();
    let apply = ApplyRequest {
        kind: Kind::Friend.into(),
        applicant_id: user_id,
        user_id: target_id,
        ..Default::default()
    };
    vec![
        relations.follow(FollowRequest { user_id, target_id, ..Default::default() }).await.unwrap_err(),
        relations.list_fans(ListFansRequest { user_id, ..Default::default() }).await.unwrap_err(),
        members.join(JoinRequest { group_id, user_id, ..Default::default() }).await.unwrap_err(),
        members.list_members(ListMembersRequest { group_id, ..Default::default() }).await.unwrap_err(),
        ApplicationServiceClient::new(node.channel()).apply(apply).await.unwrap_err(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn unconfigured_store_is_no_passing_failure() {
    let node = Site::new(None).node().await;
    let (ann, bob) = (node.create("ann").await.user_id, node.create("bob").await.user_id);
    let chess = group(&node, 0, ann).await.unwrap();
    for status in refused(&node, ann, bob, chess).await {
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(
            (status.code(), info.reason.as_str()),
            (Code::FailedPrecondition, "NOT_CONFIGURED"),
            "{status:?}"
        );
        assert_eq!(info.metadata["setting"], "store.cql.contact_points");
        assert!(status.message().contains("store.cql.contact_points"), "{status:?}");
        assert!(details.retry_info().is_none(), "{status:?}");
    }
    until(Duration::from_secs(5), async || {
        node.node.remarks().iter().any(|remark| remark.reason == "relations_unconfigured")
    })
    .await;
    let ready = node.operations("/readyz").await;
    assert!(ready.contains(" 200 ") && ready.contains("store.cql.contact_points is not set"), "{ready}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn what_needs_no_relations_works_without() {
    let node = Site::new(None).node().await;
    let ann = node.create("ann").await.user_id;
    let chess = group(&node, 0, ann).await.unwrap();
    let dismiss = DismissGroupRequest { group_id: chess, ..Default::default() };
    node.groups().dismiss_group(dismiss).await.unwrap();
    assert_eq!(group(&node, chess, 0).await.unwrap(), chess, "no members of the first one have to end");
    let delete = DeleteUserRequest { user_id: ann, ..Default::default() };
    node.users().delete_user(delete).await.unwrap();
    until(Duration::from_secs(20), async || {
        let user = Some(User { user_id: ann, user_name: "ann2".to_owned(), ..User::default() });
        let created = node.users().create_user(CreateUserRequest { user, ..Default::default() }).await;
        created.is_ok_and(|made| made.into_inner().user.unwrap().user_id == ann)
    })
    .await;
    node.stop().await;
}
