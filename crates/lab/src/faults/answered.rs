//! Calls that are sent until a node answers them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        SendMessageRequest, message_service_client::MessageServiceClient, send_message_request::To,
    },
};
use tokio::time::sleep;
use tonic::{Code, Request, Response, Status, transport::Channel};

use super::calls::{failed, with_deadline};
use crate::checker::is_outage_code;

/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(30);
/// How often a call is attempted.
const TRIES: usize = 400;

/// The call of a client's method, such as `call!(MemberServiceClient::leave)`.
macro_rules! call {
    ($client:ident::$method:ident) => {
        async |node, request| $client::new(node).$method(request).await
    };
}
pub(super) use call;

/// Sends a request to one node after the other until one answers it, or refuses it. Returns the answer, or
/// the refusal, or the last error if no node answers.
pub(super) async fn until_answered<Q, A, F>(
    nodes: &[Channel],
    first: usize,
    request: Q,
    send: impl Fn(Channel, Request<Q>) -> F,
) -> Result<A, Status>
where
    Q: Clone,
    F: Future<Output = Result<Response<A>, Status>>,
{
    let is_open = |status: &Status| is_outage_code(&failed(status, false).0);
    until_answered_but(nodes, first, request, send, is_open).await
}

/// Like `until_answered`, but the request is also sent again after these errors.
pub(super) async fn until_answered_but<Q, A, F>(
    nodes: &[Channel],
    first: usize,
    request: Q,
    send: impl Fn(Channel, Request<Q>) -> F,
    is_open: impl Fn(&Status) -> bool,
) -> Result<A, Status>
where
    Q: Clone,
    F: Future<Output = Result<Response<A>, Status>>,
{
    let mut last = Status::unavailable("there is no node");
    for node in nodes.iter().cycle().skip(first).take(TRIES) {
        match send(node.clone(), with_deadline(request.clone())).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) if is_open(&status) => last = status,
            Err(status) => return Err(status),
        }
        sleep(PAUSE).await;
    }
    Err(last)
}

/// Sends a message, first through this node, until it is stored. Returns its number.
///
/// # Errors
/// If no node stores it.
pub(super) async fn send_message(
    nodes: &[Channel],
    first: usize,
    to: To,
    sender_id: i64,
    client_message_id: String,
) -> Result<i64> {
    let request = SendMessageRequest {
        to: Some(to),
        sender_id,
        client_message_id,
        content_type: "text/plain".to_owned(),
        body: "x".into(),
        ..SendMessageRequest::default()
    };
    let sent = until_answered(nodes, first, request, call!(MessageServiceClient::send_message));
    Ok(sent.await.with_context(|| format!("a message of user {sender_id} is not stored"))?.seq)
}

/// Makes a group with these members, besides its owner.
///
/// # Errors
/// If no node does it.
pub(super) async fn make_group(nodes: &[Channel], group: Group, user_ids: Vec<i64>) -> Result<()> {
    let group_id = group.group_id;
    let request = CreateGroupRequest { group: Some(group), request_id: format!("group-{group_id}") };
    let made = until_answered(nodes, 0, request, call!(GroupServiceClient::create_group));
    match made.await {
        // An earlier call that was not answered has created it.
        Err(status) if status.code() == Code::AlreadyExists => {}
        made => drop(made.with_context(|| format!("group {group_id} is not made"))?),
    }
    if user_ids.is_empty() {
        return Ok(());
    }
    let request = AddMembersRequest { group_id, user_ids, request_id: format!("members-{group_id}") };
    let added = until_answered(nodes, 0, request, call!(MemberServiceClient::add_members));
    added.await.map(drop).with_context(|| format!("group {group_id} has no members"))
}
