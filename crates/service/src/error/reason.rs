//! The reason, for callers to branch on.

use std::{fmt, time::Duration};

use tonic::Code;

/// An error's reason, for callers to branch on. Each reason has one code; everything else about it is in one
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A request field is invalid.
    InvalidField,
    /// Call metadata is invalid.
    InvalidMetadata,
    /// The message cannot be decoded.
    MalformedMessage,
    /// The message is too large.
    MessageTooLarge,
    /// The answer, or a batch's record, is too large to be sent.
    AnswerTooLarge,
    /// The message's encoding is not supported.
    EncodingUnknown,
    /// The node serves no such method.
    MethodUnknown,
    /// Over HTTP calls are posted.
    NotPosted,
    /// Over HTTP a body is JSON or gRPC-Web.
    MediaTypeUnknown,
    /// The request id was used with another body.
    RequestIdReused,
    /// Nothing exists under the id or name.
    NotFound,
    /// The id exists already.
    IdTaken,
    /// The name is not free.
    NameTaken,
    /// The version is not the expected version.
    VersionConflict,
    /// The state of the record forbids it.
    StateForbids,
    /// The user is banned from the group.
    Banned,
    /// The member, or the group, is muted.
    Muted,
    /// Changes after the cursor are not kept any more.
    CursorExpired,
    /// The call has no credential.
    CredentialsMissing,
    /// The credential belongs to no caller.
    CredentialsRefused,
    /// The user is suspended.
    UserSuspended,
    /// The caller lacks the method's scope.
    ScopeMissing,
    /// The caller may not act for itself.
    ActingUserNeeded,
    /// The caller may not act for users.
    ActingUserRefused,
    /// The acting user may not do this.
    NotAllowed,
    /// Pages of this origin may not call.
    OriginRefused,
    /// Too many attempts within a minute.
    TooManyTries,
    /// The user has used up what it may do in a period.
    QuotaExceeded,
    /// The limit for sessions, or for gateways, is reached.
    TooManySessions,
    /// The limit for pending applications is reached.
    TooManyPending,
    /// A message number is above the conversation's last number.
    SeqOutOfRange,
    /// A read mark would leave too many unread ranges.
    TooManyRanges,
    /// The limit for the user's receivers, or for the node's, is reached.
    TooManyReceivers,
    /// The limit for audiences, or for an audience's live notices, is reached.
    TooManyNotices,
    /// The limit for the audience's readers is reached.
    TooManyReaders,
    /// The node is overloaded.
    Overloaded,
    /// The store has no room.
    StoreFull,
    /// Stored data cannot be read.
    StoreDamaged,
    /// The store cannot be reached, or did not answer in time.
    StoreUnavailable,
    /// The call needs a setting that the operator has not configured.
    NotConfigured,
    /// The node has not opened its store yet.
    Starting,
    /// The node is stopping.
    Stopping,
    /// The deadline passed.
    DeadlineExceeded,
    /// A fault of Kith. Must stay last: the check that the table is complete depends on it.
    Internal,
}

/// Whether and when a caller may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the same request gets the same answer.
    Never,
    /// Repeat the same request after this time, which the error carries as `google.rpc.RetryInfo`.
    After(Duration),
    /// Repeat the call with another request, made from the present record.
    AfterReading,
    /// Repeat the request with a later deadline.
    WithMoreTime,
}

/// A row in the table of reasons, which errors, the reference and `kith errors` share.
#[derive(Clone, Copy, Debug)]
pub struct ReasonEntry {
    /// The reason that the row describes.
    pub reason: Reason,
    /// The name in `google.rpc.ErrorInfo.reason`.
    pub name: &'static str,
    /// The gRPC code for the reason.
    pub code: Code,
    /// The cause, in one line.
    pub cause: &'static str,
    /// Says what the caller (or the operator, if stated) should do.
    pub fix: &'static str,
    /// Whether to retry.
    pub retry: Retry,
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never with the same request"),
            Self::After(time) => {
                write!(f, "the same request after {}", humantime::format_duration(*time))
            }
            Self::AfterReading => f.write_str("after reading again"),
            Self::WithMoreTime => f.write_str("the same request with a later deadline"),
        }
    }
}
