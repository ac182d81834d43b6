//! The message service on the wire: each method decodes, calls the policy once, and encodes.

use futures::stream::BoxStream;
use kith_proto::message::v1::{self as wire, message_service_server::MessageService};
use tonic::{Request, Response, Status, Streaming};

use super::{
    AtLeast, DialogRpc, Messages, OfflineRpc, ReceiveRpc, convert, erasing, import,
    reaction::ReactionRpc,
    reading::{MessagePage, PAGE_MAX},
    waiting::STEP_MAX,
};
use crate::{
    error::Error,
    rpc::{
        batch::{Limits, check_count, import_together},
        call::{Call, RpcResult},
        ids,
        record_quota::PageQuota,
    },
    schema_agreement::SchemaAgreement,
};

/// The message service on the wire.
#[derive(Clone, Debug)]
pub struct MessageRpc {
    messages: Messages,
    dialogs: DialogRpc,
    receivers: ReceiveRpc,
    offline: OfflineRpc,
    reactions: ReactionRpc,
    limits: Limits,
    agreement: SchemaAgreement,
}

impl MessageRpc {
    /// The service over a deployment's messages. `dialogs`: the dialog calls; `receivers`: the receiver
    /// calls; `offline`: the calls for services that send pushes. All calls are UNAVAILABLE until `agreement`
    /// is reached: a node with an older schema that readmits a member leaves it its earlier stay's range.
    #[must_use]
    pub fn new(
        messages: Messages,
        dialogs: DialogRpc,
        receivers: ReceiveRpc,
        offline: OfflineRpc,
        limits: Limits,
        agreement: SchemaAgreement,
    ) -> Self {
        let reactions = ReactionRpc::new(messages.clone(), dialogs.pages().clone(), limits.clone());
        Self { messages, dialogs, receivers, offline, reactions, limits, agreement }
    }

    /// A page of messages.
    fn page(&self, call: Call, asked: i32) -> Result<PageQuota, Error> {
        let limit =
            self.limits.pages.of(asked).map_err(|_| Error::invalid("limit", "must not be below 0"))?;
        self.limits.records.page(call, limit.min(PAGE_MAX))
    }
}

