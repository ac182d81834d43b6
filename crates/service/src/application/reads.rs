//! Single applications, and what is pending: decode, one call, encode.

use kith_proto::application::v1 as wire;
use tonic::Response;

use super::{ApplicationRpc, convert};
use crate::{
    error::Error,
    rpc::call::{Call, Served},
};

impl ApplicationRpc {
    pub(super) async fn one(
        &self,
        request: wire::GetApplicationRequest,
        call: Call,
    ) -> Result<Response<wire::GetApplicationResponse>, Error> {
        let key = convert::key(request.receiver, request.application_id)?;
        let found = self.applications.seen(key, call.principal).await?;
        let application = convert::application_to_wire(&found);
        let served = Served::by_store(application.version);
        let mut response = Response::new(wire::GetApplicationResponse { application: Some(application) });
        response.extensions_mut().insert(served);
        Ok(response)
    }

    pub(super) async fn pending(
        &self,
        request: wire::CountPendingRequest,
        call: Call,
    ) -> Result<wire::CountPendingResponse, Error> {
        let receiver = convert::receiver(request.receiver)?;
        self.applications.may_decide(receiver, call.principal).await?;
        let docket = self.applications.docket(receiver).await?;
        Ok(wire::CountPendingResponse {
            requests: i64::from(docket.requests),
            invites: i64::from(docket.invites),
        })
    }
}
