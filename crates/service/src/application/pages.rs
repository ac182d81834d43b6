//! Lists of applications by pages: decode, one call, encode.

use kith_proto::application::v1 as wire;
use kith_store::{ApplicationId, ApplicationList};

use super::{ApplicationRpc, convert};
use crate::{
    error::Error,
    rpc::{
        answer_size::fitting,
        call::{Call, own},
    },
};

impl ApplicationRpc {
    pub(super) async fn page(
        &self,
        request: wire::ListApplicationsRequest,
        call: Call,
    ) -> Result<wire::ListApplicationsResponse, Error> {
        let list = convert::list(request.list)?;
        let after = convert::after(request.after_id)?;
        let size = self.limits.pages.of(request.page_size)?;
        let (kind, owner) = list.numbers();
        let from = request.after_id.to_be_bytes();
        let query = [&b"ListApplications"[..], &kind.to_be_bytes(), &owner.to_be_bytes(), &from];
        let next = self.pages.open(&query, &request.page_token)?.and_then(|id| ApplicationId::new(id).ok());
        self.may_list(list, call).await?;
        // One more than is shown tells whether there is a next page.
        let mut found = self.applications.list(list, next.or(after), size.saturating_add(1)).await?;
        let more = found.len() > size;
        found.truncate(size);
        let end = found.last().filter(|_| more).map(|listed| listed.application.id.get());
        let found = self.applications.settled_list(list, found).await?;
        let applications = fitting(found.iter().map(convert::listed_to_wire));
        let cut = found[..applications.len()].last().filter(|_| applications.len() < found.len());
        let last = cut.map(|listed| listed.application.id.get()).or(end);
        let next_page_token = last.map(|last| self.pages.seal(&query, last)).unwrap_or_default();
        Ok(wire::ListApplicationsResponse { applications, next_page_token })
    }

    async fn may_list(&self, list: ApplicationList, call: Call) -> Result<(), Error> {
        match list {
            ApplicationList::Sent(user) | ApplicationList::Received(user) => own(user, call.principal),
            ApplicationList::Group(group) => {
                self.applications.members.may_decide(group, call.principal).await
            }
        }
    }
}
