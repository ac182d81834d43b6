//! The calls of dialogs on the wire: each decodes, calls the policy once, and encodes.

use futures::stream::BoxStream;
use kith_proto::message::v1 as wire;
use kith_store::UserId;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Dialogs, convert, import,
    list::{DialogPage, PAGE_MAX},
    order::DialogPosition,
};
use crate::{
    error::Error,
    message::{AtLeast, conversations, reaction::ReactionCounts},
    rpc::{
        answer_size::{ByteBudget, fit_into_answer, left_out},
        audit_notes::AuditNotes,
        batch::{Limits, import_together},
        call::{Call, RpcResult},
        ids,
        page_token::PageTokens,
        request::WriteContext,
    },
};

/// The query that page tokens are bound to, besides the user.
const QUERY: &[u8] = b"ListConversations";

/// The calls of dialogs on the wire.
#[derive(Clone, Debug)]
pub struct DialogRpc {
    dialogs: Dialogs,
    pages: PageTokens,
    limits: Limits,
}

impl DialogRpc {
    /// Creates the calls over a deployment's dialogs.
    #[must_use]
    pub const fn new(dialogs: Dialogs, pages: PageTokens, limits: Limits) -> Self {
        Self { dialogs, pages, limits }
    }

    /// Issues page tokens.
    pub(crate) const fn pages(&self) -> &PageTokens {
        &self.pages
    }

    pub(crate) async fn create_conversation(
        &self,
        request: Request<wire::CreateConversationRequest>,
    ) -> RpcResult<wire::CreateConversationResponse> {
        let (call, request) = Call::open(request);
        let key = convert::direct_key(request.user_id, request.other_user_id, call.principal)?;
        let (shown, token) = self.dialogs.create(key, call.deadline).await?;
        Ok(Response::new(wire::CreateConversationResponse {
            conversation: Some(convert::conversation_to_wire(shown, call.principal)),
            consistency_token: token.map(|token| token.to_string()).unwrap_or_default(),
        }))
    }

    pub(crate) async fn get_conversation(
        &self,
        request: Request<wire::GetConversationRequest>,
    ) -> RpcResult<wire::GetConversationResponse> {
        let (call, request) = Call::open(request);
        let key = convert::key(request.user_id, &request.conversation_id, call.principal)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let at_least = AtLeast::of_all(self.limits.at_least(call, 0)?);
        let shown = self.dialogs.get(key, &consistency, &at_least).await?;
        let conversation = Some(convert::conversation_to_wire(shown, call.principal));
        Ok(Response::new(wire::GetConversationResponse { conversation }))
    }

    pub(crate) async fn list_conversations(
        &self,
        request: Request<wire::ListConversationsRequest>,
    ) -> RpcResult<wire::ListConversationsResponse> {
        let (call, request) = Call::open(request);
        let user = convert::user(request.user_id, call.principal)?;
        let size = self.limits.pages.of(request.page_size)?.min(PAGE_MAX);
        let mut quota = self.limits.records.page(call, size)?;
        let after = self.position(call, user, &request.page_token)?;
        let at_least = AtLeast::of_request(&request.at_least, self.limits.at_least(call, 0)?)?;
        let page = self.dialogs.list(user, after, quota.size, &at_least).await?;
        let left_out = convert::count(u64::try_from(page.left_out).unwrap_or(u64::MAX));
        let last = page.shown.iter().filter_map(|(_, shown)| shown.reacted()).collect();
        let counts = self.dialogs.messages.reaction_counts(request.with_reactions, last).await?;
        let (conversations, next) = fit_page(page, call, &counts);
        quota.answered(conversations.len());
        let next_page_token = next.and_then(|position| {
            self.pages.of(call).issue_bytes(&[QUERY, &user.get().to_be_bytes()], &position.to_bytes())
        });
        Ok(Response::new(wire::ListConversationsResponse {
            conversations,
            next_page_token: next_page_token.unwrap_or_default(),
            left_out,
        }))
    }

