//! Reads the reactions to the messages of a conversation.

use kith_proto::message::v1::{
    BatchGetReactionsRequest, ImportMessage, ImportReaction, ListReactionsRequest, PullMessagesRequest,
    Reaction, message_service_client::MessageServiceClient,
};
use std::ops::RangeInclusive;
use tonic::Status;

use crate::{
    client::Channel,
    kind::with_long_deadline,
    proto_lines::{PAGE, again, list},
};

/// The most messages whose counts one call reads.
pub(super) const SEQS: usize = 100;

/// Reads the numbers of the messages in a conversation that are not trimmed.
pub(super) async fn seqs(channel: &Channel, conversation: &str) -> Result<RangeInclusive<i64>, Status> {
    let call = || {
        let mut messages = MessageServiceClient::new(channel.clone());
        let conversation_id = conversation.to_owned();
        let request = PullMessagesRequest { conversation_id, limit: 1, ..PullMessagesRequest::default() };
        let request = with_long_deadline(request);
        async move { messages.pull_messages(request).await }
    };
    let page = again(call).await?.into_inner();
    Ok(page.min_seq..=page.max_seq)
}

/// Reads all reactions to these messages, at most [`SEQS`].
pub(super) async fn read(
    channel: &Channel,
    conversation: &str,
    seqs: &[i64],
) -> Result<Vec<ImportMessage>, Status> {
    let call = || {
        let mut messages = MessageServiceClient::new(channel.clone());
        let (conversation_id, seqs) = (conversation.to_owned(), seqs.to_vec());
        let request = with_long_deadline(BatchGetReactionsRequest { user_id: 0, conversation_id, seqs });
        async move { messages.batch_get_reactions(request).await }
    };
    let counted = again(call).await?.into_inner().messages;
    let mut records = Vec::new();
    for message in counted {
        for of in message.reactions {
            let request = ListReactionsRequest {
                conversation_id: conversation.to_owned(),
                seq: message.seq,
                kind: of.kind.clone(),
                page_size: PAGE,
                ..ListReactionsRequest::default()
            };
            let users = list(channel, request).await?.into_iter();
            records.extend(users.map(|one| record(conversation, message.seq, &of.kind, one)));
        }
    }
    Ok(records)
}

fn record(conversation: &str, seq: i64, kind: &str, one: Reaction) -> ImportMessage {
    let (conversation_id, kind) = (conversation.to_owned(), kind.to_owned());
    let reaction = ImportReaction { conversation_id, seq, user_id: one.user_id, kind, time: one.time };
    ImportMessage { reaction: Some(reaction), ..ImportMessage::default() }
}
