//! Reads all that a node stores about one user, besides its account.

use kith_proto::{
    application::v1::{ListApplicationsRequest, ListedApplication, list_applications_request::List},
    message::v1::{DialogRecord, ExportDialogsRequest, ImportDialog},
    relation::v1::{ExportSettingsRequest, ImportFollow, ImportSettings, ListFollowingRequest},
    user::v1::{GetUserAccessRequest, SuspendUserRequest, user_service_client::UserServiceClient},
};
use tonic::Status;

use crate::{
    applications::is_pending,
    client::Channel,
    kind::{strong, with_long_deadline},
    proto_lines::{PAGE, again, list},
};

/// The follows of a user, the last one first.
pub(super) async fn follows(channel: &Channel, user_id: i64) -> Result<Vec<ImportFollow>, Status> {
    let request = ListFollowingRequest {
        user_id,
        page_size: PAGE,
        consistency: strong(),
        ..ListFollowingRequest::default()
    };
    let follows = list(channel, request).await?.into_iter();
    let line = |follow: kith_proto::relation::v1::Follow| ImportFollow {
        record: 0,
        user_id: follow.user_id,
        target_id: follow.target_id,
        follow_time: follow.follow_time,
    };
    Ok(follows.map(line).collect())
}

/// The settings of a user for others.
pub(super) async fn settings(channel: &Channel, user_id: i64) -> Result<Vec<ImportSettings>, Status> {
    let request = ExportSettingsRequest { user_id, page_size: PAGE, ..ExportSettingsRequest::default() };
    let settings = list(channel, request).await?.into_iter();
    Ok(settings.map(|one| ImportSettings { record: 0, settings: Some(one) }).collect())
}

/// The dialogs of a user.
pub(super) async fn dialogs(channel: &Channel, user_id: i64) -> Result<Vec<ImportDialog>, Status> {
    let request = ExportDialogsRequest { user_id, page_size: PAGE, ..ExportDialogsRequest::default() };
    let dialogs = list(channel, request).await?.into_iter();
    Ok(dialogs.map(|one| ImportDialog { record: 0, dialog: Some(one) }).collect())
}

/// Whether a dialog says nothing.
pub(super) fn is_empty(record: &ImportDialog) -> bool {
    record.dialog.as_ref().is_none_or(|dialog| {
        let nothing = DialogRecord {
            user_id: dialog.user_id,
            conversation_id: dialog.conversation_id.clone(),
            ..DialogRecord::default()
        };
        *dialog == nothing
    })
}

/// The pending friend requests and invites to a user.
pub(super) async fn applications(channel: &Channel, user: i64) -> Result<Vec<ListedApplication>, Status> {
    let request = ListApplicationsRequest {
        list: Some(List::ReceivedBy(user)),
        page_size: PAGE,
        ..ListApplicationsRequest::default()
    };
    let mut received = list(channel, request).await?;
    received.retain(|one| one.application.as_ref().is_some_and(|one| is_pending(one) && one.user_id == user));
    Ok(received)
}

/// The request that suspends a user as it is; `None`: it is not suspended.
pub(super) async fn suspension(
    channel: &Channel,
    user_id: i64,
) -> Result<Option<SuspendUserRequest>, Status> {
    let call = || {
        let mut users = UserServiceClient::new(channel.clone());
        let request = with_long_deadline(GetUserAccessRequest { user_id, consistency: strong() });
        async move { users.get_user_access(request).await }
    };
    let access = again(call).await?.into_inner().access.unwrap_or_default();
    Ok(access.suspended.then_some(SuspendUserRequest {
        user_id,
        until: access.suspended_until,
        reason: access.suspension_reason,
        request_id: String::new(),
    }))
}
