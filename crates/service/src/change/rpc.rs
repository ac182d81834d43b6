//! The change service on the wire: each method decodes, calls once, and encodes.

use std::time::Duration;

use kith_proto::change::v1::{self as wire, change_service_server::ChangeService};
use tonic::{Request, Response};

use super::{
    KeptChanges,
    convert::{self, Kinds},
    cursor::ChangeCursors,
    kept::PageTerms,
};
use crate::{
    metric::{self, CHANGES_DELIVERED},
    rpc::{
        call::{Call, RpcResult},
        page_token::PageTokens,
        versions::wire_duration,
    },
};

/// When a reader at the end asks again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The change service on the wire.
#[derive(Clone, Debug)]
pub struct ChangeRpc {
    changes: KeptChanges,
    cursors: ChangeCursors,
}

impl ChangeRpc {
    /// The service over a deployment's kept changes.
    #[must_use]
    pub fn new(changes: KeptChanges, tokens: PageTokens) -> Self {
        metric::count_from_zero(CHANGES_DELIVERED, &[]);
        Self { changes, cursors: ChangeCursors::new(tokens) }
    }
}

#[tonic::async_trait]
impl ChangeService for ChangeRpc {
    async fn get_cursor(
        &self,
        _request: Request<wire::GetCursorRequest>,
    ) -> RpcResult<wire::GetCursorResponse> {
        let cursor = self.cursors.issue(&self.changes.end().await?)?;
        Ok(Response::new(wire::GetCursorResponse { cursor }))
    }

    async fn read_changes(
        &self,
        request: Request<wire::ReadChangesRequest>,
    ) -> RpcResult<wire::ReadChangesResponse> {
        let (call, request) = Call::open(request);
        let cursor = self.cursors.verify(&request.cursor)?;
        let kinds = Kinds::asked(&request.kinds, call.rights)?;
        let page =
            self.changes.page(cursor, PageTerms { kinds, limit: convert::limit(request.limit)? }).await?;
        let delivered = u64::try_from(page.changes.len()).unwrap_or(u64::MAX);
        metrics::counter!(CHANGES_DELIVERED.name).increment(delivered);
        let wait = if page.is_last { ASK_AGAIN } else { Duration::ZERO };
        Ok(Response::new(wire::ReadChangesResponse {
            changes: page.changes,
            cursor: self.cursors.issue(&page.next)?,
            ask_again_after: Some(wire_duration(wait)),
        }))
    }
}
