//! One call about messages that a node gets, and what its answer means.

use std::num::TryFromIntError;

use kith_proto::{
    message::v1::{
        BatchSendRequest, GetReadSeqsRequest, HistoryRequest, MarkReadRequest, Message, MessageKind,
        PullBySeqsRequest, PullMessagesRequest, SendMessageRequest,
        message_service_client::MessageServiceClient, read_seq_result, send_message_request::To, send_result,
    },
    r#type::v1::ResultError,
};
use tonic::{Code, Request, Status, transport::Channel};

use crate::{
    faults::calls::{answer_in_time, consistency, name_of, with_deadline},
    history::{Draft, Level, LoggedMessage, MessageOutcome, MessageRequest, Pages, SendOutcome},
};

/// How many messages a client's page has.
const PAGE: i32 = 50;
/// A value that is never sent: it marks a message whose body cannot be read.
const UNREADABLE: u64 = 0;

/// A call that can be sent any number of times.
#[derive(Clone, Debug)]
pub(in crate::faults) struct PreparedCall {
    pub(in crate::faults) request: MessageRequest,
    /// Whether its messages have a `client_message_id`. Others are sent once.
    pub(in crate::faults) named: bool,
}

type MessageRpc = MessageServiceClient<Channel>;

impl PreparedCall {
    /// Sends the call once.
    pub(in crate::faults) async fn send(&self, node: Channel) -> MessageOutcome {
        match answer_in_time(!self.writes(), self.call(MessageRpc::new(node))).await {
            Ok(outcome) => outcome,
            Err((code, true)) => MessageOutcome::Open(code),
            Err((code, false)) => MessageOutcome::Refused(code),
        }
    }

    fn writes(&self) -> bool {
        match self.request {
            MessageRequest::Send(_) => true,
            MessageRequest::Mark { up_to, .. } => up_to > 0,
            MessageRequest::Read { .. } => false,
        }
    }

    async fn call(&self, client: MessageRpc) -> Result<MessageOutcome, Status> {
        match &self.request {
            MessageRequest::Send(drafts) => self.send_all(client, drafts).await,
            MessageRequest::Read { user, conversation, pages, at_least } => {
                read(client, *user, conversation, pages, *at_least).await
            }
            MessageRequest::Mark { user, conversation, up_to: 0 } => {
                mark_of(client, *user, conversation).await
            }
            MessageRequest::Mark { user, conversation, up_to } => {
                let (conversation_id, up_to) = (conversation.clone(), up_to.cast_signed());
                let request = MarkReadRequest { conversation_id, up_to, ..Default::default() };
                let answer =
                    by(client, *user, request, async |mut client, request| client.mark_read(request).await);
                Ok(MessageOutcome::Marked(number(answer.await?.read_seq)?))
            }
        }
    }

    /// One message by its user, several by a service for their senders.
    async fn send_all(&self, mut client: MessageRpc, drafts: &[Draft]) -> Result<MessageOutcome, Status> {
        if let [draft] = drafts {
            let answer = by(client, draft.sender, self.wire(draft), async |mut client, request| {
                client.send_message(request).await
            });
            return Ok(MessageOutcome::Sent(vec![SendOutcome::At(number(answer.await?.seq)?)]));
        }
        let wire = |draft: &Draft| SendMessageRequest { sender_id: draft.sender, ..self.wire(draft) };
        let request = BatchSendRequest { messages: drafts.iter().map(wire).collect() };
        let answer = client.batch_send(with_deadline(request)).await?.into_inner();
        if answer.results.len() != drafts.len() {
            return Err(Status::internal("an answer with too few results"));
        }
        let results = answer.results.into_iter().map(|result| match result.result {
            Some(send_result::Result::Sent(sent)) => Ok(SendOutcome::At(number(sent.seq)?)),
            Some(send_result::Result::Error(error)) => Ok(not_sent(&error)),
            None => Err(Status::internal("an answer without a result")),
        });
        Ok(MessageOutcome::Sent(results.collect::<Result<_, _>>()?))
    }

    fn wire(&self, draft: &Draft) -> SendMessageRequest {
        SendMessageRequest {
            to: Some(To::ConversationId(draft.conversation.clone())),
            client_message_id: if self.named { format!("m{}", draft.value) } else { String::new() },
            content_type: "text/plain".to_owned(),
            body: draft.value.to_string().into(),
            silent: draft.silent,
            ..SendMessageRequest::default()
        }
    }
}

