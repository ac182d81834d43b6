//! A change to one message: in one transaction with the append of its event.
//!
//! Nothing is checked before it is written. The commands' filters and the unique index decide; when they
//! refuse, the event and the message are read.

use kith_store::{
    Appended, ContentChange, ConversationId, DOCUMENT, DocumentKey, Message, MessageChange,
    MessageChangeOutcome, NewMessage, Outcome, Seq, StoreError, document_of,
};
use mongodb::{
    ClientSession,
    bson::{Document, RawDocument, RawDocumentBuf, doc},
    error::Error,
    options::{ReadConcern, ReturnDocument},
};
use tokio::time::Instant;

use super::{
    super::{
        database::Mongo,
        document::number_in,
        error::{is_duplicate, malformed, out_of_time, read_failed},
        transaction::before_commit,
        write::{Failure, backoff},
    },
    documents::{self, DocumentSummary, Documents as _, documents_of, id, size_and_time, summary_in},
    element::message,
    element_change::{change_update, required_state},
};

/// Where a message is: its document, and its index there.
#[derive(Clone, Copy, Debug)]
struct MessagePosition {
    conversation: ConversationId,
    document: i64,
    index: i64,
}

/// A transaction's result.
struct ChangedMessage {
    message: Message,
    event_seq: Seq,
}

impl MessagePosition {
    fn of(conversation: ConversationId, seq: Seq) -> Self {
        let document = document_of(seq);
        Self { conversation, document, index: seq - 1 - document * DOCUMENT }
    }

    fn id(self) -> Document {
        id(self.conversation, self.document)
    }

    /// Projection to only the message.
    fn only_message(self) -> Document {
        doc! { "m": { "$slice": [self.index, 1] } }
    }

    /// Reads what [`Self::only_message`] projects; `None`: the document is shorter.
    fn read(self, found: &RawDocument) -> Result<Option<Message>, StoreError> {
        let elements = found.get_array("m").map_err(|_| malformed("m"))?;
        let Some(element) = elements.into_iter().next() else { return Ok(None) };
        let element = element.ok().and_then(|element| element.as_document()).ok_or_else(|| malformed("m"))?;
        message(element, self.document * DOCUMENT + self.index + 1).map(Some)
    }
}

