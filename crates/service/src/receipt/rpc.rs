//! The receipt service on the wire: each method decodes, calls the policy once, and encodes.

use kith_proto::{
    receipt::v1::{self as wire, receipt_service_server::ReceiptService},
    r#type::v1::Consistency as AskedConsistency,
};
use kith_store::{ConversationId, ReceiptState, Seq, UserId};
use tonic::{Request, Response};

use super::{Receipts, convert, receipts::OrdinalPage};
use crate::{
    error::Error,
    rpc::{
        batch::Limits,
        call::{Call, RpcResult},
        page_token::PageTokens,
        record_quota::PageQuota,
    },
};

/// The receipt service on the wire.
#[derive(Clone, Debug)]
pub struct ReceiptRpc {
    receipts: Receipts,
    pages: PageTokens,
    limits: Limits,
}

/// A page of users in a message's receipt, from the requests for three lists.
struct ReaderListRequest<'a> {
    query: &'static [u8],
    state: ReceiptState,
    conversation_id: &'a str,
    seq: i64,
    page_size: i32,
    page_token: &'a str,
    consistency: Option<&'a AskedConsistency>,
}

impl ReceiptRpc {
    /// The service over a deployment's receipts.
    #[must_use]
    pub const fn new(receipts: Receipts, pages: PageTokens, limits: Limits) -> Self {
        Self { receipts, pages, limits }
    }

    /// A page's users, and the next page's token.
    async fn list(&self, call: Call, list: ReaderListRequest<'_>) -> Result<(Vec<i64>, String), Error> {
        let conversation = convert::conversation(list.conversation_id)?;
        let seq = convert::seq("seq", list.seq)?;
        let query = [list.query, &bytes_of(conversation), &seq.to_be_bytes()];
        let (page, mut quota) = self.page(call, &query, list.page_size, list.page_token)?;
        let is_fresh = self.limits.is_fresh(call, list.consistency)?;
        let message: (ConversationId, Seq) = (conversation, seq);
        let found = self.receipts.list(call.principal.user(), message, list.state, page, is_fresh).await?;
        quota.answered(found.users.len());
        let users = found.users.into_iter().map(UserId::get).collect();
        Ok((users, self.token(call, &query, found.next)))
    }

    /// A page and its quota.
    fn page(
        &self,
        call: Call,
        query: &[&[u8]],
        size: i32,
        token: &str,
    ) -> Result<(OrdinalPage, PageQuota), Error> {
        let quota = self.limits.page(call, size)?;
        let from = self.pages.of(call).verify(query, token)?.unwrap_or_default();
        let from = u32::try_from(from).map_err(|_| Error::internal())?;
        Ok((OrdinalPage { from, size: quota.size }, quota))
    }

    fn token(&self, call: Call, query: &[&[u8]], next: Option<u32>) -> String {
        next.map(|next| self.pages.of(call).issue(query, next.into())).unwrap_or_default()
    }
}

fn bytes_of(conversation: ConversationId) -> Vec<u8> {
    conversation.to_string().into_bytes()
}

#[tonic::async_trait]
impl ReceiptService for ReceiptRpc {
    async fn get_receipt(
        &self,
        request: Request<wire::GetReceiptRequest>,
    ) -> RpcResult<wire::GetReceiptResponse> {
        let (call, request) = Call::open(request);
        let conversation = convert::conversation(&request.conversation_id)?;
        let (seq, form) = (convert::seq("seq", request.seq)?, convert::form(request.form)?);
        let is_fresh = self.limits.is_fresh(call, request.consistency.as_ref())?;
        let inputs = self.receipts.inputs(call.principal.user(), conversation, &[seq], is_fresh).await?;
        let message = inputs.messages.first().cloned().unwrap_or_else(|| Err(Error::internal()))?;
        let receipt = Some(convert::receipt_to_wire(&inputs.receipt(message), form));
        Ok(Response::new(wire::GetReceiptResponse { receipt }))
    }

    async fn batch_get_receipts(
        &self,
        request: Request<wire::BatchGetReceiptsRequest>,
    ) -> RpcResult<wire::BatchGetReceiptsResponse> {
        let (call, request) = Call::open(request);
        let conversation = convert::conversation(&request.conversation_id)?;
        let (seqs, form) = (convert::seqs(&request.seqs)?, convert::form(request.form)?);
        let is_fresh = self.limits.is_fresh(call, request.consistency.as_ref())?;
        let inputs = self.receipts.inputs(call.principal.user(), conversation, &seqs, is_fresh).await?;
        let results = convert::results_to_wire(&inputs, &seqs, form, call.answer_bytes);
        Ok(Response::new(wire::BatchGetReceiptsResponse { results }))
    }

    async fn list_readers(
        &self,
        request: Request<wire::ListReadersRequest>,
    ) -> RpcResult<wire::ListReadersResponse> {
        let (call, request) = Call::open(request);
        let list = ReaderListRequest {
            query: b"ListReaders",
            state: ReceiptState::Read,
            conversation_id: &request.conversation_id,
            seq: request.seq,
            page_size: request.page_size,
            page_token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let (user_ids, next_page_token) = self.list(call, list).await?;
        Ok(Response::new(wire::ListReadersResponse { user_ids, next_page_token }))
    }

    async fn list_unread(
        &self,
        request: Request<wire::ListUnreadRequest>,
    ) -> RpcResult<wire::ListUnreadResponse> {
        let (call, request) = Call::open(request);
        let list = ReaderListRequest {
            query: b"ListUnread",
            state: ReceiptState::Unread,
            conversation_id: &request.conversation_id,
            seq: request.seq,
            page_size: request.page_size,
            page_token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let (user_ids, next_page_token) = self.list(call, list).await?;
        Ok(Response::new(wire::ListUnreadResponse { user_ids, next_page_token }))
    }

    async fn list_left(&self, request: Request<wire::ListLeftRequest>) -> RpcResult<wire::ListLeftResponse> {
        let (call, request) = Call::open(request);
        let list = ReaderListRequest {
            query: b"ListLeft",
            state: ReceiptState::Left,
            conversation_id: &request.conversation_id,
            seq: request.seq,
            page_size: request.page_size,
            page_token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let (user_ids, next_page_token) = self.list(call, list).await?;
        Ok(Response::new(wire::ListLeftResponse { user_ids, next_page_token }))
    }

    async fn list_ordinals(
        &self,
        request: Request<wire::ListOrdinalsRequest>,
    ) -> RpcResult<wire::ListOrdinalsResponse> {
        let (call, request) = Call::open(request);
        let conversation = convert::conversation(&request.conversation_id)?;
        let query = [&b"ListOrdinals"[..], &bytes_of(conversation)];
        let (page, mut quota) = self.page(call, &query, request.page_size, &request.page_token)?;
        let found = self.receipts.ordinals(call.principal.user(), conversation, page).await?;
        quota.answered(found.users.len());
        let users =
            found.users.iter().map(|(ordinal, seat)| convert::ordinal_to_wire(*ordinal, seat)).collect();
        let next_page_token = self.token(call, &query, found.next);
        Ok(Response::new(wire::ListOrdinalsResponse { users, next_page_token }))
    }
}
