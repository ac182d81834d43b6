//! Measures messages: appends, sends, reads and fan-outs, over what a service would do by hand with the
//! drivers.

mod append;
mod cpu;
mod inboxes;
mod mix;
mod operations;
mod raw;
mod reads;
mod sends;
mod sqlite;
mod stage;

use anyhow::Result;
use kith_store::{ContentHash, MessageKey, MessageKind, NewMessage, Timestamp, UserId};

pub(in crate::rows) use self::stage::{GROUP, MessageClient, USER, fill_through, send_batch, text};
use crate::{claims::Plan, results::Results};

/// Bytes in a body.
const BODY: usize = 200;
const CONTENT_TYPE: &str = "text/plain";

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    sqlite::rows(plan, results).await?;
    append::rows(plan, results).await?;
    Box::pin(sends::rows(plan, results)).await?;
    Box::pin(reads::rows(plan, results)).await?;
    Box::pin(operations::rows(plan, results)).await?;
    Box::pin(mix::rows(plan, results)).await?;
    cpu::rows(plan, results).await?;
    Box::pin(inboxes::rows(plan, results)).await?;
    Ok(())
}

pub(in crate::rows) fn body() -> Vec<u8> {
    vec![b'x'; BODY]
}

/// A message from user 1 that differs from all others in the run.
fn message(number: u64) -> Result<NewMessage> {
    let (sender, id) = (UserId::new(1)?, format!("c{number}"));
    Ok(NewMessage {
        key: MessageKey::of(Some(sender), &id),
        hash: ContentHash::of(CONTENT_TYPE, &body()),
        sender: Some(sender),
        sent: Timestamp::now(),
        kind: MessageKind::Message,
        content_type: CONTENT_TYPE.into(),
        body: body().into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: Some(id.as_str().into()),
    })
}
