//! Changes of applications: decode, one call, encode.

use kith_proto::application::v1 as wire;
use kith_store::{ApplicationList, ApplicationMark, ListedApplication};

use super::{ApplicationRpc, convert};
use crate::{
    error::Error,
    rpc::{
        call::{Call, own},
        request::WriteContext,
    },
};

impl ApplicationRpc {
    pub(super) async fn make(
        &self,
        mut request: wire::ApplyRequest,
        call: Call,
    ) -> Result<wire::ApplyResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Apply", &id, call, 0, &request)?;
        let draft = convert::draft(request, call.principal)?;
        let application = self.applications.apply(draft, terms).await?;
        Ok(wire::ApplyResponse { application: Some(convert::application_to_wire(&application)) })
    }

    pub(super) async fn settle(
        &self,
        mut request: wire::DecideRequest,
        call: Call,
    ) -> Result<wire::DecideResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Decide", &id, call, 0, &request)?;
        let key = convert::key(request.receiver, request.application_id)?;
        let decision = convert::decision(request.decision)?;
        let decided = self.applications.decide(key, decision, terms).await?;
        Ok(wire::DecideResponse {
            application: Some(convert::application_to_wire(&decided.application)),
            consistency_token: decided.token.map(|token| token.to_string()).unwrap_or_default(),
        })
    }

    pub(super) async fn take_back(
        &self,
        mut request: wire::WithdrawRequest,
        call: Call,
    ) -> Result<wire::WithdrawResponse, Error> {
        let id = std::mem::take(&mut request.request_id);
        let terms = WriteContext::of_request("Withdraw", &id, call, 0, &request)?;
        let key = convert::key(request.receiver, request.application_id)?;
        let application = self.applications.withdraw(key, terms).await?;
        Ok(wire::WithdrawResponse { application: Some(convert::application_to_wire(&application)) })
    }

    /// Marks some of those that a user has received.
    pub(super) async fn mark(
        &self,
        (user_id, ids): (i64, &[i64]),
        mark: ApplicationMark,
        call: Call,
    ) -> Result<Vec<wire::ListedApplication>, Error> {
        let user = convert::user("user_id", user_id)?;
        let ids = convert::ids(ids)?;
        own(user, call.principal)?;
        let marked: Vec<ListedApplication> =
            self.applications.mark(ApplicationList::Received(user), &ids, mark, call.deadline).await?;
        Ok(marked.iter().map(convert::listed_to_wire).collect())
    }
}
