//! Imports pending applications: each is made again, and gets a new id, a new time and a new expiry.

use futures::{FutureExt as _, StreamExt as _};
use kith_proto::{
    application::v1::{
        Application, ApplyRequest, ListApplicationsRequest, ListedApplication, MarkReadRequest,
        MarkReceivedRequest, State, application_service_client::ApplicationServiceClient,
        list_applications_request::List,
    },
    r#type::v1::ImportResult,
};
use kith_server::json;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    client::Channel,
    kind::{Entry, Import, MessageStream, import_each, with_long_deadline},
    proto_lines,
};

/// The lines of `applications`.
#[derive(Debug)]
pub(super) struct Applications;

impl Applications {
    /// The message in a line.
    pub(super) const MESSAGE: &'static str = "kith.application.v1.ListedApplication";
}

impl Import for Applications {
    const NAME: &'static str = "applications";

    type Record = ListedApplication;

    fn read_line(&self, line: &[u8]) -> Result<Option<ListedApplication>, String> {
        json::record(Self::MESSAGE, line).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<ListedApplication>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let answers = chunks.then(move |chunk| {
            import_each(channel.clone(), chunk, |channel, record| apply(channel, record).boxed())
        });
        Ok(answers.boxed())
    }

    async fn are_stored(&self, _: Channel, sent: &[&ListedApplication]) -> Result<Vec<bool>, Status> {
        Ok(vec![true; sent.len()])
    }
}

/// Makes an application. Returns its id; `None`: the same is pending already.
async fn apply(channel: &Channel, sent: &ListedApplication) -> Result<Option<i64>, Status> {
    let wanted = sent.application.clone().unwrap_or_default();
    let request =
        ListApplicationsRequest { list: Some(List::SentBy(wanted.applicant_id)), ..Default::default() };
    let is_same = |there: &ListedApplication| {
        there
            .application
            .as_ref()
            .is_some_and(|there| is_pending(there) && subject(there) == subject(&wanted))
    };
    if proto_lines::list(channel, request).await?.iter().any(is_same) {
        return Ok(None);
    }
    let mut applications = ApplicationServiceClient::new(channel.clone());
    let request = ApplyRequest {
        kind: wanted.kind,
        applicant_id: wanted.applicant_id,
        user_id: wanted.user_id,
        group_id: wanted.group_id,
        message: wanted.message.clone(),
        reference: wanted.reference.clone(),
        ..ApplyRequest::default()
    };
    let made = applications.apply(with_long_deadline(request)).await?.into_inner().application;
    let id = made.unwrap_or_default().application_id;
    mark(&mut applications, sent, id).await?;
    Ok(Some(id))
}

/// Marks an application as its receiver had marked it.
async fn mark(
    applications: &mut ApplicationServiceClient<Channel>,
    sent: &ListedApplication,
    id: i64,
) -> Result<(), Status> {
    let user_id = sent.application.as_ref().map_or(0, |application| application.user_id);
    if user_id == 0 {
        return Ok(());
    }
    let application_ids = vec![id];
    if sent.read_time.is_some() {
        applications.mark_read(with_long_deadline(MarkReadRequest { user_id, application_ids })).await?;
    } else if sent.receive_time.is_some() {
        let request = MarkReceivedRequest { user_id, application_ids };
        applications.mark_received(with_long_deadline(request)).await?;
    }
    Ok(())
}

/// Whether it waits for a decision.
pub(super) fn is_pending(application: &Application) -> bool {
    application.state() == State::Pending
}

/// Two pending applications with this value are the same.
const fn subject(application: &Application) -> (i32, i64, i64, i64) {
    (application.kind, application.applicant_id, application.user_id, application.group_id)
}
