//! Dumps the messages and dialogs that the database and each node have at the end.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use kith_proto::message::v1::{
    CountUnreadRequest, GetConversationRequest, message_service_client::MessageServiceClient,
};
use mongodb::{
    Database,
    bson::{Document, doc},
};
use tokio::time::sleep;
use tonic::{Status, transport::Channel};

use super::{
    Conversation, MessageState,
    calls::{by, logged, number},
};
use crate::{
    faults::calls::{retried, whole_log},
    history::{DialogEnd, Event, LogCopy, LoggedMessage},
};

/// Messages in a document.
const DOCUMENT: u64 = 100;
/// An event's kind, and a silent message's flag, as they are stored.
const EVENT: i32 = 2;
const SILENT: i32 = 1;
/// How often a dialog is read until it does not change meanwhile.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(300);

/// Writes down what receivers got, the logs as the database has them and as each node reads them, and the
/// dialogs as each node has them.
pub(in crate::faults) async fn dump(state: &MessageState, database: &Database) -> Result<()> {
    let mut stored = stored(database).await?;
    let write = |event: Event| state.clients.recorder.write(&event);
    let ends = stored.iter().map(|(id, messages)| (id.clone(), messages.last().map_or(0, |last| last.seq)));
    for received in state.receivers.until_complete(&ends.collect()).await? {
        write(Event::Received(received))?;
    }
    for conversation in &state.conversations {
        let messages = stored.remove(&conversation.id).unwrap_or_default();
        write(Event::Log(LogCopy { conversation: conversation.id.clone(), node: None, messages }))?;
        for (node, channel) in (0..).zip(&state.clients.nodes) {
            let messages = retried(async || whole_log(channel, &conversation.id, 0).await).await?;
            let messages = messages.iter().map(logged).collect::<Result<_, _>>()?;
            write(Event::Log(LogCopy { conversation: conversation.id.clone(), node: Some(node), messages }))?;
            for user in &conversation.users {
                write(Event::Dialog(dialog(channel, node, *user, conversation).await?))?;
            }
        }
    }
    ensure!(stored.is_empty(), "the database has conversations of no client: {:?}", stored.keys());
    Ok(())
}

/// All logs, from their documents: a message's place is its number.
pub(in crate::faults) async fn stored(database: &Database) -> Result<BTreeMap<String, Vec<LoggedMessage>>> {
    let messages = database.collection::<Document>("messages");
    let mut documents = messages.find(doc! {}).sort(doc! { "_id": 1 }).await?;
    let mut logs: BTreeMap<String, Vec<LoggedMessage>> = BTreeMap::new();
    while let Some(document) = documents.try_next().await? {
        let id = document.get_document("_id")?;
        let first = id.get_i64("d")?.cast_unsigned() * DOCUMENT + 1;
        let log = logs.entry(id.get_str("c")?.to_owned()).or_default();
        for (seq, element) in (first..).zip(document.get_array("m")?) {
            log.push(element_of(seq, element.as_document().context("an element is no document")?)?);
        }
    }
    Ok(logs)
}

fn element_of(seq: u64, element: &Document) -> Result<LoggedMessage> {
    let is_event = element.get_i32("y")? == EVENT;
    let value =
        || -> Option<u64> { std::str::from_utf8(element.get_binary_generic("b").ok()?).ok()?.parse().ok() };
    Ok(LoggedMessage {
        seq,
        value: (!is_event).then(|| value().unwrap_or_default()),
        sender: element.get_i64("f")?,
        silent: element.get_i32("x")? & SILENT != 0,
    })
}

/// A dialog that did not change while it was read: a mark may still be on its way.
async fn dialog(node: &Channel, number: u32, user: i64, conversation: &Conversation) -> Result<DialogEnd> {
    let read = async || read_dialog(node, number, user, &conversation.id).await;
    let mut before = retried(read).await?;
    for _ in 0..TRIES {
        let end = retried(read).await?;
        if end == before {
            return Ok(end);
        }
        before = end;
        sleep(PAUSE).await;
    }
    anyhow::bail!("the dialog of {user} in {} does not come to rest: {before:?}", conversation.id)
}

async fn read_dialog(node: &Channel, at: u32, user: i64, conversation: &str) -> Result<DialogEnd, Status> {
    let client = MessageServiceClient::new(node.clone());
    let conversation_id = conversation.to_owned();
    let request = GetConversationRequest { conversation_id, ..Default::default() };
    let call =
        by(client.clone(), user, request, async |mut client, request| client.get_conversation(request).await);
    let shown = call.await?.conversation.ok_or_else(|| Status::internal("an answer without conversation"))?;
    let request =
        CountUnreadRequest { conversation_ids: vec![conversation.to_owned()], ..Default::default() };
    let call = by(client, user, request, async |mut client, request| client.count_unread(request).await);
    // A conversation without unread messages is left out.
    let counted = call.await?.counts.into_iter().next().unwrap_or_default();
    Ok(DialogEnd {
        user,
        conversation: conversation.to_owned(),
        node: at,
        read_seq: number(shown.read_seq)?,
        min: number(shown.min_seq)?,
        max: number(shown.max_seq)?,
        unread: (number(shown.unread)?, shown.unread_more),
        counted: (number(counted.unread)?, counted.more),
    })
}
