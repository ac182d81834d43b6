//! The reason, for callers to branch on.

use std::{fmt, time::Duration};

use tonic::Code;

use super::table::TABLE;

/// The reason of an error, for callers to branch on. Each has one code; everything else about it is in one table.
#[expect(missing_docs, reason = "the table says what each of them means")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    InvalidField,
    InvalidMetadata,
    MalformedMessage,
    MessageTooLarge,
    AnswerTooLarge,
    EncodingUnknown,
    MethodUnknown,
    NotPosted,
    MediaTypeUnknown,
    RequestIdReused,
    NotFound,
    IdTaken,
    NameTaken,
    VersionConflict,
    StateForbids,
    Banned,
    Muted,
    CredentialsMissing,
    CredentialsRefused,
    ScopeMissing,
    ActingUserNeeded,
    ActingUserRefused,
    NotAllowed,
    OriginRefused,
    TooManyTries,
    QuotaExceeded,
    TooManySessions,
    TooManyPending,
    SeqOutOfRange,
    TooManyRanges,
    TooManyReceivers,
    TooManyNotices,
    TooManyReaders,
    Overloaded,
    StoreFull,
    StoreUnavailable,
    NotConfigured,
    Starting,
    Stopping,
    DeadlineExceeded,
    // Must stay the last one: the check that the table is complete depends on it.
    Internal,
}

/// Whether and when a caller may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the same request gets the same answer.
    Never,
    /// The same request after this time, which the error carries as `google.rpc.RetryInfo`.
    After(Duration),
    /// With another request, made from the present record.
    AfterReading,
    /// With a later deadline.
    WithMoreTime,
}

/// A row of the table of reasons, which errors, the reference and `kith errors` share.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The reason.
    pub reason: Reason,
    /// The name in `google.rpc.ErrorInfo.reason`.
    pub name: &'static str,
    /// The gRPC code.
    pub code: Code,
    /// The cause, in one line.
    pub cause: &'static str,
    /// What the caller (or the operator, if stated) should do.
    pub fix: &'static str,
    /// Whether to retry.
    pub retry: Retry,
}

impl Reason {
    /// All reasons, in the order of the table: errors of the request, of stored state, of the node.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Internal; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].reason;
            at += 1;
        }
        all
    };

    /// Its row of the table.
    #[must_use]
    pub const fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The name in `google.rpc.ErrorInfo.reason`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The gRPC code.
    #[must_use]
    pub const fn code(self) -> Code {
        self.entry().code
    }

    /// The reason with this name, case-insensitive, with dashes or underscores.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let name = name.trim().replace('-', "_");
        Self::ALL.into_iter().find(|reason| reason.name().eq_ignore_ascii_case(&name))
    }

    /// The time after which a caller may retry; `None`: not with the same request.
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
    fn every_reason_is_found_by_its_own_name() {
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
