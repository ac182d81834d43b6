//! Conversation messages: sends, and reads by number.
//!
//! **Numbers.** A message gets its number from its append ([`kith_store::MessageStore`]). Appends to one
//! conversation on one node are made one step at a time, many messages in a step (`queue`). Nodes need not
//! know each other.
//!
//! **Once.** A send is repeated with the same `client_message_id`, and the store detects the repetition. A
//! send's step runs to its end, also if its caller goes away.
//!
//! **Rights.** Decided before the append, by records that are strict: members, rosters and blocks. A send
//! that began before a removal was acknowledged may still be stored. A user may read a range of numbers in a
//! group, which is part of its membership, cut by its dialog and by the conversation's record.
//!
//! **Dialogs.** Every sender has a dialog, made before its first message, and its own messages are marked as
//! read. The mark is not waited for, and is repeated until it is stored: a node that dies leaves others'
//! earlier messages unread if they were answered within its last second.
//!
//! **Changes.** A recall or an edit changes a message in one transaction with its event (`changes`).
//!
//! **Events.** A group's joins, leaves and new names are messages in its conversation, appended after the
//! change is stored (`group_events`).
//!
//! **Freshness.** A conversation's last messages are read from its window in Redis (`kith-delivery`), others
//! from the store. A read sees every send that was acknowledged before it began; if the sender's node died,
//! or was cut from Redis, before the window had the message, 10 s later at the latest.

mod at_least;
mod changes;
mod config;
mod convert;
mod deliver;
mod dialog;
pub mod documents;
mod erasing;
mod event;
#[cfg(test)]
mod fake_logs;
#[cfg(test)]
mod faulty_inboxes;
mod group_changes;
mod group_events;
mod import;
mod import_marks;
mod inboxes;
mod logs;
mod notes;
mod offline;
mod own_marks;
mod profile_signals;
mod queue;
mod range;
pub mod reaction;
mod reading;
mod receive;
mod rights;
mod rpc;
#[cfg(test)]
mod sample;
mod send_times;
mod sending;
mod sent_messages;
mod service;
#[cfg(test)]
mod steps;
mod unseen;
mod upkeep;
mod waiting;

use at_least::AtLeast;
pub use config::{DirectFrom, MessagesConfig};
use convert::{acting_user, conversation, conversations, message_to_wire, number};
pub use deliver::{Delivery, FanOutRetries, Recipients, StepNotes, resumption_job};
pub use dialog::{DialogRpc, Dialogs};
pub use erasing::ErasureCleanup;
pub use group_events::GroupEvents;
pub use inboxes::Inboxes;
pub use logs::Logs;
pub use notes::Notes;
pub use offline::{OfflineLogs, OfflineRpc};
pub use profile_signals::ProfileSignals;
pub use queue::AppendQueue;
use range::{ReadBounds, ReadRange, no_conversation, store_error};
pub use reaction::{ReactionCleanup, ReactionRecords};
pub use receive::{
    ConnectionRequest, ConnectionSigns, ReceiveRpc, ReceiverLiveness, ReceiverSessions, Receiving,
    ResponseSlot, receivers_job,
};
pub use rpc::MessageRpc;
pub(crate) use sent_messages::SentMessages;
pub use service::{ConversationData, MessageDependencies, Messages};
pub use upkeep::{UpkeepNode, upkeep_job};
