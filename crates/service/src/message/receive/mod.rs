//! Receive: a user's new messages and notes, as a stream.
//!
//! **Inbox.** Each user who receives has an inbox with number ranges (`kith-delivery`). A stream is a
//! position in it, and holds no queue: a slow reader continues from the inbox, and gets a reset if the inbox
//! no longer reaches back far enough.
//!
//! **Once, in order.** A conversation's ranges are contiguous and rise. A stream that begins with positions
//! first delivers from the log up to the inbox's marks, then from the inbox above them.
//!
//! **Large groups** are not written to inboxes. The node registers at their conversations, and reads them for
//! its streams (`logs.rs`). Those for which a stream has no room are named as missed (`named_logs.rs`).
//!
//! **Clients that are lost** are noticed late. A connection that hears its client says so (`liveness.rs`);
//! what the client may not have is entered for pushes (`lost.rs`), also when the node is gone
//! (`deliver/abandoned.rs`).
//!
//! **Notice totals** are computed by the notice domain, and are in no cursor.
//!
//! **Rights.** A range is cut to what the user may read when it is delivered, by the strict member record.
//! Messages are read then, too; a wake's messages are used for [`FRESH_FOR`] after they were sent.

mod catch_up;
mod connection_signs;
mod convert;
mod cursor;
mod hub;
mod in_process;
mod liveness;
mod logs;
mod lost;
mod named_logs;
mod range;
mod receiver;
mod receivers;
mod response;
mod rpc;
mod signals;
mod start;
mod tracked_logs;
mod waker;

use std::{any::Any, fmt, sync::Arc, time::Duration};

use kith_delivery::{InboxKeeper, InboxLimits, ReadFrom};
use kith_store::UserId;
use tokio_util::task::TaskTracker;

pub(super) use self::convert::{profile_to_bytes, reactions_to_bytes, read_to_bytes, receipts_to_bytes};
pub use self::{
    connection_signs::ConnectionSigns,
    in_process::ResponseSlot,
    liveness::{ConnectionRequest, ReceiverLiveness},
    receivers::receivers_job,
    rpc::ReceiveRpc,
};
use self::{cursor::Cursors, hub::ReceiverHub, signals::SignalLimit};
use super::{Delivery, Dialogs, Inboxes, Messages, MessagesConfig};
use crate::{
    metric::{RECEIVE_CATCH_UPS, RECEIVE_LAG_SECONDS, RECEIVE_RESETS, RECEIVERS, SIGNALS, count_from_zero},
    notice::LiveTotals,
    rpc::page_token::PageTokens,
};

/// How long messages are delivered from a wake: after that, a recalled one must not be delivered.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// Shows users as online while they receive. Presence implements it.
pub trait ReceiverSessions: fmt::Debug + Send + Sync {
    /// Begins a user's session on this device. It ends when the result is dropped.
    fn begin(&self, user: UserId, device: &str) -> Box<dyn Any + Send + Sync>;
}

/// The streams' shared state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receiving(Arc<ReceiversInner>);

#[derive(Debug)]
struct ReceiversInner {
    dialogs: Dialogs,
    messages: Messages,
    delivery: Delivery,
    hub: Arc<ReceiverHub>,
    cursors: Cursors,
    signals: SignalLimit,
    totals: LiveTotals,
    sessions: Arc<dyn ReceiverSessions>,
    config: MessagesConfig,
    /// The receivers whose clients were lost.
    lost: TaskTracker,
}

impl Receiving {
    /// Creates it over the inboxes to which `delivery` delivers. `tokens` issues cursors. `totals`: the
    /// users' notice totals. `sessions`: for streams that name their device.
    #[must_use]
    pub fn new(
        dialogs: Dialogs,
        messages: Messages,
        delivery: Delivery,
        tokens: PageTokens,
        totals: LiveTotals,
        sessions: Arc<dyn ReceiverSessions>,
    ) -> Self {
        metrics::gauge!(RECEIVERS.name).set(0.0);
        count_from_zero(RECEIVE_RESETS, &["lost", "behind", "cursor", "start"]);
        count_from_zero(RECEIVE_CATCH_UPS, &[]);
        count_from_zero(SIGNALS, &["typing", "stopped", "read"]);
        drop(metrics::histogram!(RECEIVE_LAG_SECONDS.name));
        let config = messages.config;
        let hub = ReceiverHub::new(delivery.inboxes().clone(), config.receivers, config.receivers_of_user);
        let hub = Arc::new(hub.noting_confirmed(delivery.names_for_other_nodes()));
        Self(Arc::new(ReceiversInner {
            dialogs,
            messages,
            delivery,
            hub,
            cursors: Cursors::new(tokens),
            signals: SignalLimit::default(),
            totals,
            sessions,
            config,
            lost: TaskTracker::new(),
        }))
    }
}

impl ReceiversInner {
    fn inboxes(&self) -> &Inboxes {
        self.delivery.inboxes()
    }

    fn keeper(&self) -> &dyn InboxKeeper {
        &*self.inboxes().keeper
    }

    fn limits(&self) -> &InboxLimits {
        self.delivery.limits()
    }

    /// Lets other nodes know what this node's receivers have confirmed, in case it dies. If it fails, they
    /// know what was noted before.
    async fn note_confirmed(&self, confirmed: &[ReadFrom]) {
        if self.hub.notes_confirmed() && !confirmed.is_empty() {
            self.keeper().confirm(&self.inboxes().node, confirmed).await.ok();
        }
    }
}
