//! Application calls that tests share.

use kith_proto::application::v1::{list_applications_request::List, receiver::Receiver as Of, *};
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::{
    node::{Called, TestNode, assert_forbidden, principal},
    relation_calls::relation,
};

pub const fn of_user(user: i64) -> Option<Receiver> {
    Some(Receiver { receiver: Some(Of::UserId(user)) })
}

pub const fn of_group(group: i64) -> Option<Receiver> {
    Some(Receiver { receiver: Some(Of::GroupId(group)) })
}

pub async fn apply(node: &TestNode, by: i64, request: ApplyRequest) -> Result<Application, Status> {
    Ok(node.applications().apply(principal(by, request)).await?.into_inner().application.unwrap())
}

pub fn to_be_friends(user_id: i64) -> ApplyRequest {
    ApplyRequest { kind: Kind::Friend.into(), user_id, message: "Hello".into(), ..Default::default() }
}

pub async fn befriend(node: &TestNode, by: i64, user: i64) -> Application {
    apply(node, by, to_be_friends(user)).await.unwrap()
}

pub fn to_join(group_id: i64, code: &str) -> ApplyRequest {
    ApplyRequest { kind: Kind::Join.into(), group_id, code: code.into(), ..Default::default() }
}

pub fn to_invite(group_id: i64, user_id: i64) -> ApplyRequest {
    ApplyRequest { kind: Kind::Invite.into(), group_id, user_id, ..Default::default() }
}

pub fn decision(receiver: Option<Receiver>, application_id: i64, decision: Decision) -> DecideRequest {
    DecideRequest { receiver, application_id, decision: decision.into(), ..Default::default() }
}

pub async fn decide(node: &TestNode, by: i64, request: DecideRequest) -> Result<Application, Status> {
    Ok(node.applications().decide(principal(by, request)).await?.into_inner().application.unwrap())
}

pub async fn accept(node: &TestNode, by: i64, receiver: Option<Receiver>, id: i64) -> Called<Application> {
    decide(node, by, decision(receiver, id, Decision::Accept)).await
}

pub async fn refuse(node: &TestNode, by: i64, receiver: Option<Receiver>, id: i64) -> Called<Application> {
    decide(node, by, decision(receiver, id, Decision::Refuse)).await
}

pub async fn withdraw(
    node: &TestNode,
    by: i64,
    receiver: Option<Receiver>,
    application_id: i64,
) -> Result<Application, Status> {
    let request = WithdrawRequest { receiver, application_id, ..Default::default() };
    Ok(node.applications().withdraw(principal(by, request)).await?.into_inner().application.unwrap())
}

pub async fn get(
    node: &TestNode,
    by: i64,
    receiver: Option<Receiver>,
    application_id: i64,
) -> Result<Application, Status> {
    let request = GetApplicationRequest { receiver, application_id };
    Ok(node.applications().get_application(principal(by, request)).await?.into_inner().application.unwrap())
}

/// Counts the requests and invites that are pending with this receiver.
pub async fn pending(node: &TestNode, receiver: Option<Receiver>) -> (i64, i64) {
    let answer = node.applications().count_pending(CountPendingRequest { receiver }).await;
    let CountPendingResponse { requests, invites } = answer.unwrap().into_inner();
    (requests, invites)
}

pub async fn list(node: &TestNode, by: i64, list: List) -> Result<Vec<ListedApplication>, Status> {
    let request = ListApplicationsRequest { list: Some(list), ..Default::default() };
    Ok(node.applications().list_applications(principal(by, request)).await?.into_inner().applications)
}

/// Returns the ids and states in a list.
pub async fn shown(node: &TestNode, by: i64, of: List) -> Vec<(i64, State)> {
    let listed = list(node, by, of).await.unwrap();
    let shown = listed.into_iter().map(|listed| listed.application.unwrap());
    shown.map(|application| (application.application_id, application.state())).collect()
}

pub async fn are_friends(node: &TestNode, user: i64, other: i64) -> bool {
    relation(node, user, other).await.friends
}

/// Checks that an application was not accepted because it is closed.
#[track_caller]
pub fn assert_closed(refused: Result<Application, Status>) {
    let refused = assert_forbidden(refused);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["state"], "closed", "{refused:?}");
}
