//! Wakes: messages that notify a node about new entries in inboxes. If a wake is lost, a later read finds the
//! entries; a lost signal is not sent again.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use kith_store::{ConversationId, NodeName, Seq, Timestamp, UserId};

use super::{Generation, Position};

/// Messages that were just sent, in a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessages {
    /// The conversation.
    pub conversation: ConversationId,
    /// The last message's number.
    pub last: Seq,
    /// When the last message was sent. The entries are used for a short time after it: the messages may be
    /// changed later.
    pub sent: Timestamp,
    /// Entries ([`crate::entry`]) for the last messages, by rising number, up to `last`; none if they are too
    /// large for a wake.
    pub entries: Vec<Bytes>,
}

impl SentMessages {
    /// Copies the messages with as many of the last entries as fit into this many bytes.
    pub(super) fn within(&self, bytes: usize) -> Self {
        let mut room = bytes;
        let fits = |entry: &&Bytes| match room.checked_sub(entry.len()) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        let count = self.entries.iter().rev().take_while(fits).count();
        let entries = self.entries[self.entries.len() - count..].to_vec();
        Self { entries, ..*self }
    }
}

/// A user whose inbox got an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WokenUser {
    /// The inbox's user.
    pub user: UserId,
    /// The inbox's generation.
    pub generation: Generation,
    /// The entry's position.
    pub position: Position,
    /// The entry's first number; `None`: the conversation is new to the inbox.
    pub first: Option<Seq>,
}

/// The content of a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Messages were entered into inboxes.
    Messages {
        /// The messages that were sent.
        sent: SentMessages,
        /// Users whose inboxes have the entry.
        woken: Vec<WokenUser>,
        /// Users whose inboxes have ended: their receivers cannot continue.
        lost: Vec<UserId>,
    },
    /// An inbox has entries up to this position, which are to be read.
    Entries {
        /// The woken user.
        user: UserId,
        /// The inbox's generation.
        generation: Generation,
        /// The last entry's position.
        position: Position,
    },
    /// An inbox has ended: the user's receivers cannot continue.
    Lost {
        /// The user of the inbox.
        user: UserId,
    },
    /// A signal to those who receive now. It is in no inbox.
    Signal {
        /// The signalled user.
        user: UserId,
        /// The bytes that its sender gave.
        signal: Bytes,
    },
    /// Messages in a conversation that is not written to inboxes, for nodes that registered at it.
    Conversation(SentMessages),
}

/// A wake and the node that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWake {
    /// The woken node.
    pub node: NodeName,
    /// The wake for it.
    pub wake: Wake,
}

impl NodeWake {
    /// Makes the same wake for each node.
    pub(super) fn for_each(nodes: Vec<NodeName>, wake: &Wake) -> Vec<Self> {
        nodes.into_iter().map(|node| Self { node, wake: wake.clone() }).collect()
    }
}

/// An event in a node's subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeEvent {
    /// A wake arrived.
    Wake(Wake),
    /// Wakes before this may be lost, and none from here on: all receivers read again. It is the first event
    /// in every subscription.
    Interrupted,
}

/// A node's wakes, as they arrive.
#[async_trait]
pub trait WakeSubscription: Send + fmt::Debug {
    /// Waits for the next event. Subscribes first, and again when the subscription was lost, as often as it
    /// takes. Wakes that are not taken in time are dropped; [`WakeEvent::Interrupted`] says so.
    ///
    /// May be cancelled; nothing is lost then.
    async fn next(&mut self) -> WakeEvent;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_entries_that_have_room_are_carried() {
        let entries: Vec<Bytes> = [5, 1, 2, 3].map(|length| vec![b'x'; length].into()).to_vec();
        let conversation = "g9".parse().unwrap();
        let sent = SentMessages { conversation, last: 9, sent: Timestamp(1), entries };
        let carried = |bytes| sent.within(bytes).entries.iter().map(Bytes::len).collect::<Vec<_>>();
        assert_eq!(carried(11), [5, 1, 2, 3]);
        assert_eq!(carried(10), [1, 2, 3]);
        assert_eq!(carried(5), [2, 3]);
        assert_eq!(carried(4), [3], "those before one that is left out are left out");
        assert!(carried(2).is_empty());
    }
}
