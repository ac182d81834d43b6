//! The append's commands.

use std::collections::HashMap;

use async_trait::async_trait;
use kith_store::{ConversationId, DOCUMENT, MessageKey, NewMessage, StoreError};
use mongodb::{
    bson::{Bson, RawDocument, doc},
    options::{Hint, ReadConcern},
};

use super::{
    super::{
        database::Mongo,
        error::{is_duplicate, read_failed, write_failed},
    },
    documents::{
        DocumentInsert, DocumentSummary, Documents, EarlierSend, Highest, PushOutcome, document_in,
        documents_of, new_document, reply_size, size_and_time, summary_in,
    },
    element,
    shared_pushes::Push,
};

#[async_trait]
impl Documents for Mongo {
    async fn tail(&self, conversation: ConversationId) -> Result<Option<DocumentSummary>, StoreError> {
        let find = self.messages.find_one(documents_of(conversation)).sort(doc! { "_id": -1 });
        let find = find.projection(size_and_time()).max_time(self.options.command);
        find.await.map_err(read_failed)?.map(|found| summary_in(&found)).transpose()
    }

    async fn push(
        &self,
        conversation: ConversationId,
        document: i64,
        messages: &[&NewMessage],
    ) -> Result<PushOutcome, StoreError> {
        let push = Push::new(conversation, document, messages);
        // Without a hint the last attempt failed, or was not seen.
        match self.hints.get(conversation) == Some(document) {
            true => self.pushes.push(push).await,
            false => self.pushes.push_alone(push).await,
        }
    }

    async fn make(
        &self,
        conversation: ConversationId,
        document: i64,
        messages: &[&NewMessage],
        before: Highest,
    ) -> Result<DocumentInsert, StoreError> {
        match self.messages.insert_one(new_document(conversation, document, messages, before)?).await {
            Ok(_) => Ok(DocumentInsert::Inserted),
            Err(error) if is_duplicate(&error) => Ok(DocumentInsert::Duplicate),
            Err(error) => Err(write_failed(error)),
        }
    }

    async fn find_sent(
        &self,
        conversation: ConversationId,
        keys: &[MessageKey],
    ) -> Result<HashMap<MessageKey, EarlierSend>, StoreError> {
        let wanted: Vec<Bson> = keys.iter().map(|key| element::key(*key)).collect();
        let filter = doc! { "_id.c": conversation.to_string(), "m.k": { "$in": wanted } };
        let find = self.messages.find(filter).projection(doc! { "m.k": 1, "m.h": 1, "m.t": 1 });
        // All documents come in one reply: a second reply would not be linearizable.
        let find = find.hint(Hint::Name("sent".to_owned())).batch_size(reply_size(keys.len()));
        let find = find.read_concern(ReadConcern::linearizable()).max_time(self.options.command);
        let mut cursor = find.await.map_err(read_failed)?;
        let mut found = HashMap::with_capacity(keys.len());
        while cursor.advance().await.map_err(read_failed)? {
            collect_sent(cursor.current(), keys, &mut found)?;
        }
        Ok(found)
    }
}

/// Takes the messages with these keys out of a document.
fn collect_sent(
    found: &RawDocument,
    keys: &[MessageKey],
    to: &mut HashMap<MessageKey, EarlierSend>,
) -> Result<(), StoreError> {
    let first = document_in(found)? * DOCUMENT + 1;
    for (seq, element) in (first..).zip(element::elements_in(found)?) {
        let record = element::send_record(element?)?;
        if keys.contains(&record.key) {
            to.insert(record.key, EarlierSend { seq, hash: record.hash, sent: record.sent });
        }
    }
    Ok(())
}
