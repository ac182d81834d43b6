//! What a run has seen: every call with its answer, what was done to the cluster, and what was held in the end.
//!
//! A history is a file of lines, each one [`Event`] as JSON, in no order. Times are nanoseconds since the run
//! began, by the one clock of the harness.

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
    /// Something was done to the cluster, or undone.
    Fault(Fault),
    /// What a record was at the end, in one place.
    Held(RecordEnd),
    /// A call about relations that a client made.
    Relation(RelationCall),
    /// What was from one user to another one at the end.
    Edge(EdgeEnd),
    /// What the lists of a user were at the end.
    Lists(ListsEnd),
    /// A node was started again.
    Started(NodeStart),
    /// A call about messages that a client made.
    Message(MessageCall),
    /// A log at the end.
    Log(LogCopy),
    /// A dialog at the end.
    Dialog(DialogEnd),
    /// What a receiver got until the end.
    Received(ReceivedMessages),
}

/// One call, and what came of it. A client makes one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Who called.
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
    /// What was asked for.
    pub what: UserRequest,
    /// By which a write is known when it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRequest {
    /// A read that must be as new as its level says.
    Read(Level),
    /// A record is made under a unique name.
    Create {
        /// The name; unique among living records.
        name: String,
        /// What is written.
        value: u64,
    },
    /// The value is written; no two writes of a run write the same.
    Update {
        /// What is written.
        value: u64,
    },
    /// The record is deleted, and its name is free.
    Delete,
}

/// How new a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Within the bound.
    Cached,
    /// At least this version, which a token stood for.
    AtLeast(u64),
    /// The newest.
    Strong,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A read found this, or a write made it so.
    Done {
        /// Of the record, as the store counts; rises by one with each write.
        version: u64,
        /// What it holds.
        value: u64,
        /// Of a creation: which record it made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// There is no such record, or the write deleted it.
    Gone,
    /// Certainly not done: the code says why.
    Refused(String),
    /// Done or not, or yet to be done: the code says why.
    Open(String),
}

/// Something that was done to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When.
    pub at: u64,
    /// The fault: the name of a row, and of a node where it met one.
    pub what: String,
    /// Whether it began, or ended.
    pub on: bool,
}

/// That a node was started again: what it knew is gone, and what it answers to calls that begin later is of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStart {
    /// Which.
    pub node: u32,
    /// When; the run before had ended.
    pub at: u64,
}

/// What a place held at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordEnd {
    /// Which record.
    pub key: String,
    /// Where.
    pub place: CopyPlace,
    /// Its version, and its value if the place shows it; `None`: it has none there.
    pub state: Option<(u64, Option<u64>)>,
    /// Whether the place knows that there is no such record.
    pub gone: bool,
}

/// A place that holds records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyPlace {
    /// The truth.
    Store,
    /// The tier that nodes share.
    Redis,
    /// The memory of a node.
    Memory(u32),
}
