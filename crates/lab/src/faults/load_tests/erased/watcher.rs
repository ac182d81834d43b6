//! Reads the conversations through all nodes.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use kith_proto::message::v1::{
    Message, PullMessagesRequest, event::What, message_service_client::MessageServiceClient,
};
use tokio::time::sleep;

use super::{ERASED, ErasureTest, SECRET};
use crate::faults::calls::with_deadline;

/// The largest page.
const PAGE: i32 = 1_000;
/// How often a conversation is read until there is an answer.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Counts what was read: contents and events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) contents: u64,
    /// Contents below the event that announces their erasure, on the same page.
    pub(super) with_events: u64,
    pub(super) events: u64,
}

/// Reads as a service. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Watcher(Arc<ErasureTest>);

impl Watcher {
    pub(super) fn new(state: &Arc<ErasureTest>) -> Self {
        Self(Arc::clone(state))
    }

    /// Reads one conversation after the other until it is dropped.
    pub(super) async fn work(self) {
        let all = (0..self.0.conversations)
            .flat_map(|number| (0..self.0.nodes.len()).map(move |node| (number, node)));
        for (number, node) in all.cycle() {
            // A node that was killed does not answer.
            if self.read(number, node).await.is_none() {
                sleep(PAUSE).await;
            }
        }
    }

    /// Reads all conversations through each node.
    ///
    /// # Errors
    /// If a conversation is not answered.
    pub(super) async fn read_all(&self) -> Result<()> {
        for number in 0..self.0.conversations {
            for node in 0..self.0.nodes.len() {
                self.until_read(number, node)
                    .await
                    .with_context(|| format!("node {node} answers nothing"))?;
            }
        }
        Ok(())
    }

    async fn until_read(&self, number: u64, node: usize) -> Option<()> {
        for _ in 0..TRIES {
            if let Some(()) = self.read(number, node).await {
                return Some(());
            }
            sleep(PAUSE).await;
        }
        None
    }

    /// Reads a whole conversation through a node, and counts. `None`: it is not answered.
    async fn read(&self, number: u64, node: usize) -> Option<()> {
        let request = PullMessagesRequest {
            conversation_id: format!("d{ERASED}-{}", number + 2),
            limit: PAGE,
            ..PullMessagesRequest::default()
        };
        let mut client = MessageServiceClient::new(self.0.nodes[node].clone());
        let page = client.pull_messages(with_deadline(request)).await.ok()?.into_inner();
        self.0.found.lock().add(&page.messages);
        Some(())
    }
}

impl Found {
    fn add(&mut self, messages: &[Message]) {
        let event = messages.iter().filter(|message| is_event(message)).map(|message| message.seq).max();
        let contents = || messages.iter().filter(|message| has_secret(message));
        let below = |message: &&Message| event.is_some_and(|event| message.seq < event);
        self.contents += count(contents());
        self.with_events += count(contents().filter(below));
        self.events += count(messages.iter().filter(|message| is_event(message)));
    }
}

fn has_secret(message: &Message) -> bool {
    message.body.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

fn is_event(message: &Message) -> bool {
    matches!(message.event.as_ref().and_then(|event| event.what.as_ref()), Some(What::Erased(_)))
}

fn count<'a>(messages: impl Iterator<Item = &'a Message>) -> u64 {
    u64::try_from(messages.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use kith_proto::message::v1::{Event, MessagesErased};

    use super::*;

    fn secret(seq: i64) -> Message {
        Message { seq, body: format!("{SECRET}-7").into(), ..Message::default() }
    }

    fn event(seq: i64) -> Message {
        let what = Some(What::Erased(MessagesErased { user_id: ERASED }));
        Message { seq, event: Some(Event { what }), ..Message::default() }
    }

    #[test]
    fn content_below_its_event_is_counted() {
        let mut found = Found::default();
        found.add(&[secret(1), Message { seq: 2, body: "kept".into(), ..Message::default() }, secret(3)]);
        assert_eq!((found.contents, found.with_events, found.events), (2, 0, 0));
        found.add(&[secret(1), event(4), secret(5)]);
        assert_eq!((found.contents, found.with_events, found.events), (4, 1, 1));
    }
}
