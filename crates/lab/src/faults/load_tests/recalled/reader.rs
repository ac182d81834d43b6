//! Reads a conversation through all nodes, and looks for removed contents.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{MessagePair, READS, RemovedContents, SHOWN, Workload};
use crate::{
    faults::messages::PreparedCall,
    history::{LoggedMessage, MessageOutcome, MessageRequest, Pages},
};

/// The pause after a failed read, and between two successful reads.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a page is attempted at the end.
const TRIES: usize = 20;

/// Reads one conversation.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) state: Arc<Workload>,
    pub(super) pair: MessagePair,
    /// The pair's writer has removed these.
    pub(super) removed: Arc<RemovedContents>,
}

impl Reader {
    pub(super) fn new(state: &Arc<Workload>, pair: MessagePair) -> Self {
        Self { state: Arc::clone(state), pair, removed: Arc::default() }
    }

    /// Reads the last messages, so that there are windows and reads under way while messages are changed.
    pub(super) async fn work(self) -> Result<()> {
        for node in (0..self.state.nodes.len()).cycle() {
            if self.state.progress.is_over() {
                break;
            }
            self.read(node, Pages::Before(0)).await;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Reads the whole log through each node.
    pub(super) async fn read_all(&self) {
        for node in 0..self.state.nodes.len() {
            let mut from = 1;
            while let Some(last) = self.read_page(node, from).await {
                from = last + 1;
            }
        }
    }

    /// Reads messages through a node, and judges them. `None`: nothing was answered.
    pub(super) async fn read(&self, node: usize, pages: Pages) -> Option<Vec<LoggedMessage>> {
        let began = Instant::now();
        let conversation = self.pair.conversation();
        let request =
            MessageRequest::Read { user: self.pair.other, conversation, pages: pages.clone(), at_least: 0 };
        match (PreparedCall { request, named: false }).send(self.state.nodes[node].clone()).await {
            MessageOutcome::Read { messages, .. } => {
                self.state.count(READS, 1);
                if let Some(message) = self.removed.shown(&messages, began) {
                    let about = || format!("{message:?} by {pages:?} of {:?} on node {node}", self.pair);
                    self.state.add_violation(SHOWN, about);
                }
                Some(messages)
            }
            MessageOutcome::Refused(code) | MessageOutcome::Open(code) => {
                self.state.fail(&code);
                None
            }
            MessageOutcome::Sent(_) | MessageOutcome::Marked(_) => None,
        }
    }

    /// The last message's number on a page; `None`: there is no message.
    async fn read_page(&self, node: usize, from: u64) -> Option<u64> {
        for _ in 0..TRIES {
            if let Some(messages) = self.read(node, Pages::From(from)).await {
                return messages.last().map(|message| message.seq);
            }
            sleep(PAUSE).await;
        }
        None
    }
}
