//! The receipts that this node's marks have changed.

use kith_store::{ConversationId, SeqRange};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::ReadMarks;
use crate::{
    dialog::MarkListener,
    metric::{RECEIPT_NOTIFICATIONS, count_from_zero},
};

/// Most changes that wait; further ones cause no notification.
const WAITING_MAX: usize = 10_000;

/// Listens to marks: drops the conversation's copies, and records the changed receipts.
#[derive(Clone, Debug)]
pub struct ChangedReceipts {
    marks: ReadMarks,
    changed: mpsc::Sender<ReceiptChange>,
}

/// The changes as they come.
#[derive(Debug)]
pub struct ReceiptChanges(pub(super) mpsc::Receiver<ReceiptChange>);

/// Conversation messages whose receipts may have changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiptChange {
    pub(super) conversation: ConversationId,
    pub(super) seqs: SeqRange,
}

impl ChangedReceipts {
    /// Creates it over the mark copies.
    #[must_use]
    pub fn new(marks: ReadMarks) -> (Self, ReceiptChanges) {
        count_from_zero(RECEIPT_NOTIFICATIONS, &["sent", "failed", "dropped"]);
        let (changed, changes) = mpsc::channel(WAITING_MAX);
        (Self { marks, changed }, ReceiptChanges(changes))
    }
}

impl MarkListener for ChangedReceipts {
    fn marked(&self, conversation: ConversationId, seqs: SeqRange, imported: bool) {
        self.marks.forget(conversation);
        // In direct conversations the other user is notified about the read mark.
        if imported || matches!(conversation, ConversationId::Direct(..)) {
            return;
        }
        // Closed: senders are not notified by the configuration.
        if let Err(TrySendError::Full(_)) = self.changed.try_send(ReceiptChange { conversation, seqs }) {
            metrics::counter!(RECEIPT_NOTIFICATIONS.name, "outcome" => "dropped").increment(1);
        }
    }
}
