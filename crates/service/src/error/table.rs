//! The table of reasons. `docs/reference/errors.md` and `kith errors` are generated from it.

use std::time::Duration;

use tonic::Code;

use super::reason::{Reason, ReasonEntry, Retry};

/// Long enough for a burst to pass, short enough for a caller who waits within its own deadline.
const SOON: Retry = Retry::After(Duration::from_millis(200));
/// A user's quota for a second is available again after this time.
const NEXT_SECOND: Retry = Retry::After(Duration::from_secs(1));
/// One of five attempts a minute is available again after this time.
const NEXT_TRY: Retry = Retry::After(Duration::from_secs(12));

/// An operator has to make room first.
const AFTER_ROOM: Retry = Retry::After(Duration::from_secs(60));

/// In the order of the enum.
const TABLE: [ReasonEntry; 44] = [
    ReasonEntry {
        reason: Reason::InvalidField,
        name: "INVALID_FIELD",
        code: Code::InvalidArgument,
        cause: "A field of the request is missing, outside its limits, or malformed.",
        fix: "Correct the field that `BadRequest` names; the message says what it must be.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::InvalidMetadata,
        name: "INVALID_METADATA",
        code: Code::InvalidArgument,
        cause: "Metadata of the call (`grpc-timeout`, `kith-acting-user`) is malformed.",
        fix: "Correct the entry that `BadRequest` names, or leave it out.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::MalformedMessage,
        name: "MALFORMED_MESSAGE",
        code: Code::InvalidArgument,
        cause: "The message cannot be decoded: it is cut off, or not of the type that the method takes.",
        fix: "Send the type that the contract names for this method, with a client generated from `proto/`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::MessageTooLarge,
        name: "MESSAGE_TOO_LARGE",
        code: Code::ResourceExhausted,
        cause: "The message is larger than allowed, as sent or after decompression.",
        fix: "Send less in one message. Operators raise `limits.message_bytes`, or `limits.batch_message_bytes` \
              for batches and imports.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::AnswerTooLarge,
        name: "ANSWER_TOO_LARGE",
        code: Code::ResourceExhausted,
        cause: "The answer would be larger than clients accept: 4 MiB, 3 MiB of records in a batch, 1 MiB on a socket.",
        fix: "Ask for fewer ids or smaller pages. In a batch, ask again for the ids with this error.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::EncodingUnknown,
        name: "ENCODING_UNKNOWN",
        code: Code::Unimplemented,
        cause: "The message is compressed with an encoding that the node does not support.",
        fix: "Send it uncompressed, or in an encoding that `grpc-accept-encoding` of the answer lists.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::MethodUnknown,
        name: "METHOD_UNKNOWN",
        code: Code::Unimplemented,
        cause: "The node serves no method of this name.",
        fix: "Ask the node for its methods (`kith call --list`, `grpcurl ADDRESS list`); an older node may not have it yet.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::NotPosted,
        name: "NOT_POSTED",
        code: Code::Unimplemented,
        cause: "A call was sent over HTTP with another method than POST.",
        fix: "Send it with POST, with the message as its body (`curl -d '{...}'` does).",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::MediaTypeUnknown,
        name: "MEDIA_TYPE_UNKNOWN",
        code: Code::Unimplemented,
        cause: "A call was sent over HTTP with a media type that the node, or the method, does not support.",
        fix: "Send `application/json` in UTF-8, uncompressed, or gRPC-Web; call streaming methods over gRPC or \
              gRPC-Web.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::RequestIdReused,
        name: "REQUEST_ID_REUSED",
        code: Code::InvalidArgument,
        cause: "The `request_id` (within 24 hours) or `client_message_id` was used before with another body.",
        fix: "Use a new id for each new request or message; use one again only with exactly the same body.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::NotFound,
        name: "NOT_FOUND",
        code: Code::NotFound,
        cause: "No record has this id or name, or the caller may not know that one has.",
        fix: "Check the id or name. To read what was just written on another node, send its \
              `consistency_token`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::IdTaken,
        name: "ID_TAKEN",
        code: Code::AlreadyExists,
        cause: "A record with this id exists already.",
        fix: "Choose another id, or send 0 for one that the node chooses.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::NameTaken,
        name: "NAME_TAKEN",
        code: Code::AlreadyExists,
        cause: "The name, in its normalised form, belongs to another user, or is still reserved after its user was \
                deleted.",
        fix: "Choose another name. The name of a deleted user is free again after `users.name_kept`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::VersionConflict,
        name: "VERSION_CONFLICT",
        code: Code::Aborted,
        cause: "The record was changed by another caller: its version is not `expected_version`.",
        fix: "Read the record, apply the change to what you read, and send the version that you read.",
        retry: Retry::AfterReading,
    },
    ReasonEntry {
        reason: Reason::StateForbids,
        name: "STATE_FORBIDS",
        code: Code::FailedPrecondition,
        cause: "The state of the record does not allow this.",
        fix: "Read the record and change its state first; the message names the state that forbids this.",
        retry: Retry::AfterReading,
    },
    ReasonEntry {
        reason: Reason::Banned,
        name: "BANNED",
        code: Code::FailedPrecondition,
        cause: "The user is banned from the group, and can neither join it nor be added or invited.",
        fix: "Wait until the ban ends, or ask the group's owner or an admin to unban the user \
              (`UnbanMembers`).",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::Muted,
        name: "MUTED",
        code: Code::FailedPrecondition,
        cause: "The member may not send messages to the group now: it is muted, or all members are.",
        fix: "Wait until the time in `until` of the metadata, or ask the owner or an admin to end the mute \
              (`MuteMember`, `MuteGroup`).",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::CursorExpired,
        name: "CURSOR_EXPIRED",
        code: Code::FailedPrecondition,
        cause: "Changes after the cursor are not kept any more, or data were restored.",
        fix: "Get a cursor (GetCursor), export everything again, then read from that cursor. Operators raise \
              `changes.kept` and `changes.bytes_max`.",
        retry: Retry::AfterReading,
    },
    ReasonEntry {
        reason: Reason::CredentialsMissing,
        name: "CREDENTIALS_MISSING",
        code: Code::Unauthenticated,
        cause: "The call has no credential, and the node serves configured callers only.",
        fix: "Send the key of a caller, or the token of a user, as `authorization: Bearer KEY`. The command `kith` reads a key \
              from `KITH_API_KEY_FILE`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::CredentialsRefused,
        name: "CREDENTIALS_REFUSED",
        code: Code::Unauthenticated,
        cause: "The credential is unknown, malformed, revoked, expired or signed out, or there is more than one.",
        fix: "Send one key that the node has (`kith keys check`); a new key takes some seconds. A user gets \
              a new token from its issuer.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::UserSuspended,
        name: "USER_SUSPENDED",
        code: Code::PermissionDenied,
        cause: "The user is suspended, and may neither call nor receive anything.",
        fix: "Show the user the suspension. Services see why and until when (`GetUserAccess`), and end it \
              (`ResumeUser`).",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::ScopeMissing,
        name: "SCOPE_MISSING",
        code: Code::PermissionDenied,
        cause: "The caller does not have the scope that the method needs.",
        fix: "Call with another key, or ask the operator for the `scope` in the metadata. \
              `docs/reference/authorization.md` lists methods and scopes.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::ActingUserNeeded,
        name: "ACTING_USER_NEEDED",
        code: Code::PermissionDenied,
        cause: "The caller may act for users only, and the call names none.",
        fix: "Name the user in `kith-acting-user`. A caller that acts for itself needs the scope `own` of the domain.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::ActingUserRefused,
        name: "ACTING_USER_REFUSED",
        code: Code::PermissionDenied,
        cause: "The call names an acting user, and the caller may not act for users, or is a user itself.",
        fix: "Leave out `kith-acting-user`, or ask the operator to give the caller the scope `act`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::NotAllowed,
        name: "NOT_ALLOWED",
        code: Code::PermissionDenied,
        cause: "The user named by `kith-acting-user` may not do this.",
        fix: "Ask a user who may (the message says which users), or call as a service, without `kith-acting-user`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::OriginRefused,
        name: "ORIGIN_REFUSED",
        code: Code::PermissionDenied,
        cause: "The request comes from a web page (it has an `origin` header) whose origin may not call the node.",
        fix: "Operators add the origin to `http.cors.origins`. Programs that are no browsers send no `origin` header.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::TooManyTries,
        name: "TOO_MANY_TRIES",
        code: Code::ResourceExhausted,
        cause: "There were more attempts within a minute than are allowed.",
        fix: "Wait as long as `RetryInfo` says. For searches operators set \
              `limits.searches_per_minute`.",
        retry: NEXT_TRY,
    },
    ReasonEntry {
        reason: Reason::QuotaExceeded,
        name: "QUOTA_EXCEEDED",
        code: Code::ResourceExhausted,
        cause: "A user who calls by a token has used up its `quota` on this node: `calls`, `writes` or `records`.",
        fix: "Wait as long as `RetryInfo` says. Operators set `limits.user_calls_per_second`, \
              `limits.user_writes_per_second` and `limits.user_records_per_minute`.",
        retry: NEXT_SECOND,
    },
    ReasonEntry {
        reason: Reason::TooManySessions,
        name: "TOO_MANY_SESSIONS",
        code: Code::ResourceExhausted,
        cause: "The user has the maximum number of sessions, or there is the maximum number of gateways.",
        fix: "Close a session of the user first. Operators raise `presence.sessions_max`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::TooManyPending,
        name: "TOO_MANY_PENDING",
        code: Code::ResourceExhausted,
        cause: "The receiver has the maximum number of pending applications.",
        fix: "Apply again after some of them were decided. Operators set `applications.pending_max`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::SeqOutOfRange,
        name: "SEQ_OUT_OF_RANGE",
        code: Code::OutOfRange,
        cause: "A number is above that of the last message of the conversation.",
        fix: "Use numbers of messages that exist: `GetMaxSeqs` returns the last one.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::TooManyRanges,
        name: "TOO_MANY_RANGES",
        code: Code::ResourceExhausted,
        cause: "The mark would leave more unread ranges in the dialog than the 256 that it may have.",
        fix: "Mark everything up to a number as read, which is never refused; then mark ranges again.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::TooManyReceivers,
        name: "TOO_MANY_RECEIVERS",
        code: Code::ResourceExhausted,
        cause: "The user has as many streams as it may (`Receive`, `WatchPresence`), or the node has (also `WatchOffline`).",
        fix: "Close a stream of the user first, or open this one on another node. Operators raise \
              `messages.receivers_of_user` or `messages.receivers`.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::TooManyNotices,
        name: "TOO_MANY_NOTICES",
        code: Code::ResourceExhausted,
        cause: "There is the maximum number of audiences, or one of them has the maximum number of live notices.",
        fix: "Delete notices, or give them an expire time.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::TooManyReaders,
        name: "TOO_MANY_READERS",
        code: Code::ResourceExhausted,
        cause: "The audience has the maximum number of readers.",
        fix: "Spread the readers over several audiences.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::Overloaded,
        name: "OVERLOADED",
        code: Code::ResourceExhausted,
        cause: "The node, or the queue of its store, is overloaded; nothing was begun.",
        fix: "Wait as long as `RetryInfo` says, then longer each time. Operators add nodes.",
        retry: SOON,
    },
    ReasonEntry {
        reason: Reason::StoreFull,
        name: "STORE_FULL",
        code: Code::ResourceExhausted,
        cause: "The store is full: reads are answered, writes are refused.",
        fix: "Ask the operator to free space on the disk of the data folder or database.",
        retry: AFTER_ROOM,
    },
    ReasonEntry {
        reason: Reason::StoreDamaged,
        name: "STORE_DAMAGED",
        code: Code::DataLoss,
        cause: "Stored data cannot be read: it is damaged.",
        fix: "Ask the operator: `/readyz` and the log name what was read. `kith doctor` checks a data file.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::StoreUnavailable,
        name: "STORE_UNAVAILABLE",
        code: Code::Unavailable,
        cause: "The store cannot be reached, or did not answer in time.",
        fix: "Wait as long as `RetryInfo` says. Repeat a write with the same `request_id`: if `outcome` is \
              `unknown` it may have been applied. Operators look at `/readyz`.",
        retry: SOON,
    },
    ReasonEntry {
        reason: Reason::NotConfigured,
        name: "NOT_CONFIGURED",
        code: Code::FailedPrecondition,
        cause: "A setting that the call needs is missing, for example that of a store.",
        fix: "Ask the operator to set what `setting` in the metadata names, on every node.",
        retry: Retry::Never,
    },
    ReasonEntry {
        reason: Reason::Starting,
        name: "STARTING",
        code: Code::Unavailable,
        cause: "The node has not opened its store yet.",
        fix: "Wait as long as `RetryInfo` says, or call another node. Operators see at `/readyz` what it waits for.",
        retry: SOON,
    },
    ReasonEntry {
        reason: Reason::Stopping,
        name: "STOPPING",
        code: Code::Unavailable,
        cause: "The node is stopping and ended the stream.",
        fix: "Open the stream again, on another node.",
        retry: SOON,
    },
    ReasonEntry {
        reason: Reason::DeadlineExceeded,
        name: "DEADLINE_EXCEEDED",
        code: Code::DeadlineExceeded,
        cause: "The deadline of the call passed before there was an answer.",
        fix: "Give the call more time (`limits.deadline_max` at most). Repeat a write with the same `request_id`: \
              it may have been applied.",
        retry: Retry::WithMoreTime,
    },
    ReasonEntry {
        reason: Reason::Internal,
        name: "INTERNAL",
        code: Code::Internal,
        cause: "Kith has a defect.",
        fix: "Ask the operator: the log has the cause. Report a defect of Kith.",
        retry: Retry::Never,
    },
];

impl Reason {
    /// All reasons, in the table's order: request errors, state errors, node errors.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Internal; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].reason;
            at += 1;
        }
        all
    };

    /// Returns the reason's row in the table.
    #[must_use]
    pub const fn entry(self) -> &'static ReasonEntry {
        &TABLE[self as usize]
    }

    /// The name in `google.rpc.ErrorInfo.reason`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The gRPC code for this reason.
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

/// A row in the wrong place would give a reason another one's name and code.
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