    /// Returns the position where a page begins.
    fn position(&self, call: Call, user: UserId, token: &str) -> Result<Option<DialogPosition>, Error> {
        let position = self.pages.of(call).verify_bytes(&[QUERY, &user.get().to_be_bytes()], token)?;
        let read = |bytes: Vec<u8>| DialogPosition::of_bytes(&bytes).ok_or_else(Error::internal);
        position.map(read).transpose()
    }

    pub(crate) async fn count_unread(
        &self,
        request: Request<wire::CountUnreadRequest>,
    ) -> RpcResult<wire::CountUnreadResponse> {
        let (call, request) = Call::open(request);
        let user = convert::user(request.user_id, call.principal)?;
        let mut conversations = conversations(&request.conversation_ids, self.limits.batch_ids_of(call))?;
        let mut seen = std::collections::HashSet::with_capacity(conversations.len());
        conversations.retain(|conversation| seen.insert(*conversation));
        let at_least = AtLeast::of_request(&request.at_least, self.limits.at_least(call, 0)?)?;
        let consistency = self.limits.consistency(call, None)?;
        let counts = self.dialogs.count(user, conversations, &at_least, &consistency).await?;
        Ok(Response::new(convert::counts_to_wire(&counts)))
    }

    pub(crate) async fn get_read_seqs(
        &self,
        request: Request<wire::GetReadSeqsRequest>,
    ) -> RpcResult<wire::GetReadSeqsResponse> {
        let (call, request) = Call::open(request);
        let user = convert::user(request.user_id, call.principal)?;
        let conversations = conversations(&request.conversation_ids, self.limits.batch_ids_of(call))?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let states = self.dialogs.read_states(user, &conversations, &consistency).await?;
        let mut budget = ByteBudget::new(call.answer_bytes);
        let result = |(conversation, state)| {
            let result = convert::read_result(conversation, state);
            if budget.admit(&result) { result } else { convert::read_result(conversation, Err(left_out())) }
        };
        let results = conversations.into_iter().zip(states).map(result).collect();
        Ok(Response::new(wire::GetReadSeqsResponse { results }))
    }

    pub(crate) async fn mark_read(
        &self,
        request: Request<wire::MarkReadRequest>,
    ) -> RpcResult<wire::MarkReadResponse> {
        let (call, request) = Call::open(request);
        let key = convert::key(request.user_id, &request.conversation_id, call.principal)?;
        let marked = self.dialogs.mark(key, convert::mark(&request)?, call.deadline).await?;
        Ok(Response::new(wire::MarkReadResponse {
            read_seq: marked.read_seq,
            unread: convert::count(marked.unread.0),
            unread_more: marked.unread.1,
            consistency_token: marked.token.map(|token| token.to_string()).unwrap_or_default(),
        }))
    }