#[tonic::async_trait]
impl MessageService for MessageRpc {
    async fn send_message(
        &self,
        request: Request<wire::SendMessageRequest>,
    ) -> RpcResult<wire::SendMessageResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let draft = convert::draft(request, call.principal, self.messages.config.body_bytes_max)?;
        let sent = self.messages.send(draft, call.deadline).await?;
        Ok(Response::new(convert::sent_to_wire(sent)))
    }

    async fn batch_send(
        &self,
        request: Request<wire::BatchSendRequest>,
    ) -> RpcResult<wire::BatchSendResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        check_count("messages", request.messages.len(), STEP_MAX)?;
        let bytes_max = self.messages.config.body_bytes_max;
        let messages = request.messages.into_iter();
        let drafts = messages.map(|message| convert::draft(message, call.principal, bytes_max)).collect();
        let results = self.messages.send_batch(drafts, call.deadline).await?;
        let results = results.into_iter().map(convert::send_result).collect();
        Ok(Response::new(wire::BatchSendResponse { results }))
    }

    async fn pull_messages(
        &self,
        request: Request<wire::PullMessagesRequest>,
    ) -> RpcResult<wire::PullMessagesResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let reader = convert::acting_user(request.user_id, call.principal)?;
        let mut quota = self.page(call, request.limit)?;
        let mut asked = convert::pull(&request, quota.size)?;
        asked.at_least = self.limits.at_least(call, asked.at_least)?;
        let page = self.messages.pull(reader, asked).await?;
        let counts = self.messages.page_counts(request.with_reactions, asked.conversation, &page).await?;
        let MessagePage { messages, range, more } =
            page.fit_into(call.answer_bytes, asked.conversation, &counts);
        quota.answered(messages.len());
        let messages = convert::page_to_wire(messages, asked.conversation, call.principal, &counts);
        let (min_seq, max_seq) = (range.min, range.max);
        Ok(Response::new(wire::PullMessagesResponse { messages, min_seq, max_seq, more }))
    }

    async fn pull_by_seqs(
        &self,
        request: Request<wire::PullBySeqsRequest>,
    ) -> RpcResult<wire::PullBySeqsResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let reader = convert::acting_user(request.user_id, call.principal)?;
        let conversation = convert::conversation(&request.conversation_id)?;
        let seqs = convert::seqs(request.seqs)?;
        let mut quota = self.limits.records.page(call, seqs.len())?;
        let at_least = self.limits.at_least(call, 0)?;
        let page = self.messages.pull_by_seqs(reader, conversation, seqs, at_least).await?;
        let counts = self.messages.page_counts(request.with_reactions, conversation, &page).await?;
        let MessagePage { messages, more, .. } = page.fit_into(call.answer_bytes, conversation, &counts);
        quota.answered(messages.len());
        let messages = convert::page_to_wire(messages, conversation, call.principal, &counts);
        Ok(Response::new(wire::PullBySeqsResponse { messages, more }))
    }

    async fn history(&self, request: Request<wire::HistoryRequest>) -> RpcResult<wire::HistoryResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let reader = convert::acting_user(request.user_id, call.principal)?;
        let mut quota = self.page(call, request.limit)?;
        let mut asked = convert::back(&request, quota.size)?;
        asked.at_least = self.limits.at_least(call, asked.at_least)?;
        let page = self.messages.history(reader, asked).await?;
        let counts = self.messages.page_counts(request.with_reactions, asked.conversation, &page).await?;
        let MessagePage { messages, range, more } =
            page.fit_into(call.answer_bytes, asked.conversation, &counts);
        quota.answered(messages.len());
        let messages = convert::page_to_wire(messages, asked.conversation, call.principal, &counts);
        let (min_seq, max_seq) = (range.min, range.max);
        Ok(Response::new(wire::HistoryResponse { messages, min_seq, max_seq, more }))
    }

    async fn get_seq_by_time(
        &self,
        request: Request<wire::GetSeqByTimeRequest>,
    ) -> RpcResult<wire::GetSeqByTimeResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let reader = convert::acting_user(request.user_id, call.principal)?;
        let conversation = convert::conversation(&request.conversation_id)?;
        let time = convert::time(request.time.as_ref())?;
        let at_least = self.limits.at_least(call, 0)?;
        let seq = self.messages.seq_at(reader, conversation, time, at_least).await?;
        Ok(Response::new(wire::GetSeqByTimeResponse { seq }))
    }

    async fn get_max_seqs(
        &self,
        request: Request<wire::GetMaxSeqsRequest>,
    ) -> RpcResult<wire::GetMaxSeqsResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let reader = convert::acting_user(request.user_id, call.principal)?;
        let conversations =
            convert::conversations(&request.conversation_ids, self.limits.batch_ids_of(call))?;
        let at_least = AtLeast::of_request(&request.at_least, self.limits.at_least(call, 0)?)?;
        let found = self.messages.max_seqs(reader, &conversations, &at_least).await?;
        let results = conversations.into_iter().zip(found);
        let results = results.map(|(conversation, max)| convert::max_seq_result(conversation, max)).collect();
        Ok(Response::new(wire::GetMaxSeqsResponse { results }))
    }

    async fn create_conversation(
        &self,
        request: Request<wire::CreateConversationRequest>,
    ) -> RpcResult<wire::CreateConversationResponse> {
        self.agreement.check()?;
        self.dialogs.create_conversation(request).await
    }

    async fn get_conversation(
        &self,
        request: Request<wire::GetConversationRequest>,
    ) -> RpcResult<wire::GetConversationResponse> {
        self.agreement.check()?;
        self.dialogs.get_conversation(request).await
    }

    async fn list_conversations(
        &self,
        request: Request<wire::ListConversationsRequest>,
    ) -> RpcResult<wire::ListConversationsResponse> {
        self.agreement.check()?;
        self.dialogs.list_conversations(request).await
    }

    async fn count_unread(
        &self,
        request: Request<wire::CountUnreadRequest>,
    ) -> RpcResult<wire::CountUnreadResponse> {
        self.agreement.check()?;
        self.dialogs.count_unread(request).await
    }

    async fn get_read_seqs(
        &self,
        request: Request<wire::GetReadSeqsRequest>,
    ) -> RpcResult<wire::GetReadSeqsResponse> {
        self.agreement.check()?;
        self.dialogs.get_read_seqs(request).await
    }

    async fn mark_read(&self, request: Request<wire::MarkReadRequest>) -> RpcResult<wire::MarkReadResponse> {
        self.agreement.check()?;
        self.dialogs.mark_read(request).await
    }

    async fn update_dialog(
        &self,
        request: Request<wire::UpdateDialogRequest>,
    ) -> RpcResult<wire::UpdateDialogResponse> {
        self.agreement.check()?;
        self.dialogs.update_dialog(request).await
    }

    async fn hide_conversation(
        &self,
        request: Request<wire::HideConversationRequest>,
    ) -> RpcResult<wire::HideConversationResponse> {
        self.agreement.check()?;
        self.dialogs.hide_conversation(request).await
    }

    async fn clear_conversation(
        &self,
        request: Request<wire::ClearConversationRequest>,
    ) -> RpcResult<wire::ClearConversationResponse> {
        self.agreement.check()?;
        self.dialogs.clear_conversation(request).await
    }

    async fn set_user_seq_range(
        &self,
        request: Request<wire::SetUserSeqRangeRequest>,
    ) -> RpcResult<wire::SetUserSeqRangeResponse> {
        self.agreement.check()?;
        self.dialogs.set_user_seq_range(request).await
    }

    async fn trim_conversation(
        &self,
        request: Request<wire::TrimConversationRequest>,
    ) -> RpcResult<wire::TrimConversationResponse> {
        self.agreement.check()?;
        self.dialogs.trim_conversation(request).await
    }

    async fn erase_user_messages(
        &self,
        request: Request<wire::EraseUserMessagesRequest>,
    ) -> RpcResult<wire::EraseUserMessagesResponse> {
        self.agreement.check()?;
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        let erasure = self.messages.erase_user(user, request.again, call.deadline).await?;
        Ok(Response::new(erasing::erasure_to_wire(&erasure)))
    }

    async fn recall_message(
        &self,
        request: Request<wire::RecallMessageRequest>,
    ) -> RpcResult<wire::RecallMessageResponse> {
        self.agreement.check()?;
        self.messages.recall_message(request).await
    }

    async fn edit_message(
        &self,
        request: Request<wire::EditMessageRequest>,
    ) -> RpcResult<wire::EditMessageResponse> {
        self.agreement.check()?;
        self.messages.edit_message(request).await
    }

    async fn react(&self, request: Request<wire::ReactRequest>) -> RpcResult<wire::ReactResponse> {
        self.agreement.check()?;
        self.reactions.react(request).await
    }

    async fn unreact(&self, request: Request<wire::UnreactRequest>) -> RpcResult<wire::UnreactResponse> {
        self.agreement.check()?;
        self.reactions.unreact(request).await
    }

    async fn batch_get_reactions(
        &self,
        request: Request<wire::BatchGetReactionsRequest>,
    ) -> RpcResult<wire::BatchGetReactionsResponse> {
        self.agreement.check()?;
        self.reactions.batch_get_reactions(request).await
    }

    async fn list_reactions(
        &self,
        request: Request<wire::ListReactionsRequest>,
    ) -> RpcResult<wire::ListReactionsResponse> {
        self.agreement.check()?;
        self.reactions.list_reactions(request).await
    }

    type ReceiveStream = BoxStream<'static, Result<wire::ReceiveResponse, Status>>;

    async fn receive(&self, request: Request<wire::ReceiveRequest>) -> RpcResult<Self::ReceiveStream> {
        self.agreement.check()?;
        self.receivers.receive(request).await
    }

    type WatchOfflineStream = BoxStream<'static, Result<wire::WatchOfflineResponse, Status>>;

    async fn watch_offline(
        &self,
        request: Request<wire::WatchOfflineRequest>,
    ) -> RpcResult<Self::WatchOfflineStream> {
        self.agreement.check()?;
        self.offline.watch_offline(request).await
    }

    async fn send_signal(
        &self,
        request: Request<wire::SendSignalRequest>,
    ) -> RpcResult<wire::SendSignalResponse> {
        self.agreement.check()?;
        self.receivers.send_signal(request).await
    }

    type ImportMessagesStream = BoxStream<'static, Result<wire::ImportMessagesResponse, Status>>;

    async fn import_messages(
        &self,
        request: Request<Streaming<wire::ImportMessagesRequest>>,
    ) -> RpcResult<Self::ImportMessagesStream> {
        self.agreement.check()?;
        let (messages, limits) = (self.messages.clone(), self.limits.clone());
        let all = move |records| import::import(messages.clone(), limits.clone(), records);
        let answer = |results| wire::ImportMessagesResponse { results };
        Ok(Response::new(import_together(request, &self.limits, all, answer)))
    }

    type ImportDialogsStream = BoxStream<'static, Result<wire::ImportDialogsResponse, Status>>;

    async fn import_dialogs(
        &self,
        request: Request<Streaming<wire::ImportDialogsRequest>>,
    ) -> RpcResult<Self::ImportDialogsStream> {
        self.agreement.check()?;
        Ok(Response::new(self.dialogs.import_dialogs(request)))
    }

    async fn export_dialogs(
        &self,
        request: Request<wire::ExportDialogsRequest>,
    ) -> RpcResult<wire::ExportDialogsResponse> {
        self.agreement.check()?;
        self.dialogs.export_dialogs(request).await
    }
}
