//! Calls about messages in a history, and the logs and dialogs at its end. History files have this serialized
//! form.

use serde::{Deserialize, Serialize};

/// A call about messages, and its result. A client makes its calls in sequence, but for sends that it makes
/// through several nodes at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCall {
    /// The calling client.
    pub client: u32,
    /// Which node was called.
    pub node: u32,
    /// When it was sent.
    pub began: u64,
    /// When its answer came, or when it was given up.
    pub ended: u64,
    /// The request that was sent.
    pub request: MessageRequest,
    /// The call's result.
    pub outcome: MessageOutcome,
}

/// A request about messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRequest {
    /// Messages are sent in this order; several by one BatchSend.
    Send(Vec<Draft>),
    /// A user reads messages in a conversation.
    Read {
        /// The user who reads.
        user: i64,
        /// The conversation.
        conversation: String,
        /// Which messages.
        pages: Pages,
        /// A number that the reader knows to exist; 0: none.
        at_least: u64,
    },
    /// A user marks messages as read up to this number; 0: it only asks up to which it has, and the answer is
    /// strongly consistent.
    Mark {
        /// The user who reads.
        user: i64,
        /// The conversation.
        conversation: String,
        /// The highest marked number.
        up_to: u64,
    },
}

/// A message that is sent. Invariant: all drafts with one `value` are the same message, sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// The conversation it is sent to.
    pub conversation: String,
    /// The user who sends.
    pub sender: i64,
    /// Its content, and its `client_message_id` if that is set.
    pub value: u64,
    /// Whether it leaves unread counts as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

/// Which messages a read returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// Messages from this number on, by rising number.
    From(u64),
    /// Messages below this number, by falling number.
    Before(u64),
    /// Messages with these numbers, by rising number.
    These(Vec<u64>),
}

/// The result of a call about messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageOutcome {
    /// The result for each message, in the request's order.
    Sent(Vec<SendOutcome>),
    /// The result of a read.
    Read {
        /// The messages, in the answer's order.
        messages: Vec<LoggedMessage>,
        /// The lowest and the highest number that the reader may read; `None`: the answer has none.
        range: Option<(u64, u64)>,
        /// Whether other messages follow.
        more: bool,
    },
    /// The highest number that the user has marked.
    Marked(u64),
    /// Certainly not done; the code is the reason.
    Refused(String),
    /// Done, or not, or still to be done; the code is the reason.
    Open(String),
}

/// The result for one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    /// It is stored with this number.
    At(u64),
    /// Certainly not stored by this call; the code is the reason.
    Refused(String),
    /// Stored, or not, or still to be stored; the code is the reason.
    Open(String),
}

/// A message in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedMessage {
    /// The message number.
    #[serde(rename = "n")]
    pub seq: u64,
    /// Its content; `None`: it is an event, which Kith made.
    #[serde(rename = "v")]
    pub value: Option<u64>,
    /// The user who sent it.
    #[serde(rename = "f")]
    pub sender: i64,
    /// Whether it leaves unread counts as they are.
    #[serde(rename = "s", default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

/// A whole log at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCopy {
    /// The conversation.
    pub conversation: String,
    /// The node that it was read through; `None`: from the database itself.
    pub node: Option<u32>,
    /// The messages in the order in which they were found.
    pub messages: Vec<LoggedMessage>,
}

/// A user's dialog at the end, as a node reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogEnd {
    /// The dialog's user.
    pub user: i64,
    /// The conversation.
    pub conversation: String,
    /// The reporting node.
    pub node: u32,
    /// The highest number that the user has marked.
    pub read_seq: u64,
    /// The lowest number that the user may read.
    pub min: u64,
    /// The highest number that the user may read; 0: none.
    pub max: u64,
    /// How many among the last 100 messages are unread, and whether there may be others.
    pub unread: (u64, bool),
    /// Like `unread`, among the last 1000 messages.
    pub counted: (u64, bool),
}

/// The messages that one receiver got in a conversation by all its streams. Each stream began where the
/// previous stream had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedMessages {
    /// The receiver. Each device has another number.
    pub receiver: u32,
    /// The receiver's user.
    pub user: i64,
    /// The conversation.
    pub conversation: String,
    /// Contiguous numbers, by rising number.
    pub runs: Vec<ReceivedRun>,
    /// Numbers that a stream reported instead of sending the messages: first and last.
    pub missed: Vec<(u64, u64)>,
    /// Unexpected numbers: what was expected, and what came.
    pub wrong: Vec<(u64, u64)>,
}

/// Messages that came with contiguous numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedRun {
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
    /// A digest over their contents, see [`ReceivedRun::add`].
    pub digest: u64,
}

impl ReceivedRun {
    /// An empty run. The first message has this number.
    #[must_use]
    pub const fn before(first: u64) -> Self {
        Self { first, last: first - 1, digest: 0 }
    }

    /// Adds the next message, with its content; `None`: an event.
    pub const fn add(&mut self, value: Option<u64>) {
        let value = match value {
            Some(value) => value,
            None => 0,
        };
        self.last += 1;
        // FNV-1a over whole numbers.
        self.digest = (self.digest ^ value).wrapping_mul(0x0100_0000_01b3);
    }
}
