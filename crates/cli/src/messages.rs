//! Imports and exports messages.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use crate::client::Channel;
use futures::{StreamExt as _, stream};
use kith_proto::{
    message::v1::{
        ImportMessage, ImportMessagesRequest, Message, PullBySeqsRequest, PullMessagesRequest,
        message_service_client::MessageServiceClient,
    },
    r#type::v1::ImportResult,
};
use kith_server::{descriptors, jsonl::record};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::ser::Error as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::kind::{self, Entry, Export, Import, with_long_deadline};

/// The most messages on a page, and the most numbers in a request.
const PAGE: i32 = 1_000;
const SEQS: usize = 100;

/// How the contract describes a message.
static MESSAGE: LazyLock<Option<MessageDescriptor>> =
    LazyLock::new(|| descriptors::pool().ok()?.get_message_by_name("kith.message.v1.Message"));

/// Messages in any conversations.
#[derive(Debug)]
pub(super) struct Messages;

impl Import for Messages {
    const NAME: &'static str = "messages";

    /// A message or a mark.
    type Record = ImportMessage;

    fn read_line(&self, line: &[u8]) -> Result<Option<ImportMessage>, String> {
        record::message_or_mark(line).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<ImportMessage>>>,
    ) -> Result<kind::MessageStream<Vec<ImportResult>>, Status> {
        let requests =
            chunks.map(|chunk| ImportMessagesRequest { records: chunk.into_iter().map(wire).collect() });
        let answers = MessageServiceClient::new(channel).import_messages(requests).await?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.results)).boxed())
    }

    /// A mark never counts as existing: it grows.
    async fn are_stored(&self, channel: Channel, sent: &[&ImportMessage]) -> Result<Vec<bool>, Status> {
        let mut wanted: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for record in sent.iter().filter_map(|sent| sent.message.as_ref()) {
            wanted.entry(&record.conversation_id).or_default().push(record.seq);
        }
        let mut found = HashMap::new();
        for (conversation, seqs) in wanted {
            for some in seqs.chunks(SEQS) {
                let messages = by_seqs(&channel, conversation, some).await?;
                found.extend(messages.into_iter().map(|one| ((conversation, one.seq), one)));
            }
        }
        let is_stored = |sent: &Message| {
            let there = found.get(&(sent.conversation_id.as_str(), sent.seq));
            there.is_some_and(|there| record::importable_message(there.clone()) == *sent)
        };
        Ok(sent.iter().map(|sent| sent.message.as_ref().is_none_or(is_stored)).collect())
    }
}

/// Messages of whole conversations. What users have read follows as dialogs.
#[derive(Debug)]
pub(super) struct MovedMessages;

impl Import for MovedMessages {
    const NAME: &'static str = Messages::NAME;

    type Record = ImportMessage;

    fn read_line(&self, line: &[u8]) -> Result<Option<ImportMessage>, String> {
        let read = Messages.read_line(line)?;
        Ok(read.map(|record| ImportMessage { keep_unread: true, ..record }))
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<ImportMessage>>>,
    ) -> Result<kind::MessageStream<Vec<ImportResult>>, Status> {
        Messages.import(channel, chunks).await
    }

    /// A number that exists and that no service can read was trimmed after an earlier run.
    async fn are_stored(&self, channel: Channel, sent: &[&ImportMessage]) -> Result<Vec<bool>, Status> {
        let stored = Messages.are_stored(channel.clone(), sent).await?;
        let mut all = Vec::with_capacity(stored.len());
        for (stored, record) in stored.into_iter().zip(sent) {
            let missing = record.message.as_ref().filter(|_| !stored);
            all.push(match missing {
                Some(one) => by_seqs(&channel, &one.conversation_id, &[one.seq]).await?.is_empty(),
                None => stored,
            });
        }
        Ok(all)
    }
}

/// Reads the messages with these numbers in a conversation.
async fn by_seqs(channel: &Channel, conversation: &str, seqs: &[i64]) -> Result<Vec<Message>, Status> {
    let (mut found, mut wanted): (Vec<Message>, _) = (Vec::new(), seqs.to_vec());
    loop {
        let request = PullBySeqsRequest {
            conversation_id: conversation.to_owned(),
            seqs: wanted.clone(),
            ..PullBySeqsRequest::default()
        };
        let answer = MessageServiceClient::new(channel.clone())
            .pull_by_seqs(with_long_deadline(request))
            .await?
            .into_inner();
        let last = answer.messages.last().map_or(i64::MAX, |last| last.seq);
        found.extend(answer.messages);
        wanted.retain(|seq| *seq > last);
        if !answer.more || wanted.is_empty() {
            return Ok(found);
        }
    }
}

