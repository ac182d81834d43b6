//! The peer's part of a direct conversation: its read mark, and whether the user is notified of its messages.

use std::{collections::HashMap, sync::Arc};

use kith_cache::Consistency;
use kith_store::{Block, ConversationId, Dialog, DialogKey, Edge, Seq, UserId};

use super::Dialogs;
use crate::error::Error;

/// The peer's part of a direct conversation; the default for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peer {
    /// The number up to which the other user has read everything; 0 if either user has blocked the other.
    pub(super) read_seq: Seq,
    /// Whether the user has set do-not-disturb for the other user.
    pub(super) do_not_disturb: bool,
}

impl Dialogs {
    /// Returns the peers in these conversations, in their order. Their dialogs and their settings for each
    /// other come through the tiers.
    pub(super) async fn peers(
        &self,
        keys: &[DialogKey],
        consistency: &Consistency,
    ) -> Result<Vec<Peer>, Error> {
        let edges: Vec<Edge> = keys.iter().filter_map(|key| edge_of(*key)).collect();
        if edges.is_empty() {
            return Ok(vec![Peer::default(); keys.len()]);
        }
        let both: Vec<Edge> = edges.iter().flat_map(|edge| [*edge, edge.reversed()]).collect();
        let theirs: Vec<DialogKey> = edges.iter().map(|edge| dialog_of_peer(*edge)).collect();
        let (blocks, dialogs) = tokio::join!(
            self.messages.dependencies.blocks.get_many(&both, &Consistency::Cached),
            self.messages.dialogs.get_many(&theirs, consistency)
        );
        let mut set: HashMap<Edge, Arc<Block>> = HashMap::with_capacity(both.len());
        for found in blocks {
            set.extend(found?.map(|entry| (entry.value.edge, entry.value)));
        }
        let dialogs: HashMap<DialogKey, Arc<Dialog>> = theirs.into_iter().zip(dialogs?).collect();
        Ok(keys.iter().map(|key| peer(*key, &set, &dialogs)).collect())
    }
}

fn peer(key: DialogKey, set: &HashMap<Edge, Arc<Block>>, dialogs: &HashMap<DialogKey, Arc<Dialog>>) -> Peer {
    let Some(edge) = edge_of(key) else { return Peer::default() };
    let [own, other] = [edge, edge.reversed()].map(|edge| set.get(&edge));
    let is_blocked = [own, other].into_iter().flatten().any(|block| block.blocked.is_some());
    let read = dialogs.get(&dialog_of_peer(edge)).map_or(0, |dialog| dialog.read.shown_seq());
    Peer {
        read_seq: if is_blocked { 0 } else { read },
        do_not_disturb: own.is_some_and(|block| block.do_not_disturb.is_some()),
    }
}

/// The other user of a direct conversation; `None`: a group, or notes to oneself.
pub(super) fn peer_of(key: DialogKey) -> Option<UserId> {
    edge_of(key).map(|edge| edge.to)
}

/// The edge from the user to its peer; `None`: a group, or notes to oneself.
fn edge_of(key: DialogKey) -> Option<Edge> {
    let ConversationId::Direct(one, other) = key.conversation else { return None };
    let peer: UserId = if one == key.user { other } else { one };
    (peer != key.user).then_some(Edge { from: key.user, to: peer })
}

fn dialog_of_peer(edge: Edge) -> DialogKey {
    DialogKey { user: edge.to, conversation: ConversationId::direct(edge.from, edge.to) }
}