async fn read(
    client: MessageRpc,
    user: i64,
    conversation: &str,
    pages: &Pages,
    at_least: u64,
) -> Result<MessageOutcome, Status> {
    let (conversation_id, limit) = (conversation.to_owned(), PAGE);
    let at_least_seq = at_least.cast_signed();
    let (messages, range, more) = match pages {
        Pages::From(first) => {
            let from_seq = first.cast_signed();
            let request =
                PullMessagesRequest { conversation_id, from_seq, limit, at_least_seq, ..Default::default() };
            let call =
                by(client, user, request, async |mut client, request| client.pull_messages(request).await);
            let answer = call.await?;
            (answer.messages, Some((answer.min_seq, answer.max_seq)), answer.more)
        }
        Pages::Before(before) => {
            let before_seq = before.cast_signed();
            let request =
                HistoryRequest { conversation_id, before_seq, limit, at_least_seq, ..Default::default() };
            let call = by(client, user, request, async |mut client, request| client.history(request).await);
            let answer = call.await?;
            (answer.messages, Some((answer.min_seq, answer.max_seq)), answer.more)
        }
        Pages::These(seqs) => {
            let seqs = seqs.iter().map(|seq| seq.cast_signed()).collect();
            let request = PullBySeqsRequest { conversation_id, seqs, ..Default::default() };
            let call =
                by(client, user, request, async |mut client, request| client.pull_by_seqs(request).await);
            let answer = call.await?;
            (answer.messages, None, answer.more)
        }
    };
    let messages = messages.iter().map(logged).collect::<Result<_, _>>()?;
    let range = range.map(|(min, max)| Ok::<_, Status>((number(min)?, number(max)?))).transpose()?;
    Ok(MessageOutcome::Read { messages, range, more })
}

/// A user's mark, from the store.
async fn mark_of(client: MessageRpc, user: i64, conversation: &str) -> Result<MessageOutcome, Status> {
    let request = GetReadSeqsRequest {
        conversation_ids: vec![conversation.to_owned()],
        consistency: consistency(Level::Strong, ""),
        ..GetReadSeqsRequest::default()
    };
    let call = by(client, user, request, async |mut client, request| client.get_read_seqs(request).await);
    match call.await?.results.into_iter().next().and_then(|result| result.result) {
        Some(read_seq_result::Result::Read(read)) => Ok(MessageOutcome::Marked(number(read.read_seq)?)),
        Some(read_seq_result::Result::Error(error)) => {
            Ok(MessageOutcome::Refused(name_of(Code::from(error.code))))
        }
        None => Err(Status::internal("an answer without a result")),
    }
}

/// Sends a user's request.
pub(super) async fn by<Q, A>(
    client: MessageRpc,
    user: i64,
    request: Q,
    call: impl AsyncFnOnce(MessageRpc, Request<Q>) -> Result<tonic::Response<A>, Status>,
) -> Result<A, Status> {
    let mut request = with_deadline(request);
    request.metadata_mut().insert("kith-acting-user", user.into());
    Ok(call(client, request).await?.into_inner())
}

/// Converts a client's message for the log.
pub(super) fn logged(message: &Message) -> Result<LoggedMessage, Status> {
    let value = std::str::from_utf8(&message.body).ok().and_then(|body| body.parse().ok());
    let is_event = message.kind() == MessageKind::Event;
    Ok(LoggedMessage {
        seq: number(message.seq)?,
        value: (!is_event).then(|| value.unwrap_or(UNREADABLE)),
        sender: message.sender_id,
        silent: message.silent,
    })
}

pub(super) fn number(wire: i64) -> Result<u64, Status> {
    u64::try_from(wire).map_err(|_: TryFromIntError| Status::internal("a number below 0"))
}

fn not_sent(error: &ResultError) -> SendOutcome {
    let code = Code::from(error.code);
    let is_certain = error.metadata.get("outcome").is_some_and(|outcome| outcome == "not_applied");
    let may_be_stored = !is_certain
        && matches!(
            code,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Internal | Code::Unknown
        );
    if may_be_stored { SendOutcome::Open(name_of(code)) } else { SendOutcome::Refused(name_of(code)) }
}