fn wire(entry: Entry<ImportMessage>) -> ImportMessage {
    let (record, request_id) = (entry.number(), entry.request_id);
    ImportMessage { record, request_id, ..entry.record }
}

/// The messages in the conversation with this id.
pub(super) struct ConversationMessages(pub(super) String);

impl Export for ConversationMessages {
    type Record = Message;

    fn line(message: &Message) -> serde_json::Result<String> {
        let descriptor = MESSAGE.clone();
        let descriptor =
            descriptor.ok_or_else(|| serde_json::Error::custom("the contract cannot be read"))?;
        let mut line = DynamicMessage::new(descriptor);
        line.transcode_from(message).map_err(serde_json::Error::custom)?;
        serde_json::to_string(&line)
    }

    fn number(message: &Message) -> i64 {
        message.seq
    }

    async fn export(
        &self,
        channel: Channel,
        after: i64,
    ) -> Result<kind::MessageStream<Vec<Message>>, Status> {
        let conversation = self.0.clone();
        let pages = stream::try_unfold(Some(after), move |after| {
            let (channel, conversation_id) = (channel.clone(), conversation.clone());
            async move {
                let Some(after) = after else { return Ok(None) };
                let request = PullMessagesRequest {
                    conversation_id,
                    from_seq: after + 1,
                    limit: PAGE,
                    ..PullMessagesRequest::default()
                };
                let page = MessageServiceClient::new(channel)
                    .pull_messages(with_long_deadline(request))
                    .await?
                    .into_inner();
                let next = page.messages.last().filter(|_| page.more).map(|last| last.seq);
                Ok(Some((page.messages, next)))
            }
        });
        Ok(pages.boxed())
    }
}

#[cfg(test)]
mod tests {
    use kith_proto::message::v1::{Event, ImportMark, MembersJoined, MessageKind, Recall, event::What};
    use prost_types::Timestamp;

    use super::*;

    fn message() -> Message {
        Message {
            conversation_id: "g9".to_owned(),
            seq: 7,
            sender_id: 4,
            send_time: Some(Timestamp { seconds: 1, nanos: 5_000_000 }),
            kind: MessageKind::Message.into(),
            content_type: "text/plain".to_owned(),
            body: "你好".into(),
            mention_ids: vec![5],
            reply_to_seq: 3,
            client_message_id: "a-1".to_owned(),
            ..Message::default()
        }
    }

    fn read(line: &str) -> Message {
        Messages.read_line(line.as_bytes()).unwrap().unwrap().message.unwrap()
    }

    #[test]
    fn line_with_a_mark_is_read() {
        let line = br#"{"mark":{"conversationId":"g9","userId":"4","readSeq":"7"}}"#;
        let ImportMessage { message, mark, .. } = Messages.read_line(line).unwrap().unwrap();
        let expected = ImportMark { conversation_id: "g9".to_owned(), user_id: 4, read_seq: 7 };
        assert_eq!((message, mark), (None, Some(expected)));
    }

    #[test]
    fn line_of_an_export_is_a_message() {
        let joined = Event { what: Some(What::Joined(MembersJoined { user_ids: vec![4, 5] })) };
        let event = Message {
            kind: MessageKind::Event.into(),
            event: Some(joined),
            body: bytes::Bytes::new(),
            ..message()
        };
        for message in [message(), event] {
            let line = ConversationMessages::line(&message).unwrap();
            assert!(
                !line.contains('\n') && line.contains(r#""sendTime":"1970-01-01T00:00:01.005Z""#),
                "{line}"
            );
            assert_eq!(read(&line), message);
        }
    }

    #[test]
    fn later_changes_are_left_out() {
        let edited = Message { edits: 2, edit_time: Some(Timestamp { seconds: 9, nanos: 0 }), ..message() };
        assert_eq!(read(&ConversationMessages::line(&edited).unwrap()), message());
        let recalled = Message { recall: Some(Recall { user_id: 4, time: None }), ..message() };
        let read = read(&ConversationMessages::line(&recalled).unwrap());
        assert_eq!(read, Message { silent: true, ..message() });
    }

    #[test]
    fn line_that_is_no_message_is_refused() {
        for (line, why) in [
            (r#"{"conversationId":"g9","shoeSize":44}"#, "shoeSize is no field of Message"),
            ("[]", "not a JSON object"),
        ] {
            assert_eq!(Messages.read_line(line.as_bytes()).unwrap_err(), why);
        }
    }
}
