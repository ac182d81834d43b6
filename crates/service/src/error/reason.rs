//! What a caller may branch on.

use std::{fmt, time::Duration};

use tonic::Code;

use super::table::TABLE;

/// What a caller may branch on. Each has one code; everything else about it is in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A field of the request cannot be taken.
    InvalidField,
    /// Metadata of the call cannot be taken.
    InvalidMetadata,
    /// The message cannot be decoded.
    MalformedMessage,
    /// The message has more bytes than it may.
    MessageTooLarge,
    /// The answer, or the record of a batch, has more bytes than may be sent.
    AnswerTooLarge,
    /// The message is compressed in a way that the node does not read.
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
    /// The version is not the expected one.
    VersionConflict,
    /// The state of the record forbids it.
    StateForbids,
    /// The user is banned from the group.
    Banned,
    /// The member, or the group, is muted.
    Muted,
    /// The call has no credential.
    CredentialsMissing,
    /// The credential is not that of a caller.
    CredentialsRefused,
    /// The caller does not have the scope of the method.
    ScopeMissing,
    /// The caller may not act for itself.
    ActingUserNeeded,
    /// The caller may not act for users.
    ActingUserRefused,
    /// The acting user may not do this.
    NotAllowed,
    /// Pages of this origin may not call.
    OriginRefused,
    /// Too many tries within a minute.
    TooManyTries,
    /// There are as many sessions, or gateways, as there may be.
    TooManySessions,
    /// As many applications are pending as may be.
    TooManyPending,
    /// A number of a message is above the last one of the conversation.
    SeqOutOfRange,
    /// A read mark would leave too many unread ranges.
    TooManyRanges,
    /// The user, or the node, has as many receivers as there may be.
    TooManyReceivers,
    /// There are as many audiences, or live notices of one, as there may be.
    TooManyNotices,
    /// The audience has as many readers as it may.
    TooManyReaders,
    /// More work than the node takes on.
    Overloaded,
    /// The store has no room.
    StoreFull,
    /// The store cannot be reached or has no time.
    StoreUnavailable,
    /// The operator has not configured what the call needs.
    NotConfigured,
    /// The node has not opened its store yet.
    Starting,
    /// The node stops.
    Stopping,
    /// The deadline passed.
    DeadlineExceeded,
    /// A fault of Kith. Stays the last, by which the table is checked to be whole.
    Internal,
}

/// Whether, and when, a caller may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request gets the same answer.
    Never,
    /// The same request after this time, which the error carries as `google.rpc.RetryInfo`.
    After(Duration),
    /// Another request, made of what the record is now.
    AfterReading,
    /// The same request with a later deadline.
    WithMoreTime,
}

/// What is known of a reason: one row of the table that the errors, the reference and `kith errors` share.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which.
    pub reason: Reason,
    /// As in `google.rpc.ErrorInfo.reason`.
    pub name: &'static str,
    /// The gRPC code.
    pub code: Code,
    /// Why it happens, in one line.
    pub cause: &'static str,
    /// What the caller, or where that is said the operator, does about it.
    pub fix: &'static str,
    /// Whether to try again.
    pub retry: Retry,
}

impl Reason {
    /// All of them, in the order of the table: what the caller sent, then what is stored, then the node.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Internal; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].reason;
            at += 1;
        }
        all
    };

    /// What is known of it.
    #[must_use]
    pub const fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// As in `google.rpc.ErrorInfo.reason`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The gRPC code.
    #[must_use]
    pub const fn code(self) -> Code {
        self.entry().code
    }

    /// The reason of this name, in whichever case and with dashes or underscores.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let name = name.trim().replace('-', "_");
        Self::ALL.into_iter().find(|reason| reason.name().eq_ignore_ascii_case(&name))
    }

    /// After how long a caller may try again; `None`: not with the same request.
    pub(crate) const fn retry_after(self) -> Option<Duration> {
        match self.entry().retry {
            Retry::After(time) => Some(time),
            Retry::Never | Retry::AfterReading | Retry::WithMoreTime => None,
        }
    }
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

/// A row in the wrong place would give a reason the name and code of another.
const _: () = {
    assert!(Reason::Internal as usize + 1 == TABLE.len());
    let mut at = 0;
    while at < TABLE.len() {
        assert!(TABLE[at].reason as usize == at);
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_that_finds_it() {
        let names: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(Reason::find(&reason.name().to_lowercase().replace('_', "-")), Some(reason));
        }
        assert_eq!(Reason::find("NAME"), None);
    }

    #[test]
    fn a_cause_is_one_line_and_a_fix_is_a_sentence() {
        for entry in &TABLE {
            assert!(entry.cause.len() <= 110 && !entry.cause.contains('\n'), "{}", entry.name);
            assert!(entry.cause.ends_with('.') && entry.fix.ends_with('.'), "{}", entry.name);
        }
    }
}
