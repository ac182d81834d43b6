//! The record of a run: every call with its answer, the faults of the cluster, and all stored data at the end.
//!
//! A history is a file of lines, each an [`Event`] as JSON, in no order. Times are nanoseconds since the begin of the run, by
//! the clock of this program.

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

/// A line of a history.
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
    /// The relation of one user to another one at the end.
    Edge(EdgeEnd),
    /// The lists of a user at the end.
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

/// One call about users, and its result. A client makes one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The caller.
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
    /// The request.
    pub what: UserRequest,
    /// The request id of a write; the same for one that is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The result.
    pub outcome: Outcome,
}

/// What a call about users requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRequest {
    /// A read at this consistency level.
    Read(Level),
    /// A record is created under a unique name.
    Create {
        /// The name; unique among existing records.
        name: String,
        /// What is written.
        value: u64,
    },
    /// The value is written; no two writes of a run write the same one.
    Update {
        /// What is written.
        value: u64,
    },
    /// The record is deleted, and its name is free.
    Delete,
}

/// The consistency level of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Within the bound.
    Cached,
    /// At least this version, by a token.
    AtLeast(u64),
    /// The newest.
    Strong,
}

/// The result of a call about users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A read found this, or a write made it.
    Done {
        /// The version of the record; increases by one with each write.
        version: u64,
        /// The value of the record.
        value: u64,
        /// For a creation: the key of the new record.
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
    /// When.
    pub at: u64,
    /// The fault: the name of a row, and of a node where it met one.
    pub what: String,
    /// Whether it began, or ended.
    pub on: bool,
}

/// A restart of a node: its memory is lost, and calls that begin later are answered by the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStart {
    /// Which.
    pub node: u32,
    /// When; the previous process had ended.
    pub at: u64,
}

/// The copy of a record in one place at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordEnd {
    /// Which record.
    pub key: String,
    /// Where.
    pub place: CopyPlace,
    /// Its version, and its value if the place shows it; `None`: there is no copy.
    pub state: Option<(u64, Option<u64>)>,
    /// Whether the place knows that there is no such record.
    pub gone: bool,
}

/// A place that stores copies of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyPlace {
    /// The source of truth.
    Store,
    /// The tier that nodes share.
    Redis,
    /// The memory of a node.
    Memory(u32),
}
