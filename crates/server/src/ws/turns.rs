//! The order of sends: one socket's sends to one conversation are made one after the other, as their frames
//! came.

use std::{collections::HashMap, convert::Infallible};

use kith_store::ConversationId;
use tokio::sync::oneshot::{self, Receiver, Sender, error::TryRecvError};

/// One socket's sends that have not ended. A socket has few calls at a time, so this has few entries.
#[derive(Debug, Default)]
pub(super) struct SendTurns(HashMap<ConversationId, Receiver<Infallible>>);

/// One send's turn. It ends when it is dropped, however the send ended.
#[derive(Debug)]
pub(super) struct SendTurn {
    before: Option<Receiver<Infallible>>,
    _ends: Sender<Infallible>,
}

impl SendTurns {
    /// Returns the turn after all earlier sends to this conversation.
    pub(super) fn next(&mut self, conversation: ConversationId) -> SendTurn {
        self.0.retain(|_, last| last.try_recv() == Err(TryRecvError::Empty));
        let (ends, last) = oneshot::channel();
        SendTurn { before: self.0.insert(conversation, last), _ends: ends }
    }
}

impl SendTurn {
    /// Waits until the send before it has ended, whether it succeeded or not.
    pub(super) async fn begin(&mut self) {
        if let Some(before) = self.before.take() {
            let Err(_ended) = before.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn group(id: &str) -> ConversationId {
        id.parse().unwrap()
    }

    #[test]
    fn turn_waits_for_the_one_before_alone() {
        let mut turns = SendTurns::default();
        let first = turns.next(group("g9"));
        let (mut second, mut other) = (turns.next(group("g9")), turns.next(group("d7-8")));
        assert_eq!(other.begin().now_or_never(), Some(()));
        {
            let mut waits = std::pin::pin!(second.begin());
            assert_eq!(waits.as_mut().now_or_never(), None);
            drop(first);
            assert_eq!(waits.now_or_never(), Some(()));
        }
        let mut third = turns.next(group("g9"));
        let mut waits = std::pin::pin!(third.begin());
        assert_eq!(waits.as_mut().now_or_never(), None);
        drop(second);
        assert_eq!(waits.now_or_never(), Some(()));
    }

    #[test]
    fn ended_turns_are_forgotten() {
        let mut turns = SendTurns::default();
        for at in 1..100 {
            drop(turns.next(group(&format!("g{at}"))));
        }
        assert_eq!(turns.0.len(), 1);
    }
}
