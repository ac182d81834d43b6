//! Notes of steps whose messages may not be in all inboxes yet.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kith_delivery::{FanOutNote, FanOutNotes, NodeName};
use kith_store::ConversationId;

/// Most notes of steps that are removed together; further ones are left to the node that looks for notes.
const KEPT_MAX: usize = 100;

/// The notes of this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StepNotes {
    pub(super) keeper: Arc<dyn FanOutNotes>,
    node: NodeName,
    next: Arc<AtomicU64>,
}

/// Steps that are noted. Their notes are removed when their messages are delivered.
#[derive(Debug, Default)]
#[must_use = "the notes are removed when the messages are delivered"]
pub(in crate::message) struct Begun(Vec<FanOutNote>);

impl StepNotes {
    /// Kept by `keeper`. `node`: the name of this node, another one for each start.
    #[must_use]
    pub fn new(keeper: Arc<dyn FanOutNotes>, node: NodeName) -> Self {
        Self { keeper, node, next: Arc::default() }
    }

    /// Notes a step. If Redis does not answer there is no note, and the step goes on.
    pub(super) async fn begin(&self, conversation: ConversationId) -> Begun {
        let step = self.next.fetch_add(1, Ordering::Relaxed);
        let note = FanOutNote { conversation, node: self.node.clone(), step };
        // It may be there also after an error.
        self.keeper.begin(&note).await.ok();
        Begun(vec![note])
    }

    /// Removes the notes of steps, in the background. One that stays is found, and its conversation is delivered again.
    pub(super) fn end(&self, Begun(notes): Begun) {
        if notes.is_empty() {
            return;
        }
        let keeper = Arc::clone(&self.keeper);
        tokio::spawn(async move { keeper.end(&notes).await.ok() });
    }
}

impl Begun {
    /// Both.
    pub(super) fn and(&mut self, other: Self) {
        let room = KEPT_MAX.saturating_sub(self.0.len());
        self.0.extend(other.0.into_iter().take(room));
    }
}
