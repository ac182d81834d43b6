//! The record of a run: every call with its answer, the cluster's faults, and all stored data at the end.
//!
//! A history is a file with lines, each an [`Event`] as JSON, in no order. Times are nanoseconds since the
//! run's begin, by this program's clock.

mod file;
mod message;
mod relation;

use serde::{Deserialize, Serialize};

pub use file::{Recorder, read};
pub use message::{
    DialogEnd, Draft, LogCopy, LoggedMessage, MessageCall, MessageOutcome, MessageRequest, Pages,
    ReceivedMessages, ReceivedRun, SendOutcome,
};
pub use relation::{
    Edge, EdgeEnd, ListsEnd, RelationCall, RelationOutcome, RelationRequest, Setting, Settings, Side,
};

/// A line in a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A call that a client made.
    Call(Call),
    /// A fault began or ended.
    Fault(Fault),
    /// A copy of a record at the end, in one place.
    Held(RecordEnd),
    /// A call about relations that a client made.
    Relation(RelationCall),
    /// One user's relation to another at the end.
    Edge(EdgeEnd),
    /// A user's lists at the end.
    Lists(ListsEnd),
    /// A node was started again.
    Started(NodeStart),
    /// A call about messages that a client made.
    Message(MessageCall),
    /// A log at the end.
    Log(LogCopy),
    /// A dialog at the end.
    Dialog(DialogEnd),
    /// The messages that a receiver got.
    Received(ReceivedMessages),
}

/// A call about users, and its result. A client makes its calls in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The calling client.
    pub client: u32,
    /// Whether the client stays with one node.
    pub pinned: bool,
    /// Which node was called.
    pub node: u32,
    /// When it was sent.
    pub began: u64,
    /// When its answer came; for [`Outcome::Open`] when it was given up.
    pub ended: u64,
    /// Which record: `user:42`, or `name:ada` for a creation whose answer contains no id.
    pub key: String,
    /// The request that was sent.
    pub what: UserRequest,
    /// A write's request id. A repeated write has the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The call's result.
    pub outcome: Outcome,
}

/// A request about users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRequest {
    /// A read at this consistency level.
    Read(Level),
    /// A record is created under a unique name.
    Create {
        /// The name; unique among existing records.
        name: String,
        /// The written value.
        value: u64,
    },
    /// The value is written. All writes in a run have different values.
    Update {
        /// The written value.
        value: u64,
    },
    /// The record is deleted, and its name is free.
    Delete,
}

/// A read's consistency level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Within the bound.
    Cached,
    /// At least the version in a token.
    AtLeast(u64),
    /// The newest state.
    Strong,
}

/// The result of a call about users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A read found this, or a write made it.
    Done {
        /// The record's version. Increases by 1 with each write.
        version: u64,
        /// The record's value.
        value: u64,
        /// For a creation: the new record's key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// There is no such record, or the write deleted it.
    Gone,
    /// Certainly not done; the code is the reason.
    Refused(String),
    /// Done, or not, or still to be done; the code is the reason.
    Open(String),
}

/// The begin or end of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When it began or ended.
    pub at: u64,
    /// The fault: the row's name, and the node's name if it affected a single node.
    pub what: String,
    /// Whether it began, or ended.
    pub on: bool,
}

/// A node's restart: its memory is lost, and calls that begin later are answered by the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStart {
    /// The node that restarted.
    pub node: u32,
    /// When; the previous process had ended.
    pub at: u64,
}

/// A record's copy in one place at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordEnd {
    /// The record's key.
    pub key: String,
    /// The place that has the copy.
    pub place: CopyPlace,
    /// Its version, and its value if the place shows it; `None`: there is no copy.
    pub state: Option<(u64, Option<u64>)>,
    /// Whether the place knows that there is no such record.
    pub gone: bool,
}

/// A place that stores record copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyPlace {
    /// The source of truth.
    Store,
    /// The tier that nodes share.
    Redis,
    /// A node's memory.
    Memory(u32),
}
