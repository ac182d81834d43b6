//! The state that decides whether a user is notified about a message.

use std::fmt::Debug;

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{ConversationId, DialogKey, Edge, Seq, UserId};

use crate::{dialog::DialogRecords, error::Error, relation::Blocks, user::Accesses};

/// A user's read mark in a conversation, and whether it has set do-not-disturb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecipientState {
    pub(super) read_seq: Seq,
    pub(super) do_not_disturb: bool,
}

/// Reads users' states.
#[async_trait]
pub(super) trait RecipientStates: Debug + Send + Sync {
    /// These users' states in a conversation, in their order.
    async fn of(&self, conversation: ConversationId, users: &[UserId]) -> Result<Vec<RecipientState>, Error>;
}

/// Through this node's tiers.
#[derive(Debug)]
pub(super) struct StoredRecipientStates {
    pub(super) dialogs: DialogRecords,
    pub(super) blocks: Blocks,
    pub(super) accesses: Accesses,
}

#[async_trait]
impl RecipientStates for StoredRecipientStates {
    async fn of(&self, conversation: ConversationId, users: &[UserId]) -> Result<Vec<RecipientState>, Error> {
        let keys: Vec<DialogKey> = users.iter().map(|user| DialogKey { user: *user, conversation }).collect();
        let dialogs = self.dialogs.get_many(&keys, &Consistency::Cached).await?;
        let mut states: Vec<RecipientState> = dialogs
            .iter()
            .map(|dialog| RecipientState {
                read_seq: dialog.read.read_seq(),
                do_not_disturb: dialog.do_not_disturb,
            })
            .collect();
        if let ConversationId::Direct(one, other) = conversation {
            let peer = |user: &UserId| if *user == one { other } else { one };
            let edges: Vec<Edge> = users.iter().map(|user| Edge { from: *user, to: peer(user) }).collect();
            let set = self.blocks.get_many(&edges, &Consistency::Cached).await;
            for (state, set) in states.iter_mut().zip(set) {
                state.do_not_disturb |= set?.is_some_and(|entry| entry.value.do_not_disturb.is_some());
            }
        }
        // For a suspended user, no message is new.
        for (state, suspended) in states.iter_mut().zip(self.accesses.suspended(users).await) {
            if suspended {
                state.read_seq = Seq::MAX;
            }
        }
        Ok(states)
    }
}