    pub(crate) async fn update_dialog(
        &self,
        request: Request<wire::UpdateDialogRequest>,
    ) -> RpcResult<wire::UpdateDialogResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.user_id, &request.conversation_id, context.principal)?;
        let written = self.dialogs.change(key, convert::patch(&request, key)?, context).await?;
        Ok(Response::new(wire::UpdateDialogResponse {
            settings: Some(convert::settings_to_wire(&written.record)),
            version: written.record.version.get(),
            settings_version: written.record.settings_version.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    pub(crate) async fn hide_conversation(
        &self,
        request: Request<wire::HideConversationRequest>,
    ) -> RpcResult<wire::HideConversationResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.user_id, &request.conversation_id, context.principal)?;
        let written = self.dialogs.hide(key, context).await?;
        Ok(Response::new(wire::HideConversationResponse {
            hidden_seq: written.record.hidden_seq.unwrap_or_default(),
            settings_version: written.record.settings_version.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    pub(crate) async fn clear_conversation(
        &self,
        request: Request<wire::ClearConversationRequest>,
    ) -> RpcResult<wire::ClearConversationResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.user_id, &request.conversation_id, context.principal)?;
        let written = self.dialogs.clear(key, context).await?;
        Ok(Response::new(wire::ClearConversationResponse {
            min_seq: written.record.min_seq.unwrap_or_default(),
            settings_version: written.record.settings_version.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    pub(crate) async fn set_user_seq_range(
        &self,
        request: Request<wire::SetUserSeqRangeRequest>,
    ) -> RpcResult<wire::SetUserSeqRangeResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.user_id, &request.conversation_id, context.principal)?;
        let written = self.dialogs.change(key, convert::seq_range(&request)?, context).await?;
        Ok(Response::new(wire::SetUserSeqRangeResponse {
            settings_version: written.record.settings_version.get(),
            consistency_token: written.token.to_string(),
        }))
    }

    pub(crate) async fn trim_conversation(
        &self,
        request: Request<wire::TrimConversationRequest>,
    ) -> RpcResult<wire::TrimConversationResponse> {
        let (call, request) = Call::open(request);
        let id = crate::message::conversation(&request.conversation_id)?;
        let min_seq = convert::positive("min_seq", request.min_seq)?;
        let written = self.dialogs.trim(id, min_seq, call).await?;
        Ok(Response::new(wire::TrimConversationResponse {
            min_seq: written.record.min_seq,
            consistency_token: written.token.to_string(),
        }))
    }
}

impl DialogRpc {
    /// Imports dialogs; see [`import::import`].
    pub(crate) fn import_dialogs(
        &self,
        request: Request<Streaming<wire::ImportDialogsRequest>>,
    ) -> BoxStream<'static, Result<wire::ImportDialogsResponse, Status>> {
        let (dialogs, limits) = (self.dialogs.clone(), self.limits.clone());
        let all = move |records| import::import(dialogs.clone(), limits.clone(), records);
        import_together(request, &self.limits, all, |results| wire::ImportDialogsResponse { results })
    }

    pub(crate) async fn export_dialogs(
        &self,
        request: Request<wire::ExportDialogsRequest>,
    ) -> RpcResult<wire::ExportDialogsResponse> {
        let notes = AuditNotes::of(&request);
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        let query = [&b"ExportDialogs"[..], &user.get().to_be_bytes()[..]];
        let page = self.limits.page(call, request.page_size)?;
        let after = self.pages.of(call).verify_bytes(&query, &request.page_token)?;
        let after = after.map(|bytes| import::position_of(&bytes).ok_or_else(Error::internal)).transpose()?;
        let (found, next) = self.dialogs.export_page(user, after, page.size).await?;
        let dialogs = fit_into_answer(call.answer_bytes, found.iter().map(import::to_wire));
        notes.add_records(dialogs.len());
        let cut = dialogs.len().checked_sub(1).filter(|_| dialogs.len() < found.len());
        let next = cut.and_then(|last| found.get(last)).map(kith_store::Dialog::position).or(next);
        let token = |next| self.pages.of(call).issue_bytes(&query, &import::position_bytes(next));
        let next_page_token = next.and_then(token).unwrap_or_default();
        Ok(Response::new(wire::ExportDialogsResponse { dialogs, next_page_token }))
    }
}

/// Returns the page's conversations that fit into an answer, and the last conversation's position if others
/// follow.
fn fit_page(
    page: DialogPage,
    call: Call,
    counts: &ReactionCounts,
) -> (Vec<wire::Conversation>, Option<DialogPosition>) {
    let mut budget = ByteBudget::new(call.answer_bytes);
    let (mut conversations, mut last, mut more) = (Vec::with_capacity(page.shown.len()), None, page.more);
    for (position, shown) in page.shown {
        let id = shown.id();
        let mut conversation = convert::conversation_to_wire(shown, call.principal);
        if let Some(message) = &mut conversation.last_message {
            counts.add_to(id, message);
        }
        if !budget.admit(&conversation) {
            more = true;
            break;
        }
        conversations.push(conversation);
        last = Some(position);
    }
    (conversations, last.filter(|_| more))
}