impl Mongo {
    /// See [`MessageStore::change`](kith_store::MessageStore::change). Retries while others append, as long
    /// as an append does.
    pub(super) async fn change_message(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
    ) -> Result<MessageChangeOutcome, StoreError> {
        if change.seq < 1 {
            return Ok(MessageChangeOutcome::Missing);
        }
        let give_up = Instant::now() + self.options.append;
        let mut tries = 0;
        loop {
            let error = match self.try_change(conversation, change).await {
                Ok(made) => return Ok(self.done(conversation, change, made)),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Collision(error)) => error,
                Err(Failure::Unmatched | Failure::Duplicate) => {
                    match self.refused_change(conversation, change).await? {
                        Some(changed) => return Ok(changed),
                        None => out_of_time(Outcome::NotApplied),
                    }
                }
            };
            if Instant::now() >= give_up {
                return Err(error);
            }
            tries += 1;
            tokio::time::sleep(backoff(tries)).await;
        }
    }

    fn done(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
        made: ChangedMessage,
    ) -> MessageChangeOutcome {
        let ChangedMessage { message, event_seq } = made;
        // If the event is the last message in its document, the next append would match nothing there.
        if event_seq % DOCUMENT == 0 {
            self.hints.forget(conversation);
        } else {
            self.hints.set(conversation, document_of(event_seq));
        }
        MessageChangeOutcome::Done { message, event_seq, event_sent: change.event.sent, replayed: false }
    }

    async fn try_change(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
    ) -> Result<ChangedMessage, Failure> {
        let mut session = self.begin_transaction().await?;
        let made = Box::pin(self.change_steps(conversation, change, &mut session)).await;
        self.end_transaction(session, made).await
    }

    /// The event first: from the first step on the transaction fails if another append comes between, and
    /// from the push on those wait.
    async fn change_steps(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
        session: &mut ClientSession,
    ) -> Result<ChangedMessage, Failure> {
        let event_seq = self.append_event(conversation, &change.event, session).await?;
        let position = MessagePosition::of(conversation, change.seq);
        if matches!(change.content, ContentChange::Recall(_)) {
            let key = DocumentKey { conversation, document: position.document };
            self.end_reactions(key, &[change.seq], session).await?;
        }
        let mut filter = required_state(position.index, &change.content);
        filter.insert("_id", position.id());
        let update = change_update(position.index, &change.content, event_seq, rand::random());
        let update = self.messages.find_one_and_update(filter, update).projection(position.only_message());
        let update = update.return_document(ReturnDocument::After).max_time(self.options.command);
        let found = update.session(session).await.map_err(before_commit)?.ok_or(Failure::Unmatched)?;
        let message = position.read(&found).map_err(Failure::Final)?.ok_or(Failure::Unmatched)?;
        Ok(ChangedMessage { message, event_seq })
    }

    /// Appends the event, and returns its number.
    async fn append_event(
        &self,
        conversation: ConversationId,
        event: &NewMessage,
        session: &mut ClientSession,
    ) -> Result<Seq, Failure> {
        if let Some(document) = self.hints.get(conversation)
            && let Some(before) = self.push_event(conversation, document, event, session).await?
        {
            return Ok(document * DOCUMENT + before + 1);
        }
        let find = self.messages.find_one(documents_of(conversation)).sort(doc! { "_id": -1 });
        let find = find.projection(size_and_time()).max_time(self.options.command);
        let tail = find.session(&mut *session).await.map_err(before_commit)?.ok_or(Failure::Unmatched)?;
        let tail = summary_in(&tail).map_err(Failure::Final)?;
        if tail.is_full() {
            return self.make_with_event(conversation, tail, event, session).await;
        }
        let before = self.push_event(conversation, tail.document, event, session).await?;
        before.map(|before| tail.document * DOCUMENT + before + 1).ok_or(Failure::Unmatched)
    }

    /// Adds the event at the end of a document, and returns how many messages it had before. `None`: it does
    /// not exist, is full, or has the event.
    async fn push_event(
        &self,
        conversation: ConversationId,
        document: i64,
        event: &NewMessage,
        session: &mut ClientSession,
    ) -> Result<Option<i64>, Failure> {
        let filter = documents::room_in(conversation, document, &[event]);
        let update = self.messages.find_one_and_update(filter, documents::push_update(&[event]));
        let update = update.projection(documents::size()).max_time(self.options.command);
        let before = update.session(session).await.map_err(refused)?;
        let size = |before: RawDocumentBuf| number_in(&before, "n")?.ok_or_else(|| malformed("n"));
        before.map(size).transpose().map_err(Failure::Final)
    }

    /// Makes the document after a document that the transaction has found full. It cannot have been deleted:
    /// a transaction ends long before upkeep deletes any.
    async fn make_with_event(
        &self,
        conversation: ConversationId,
        full: DocumentSummary,
        event: &NewMessage,
        session: &mut ClientSession,
    ) -> Result<Seq, Failure> {
        let document = full.document + 1;
        let made = documents::new_document(conversation, document, &[event], full.highest);
        let made = made.map_err(Failure::Final)?;
        self.messages.insert_one(made).session(session).await.map_err(refused)?;
        Ok(document * DOCUMENT + 1)
    }

    /// Reads why a change was not made. `None`: it can be retried.
    async fn refused_change(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
    ) -> Result<Option<MessageChangeOutcome>, StoreError> {
        self.hints.forget(conversation);
        let key = change.event.key;
        let sent = self.find_sent(conversation, &[key]).await?.get(&key).copied();
        // The message is read after the event, so it has the change.
        let Some(message) = self.confirmed_message(conversation, change.seq).await? else {
            return Ok(Some(MessageChangeOutcome::Missing));
        };
        Ok(match sent.map(|sent| sent.compared_with(change.event.hash)) {
            Some(Appended::Replayed { seq: event_seq, sent: event_sent }) => {
                Some(MessageChangeOutcome::Done { message, event_seq, event_sent, replayed: true })
            }
            None if change.content.applies_to(&message) => None,
            _ => Some(MessageChangeOutcome::Refused(message)),
        })
    }

    /// The message with this number, linearizable: a found message is on a majority, and a message that is
    /// not found does not exist.
    async fn confirmed_message(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Message>, StoreError> {
        let position = MessagePosition::of(conversation, seq);
        let find = self.messages.find_one(doc! { "_id": position.id() }).projection(position.only_message());
        let find = find.read_concern(ReadConcern::linearizable()).max_time(self.options.command);
        match find.await.map_err(read_failed)? {
            Some(found) => position.read(&found),
            None => Ok(None),
        }
    }
}

/// A step that adds the event failed. A duplicate means that the event is in the log, or that another node
/// created the document.
fn refused(error: Error) -> Failure {
    if is_duplicate(&error) { Failure::Duplicate } else { before_commit(error) }
}
