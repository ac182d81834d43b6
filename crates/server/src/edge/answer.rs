//! What the edge answers by itself, and what it makes of tonic's own answers.
//!
//! tonic says OUT_OF_RANGE of a message that is too large and INTERNAL of one that cannot be decoded, and
//! repeats its decoder's text. gRPC callers expect RESOURCE_EXHAUSTED and INVALID_ARGUMENT, and no such text.

use std::{collections::HashMap, time::Duration};

use http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::error::ERROR_DOMAIN;

/// After how long a call that was turned away may come again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Texts by which tonic's answers about a message are known from those of handlers.
const TOO_LARGE: [&str; 2] = ["Error, decoded message length too large", "Error decompressing: size limit"];
const MALFORMED: [&str; 6] = [
    "failed to decode Protobuf message",
    "Unexpected EOF decoding stream",
    "Missing request message",
    "protocol error: received message",
    "Error decompressing:",
    // Base64 of gRPC-Web, or a body that ended early.
    "tonic-web:",
];

fn details(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, ERROR_DOMAIN, HashMap::new())
}

/// The deadline passed.
pub(super) fn deadline_exceeded() -> Status {
    let text = "the deadline passed";
    Status::with_error_details(Code::DeadlineExceeded, text, details("DEADLINE_EXCEEDED"))
}

/// Too many calls are in flight; nothing was begun.
pub(super) fn overloaded() -> Status {
    let mut details = details("OVERLOADED");
    details.set_retry_info(Some(RETRY_AFTER));
    Status::with_error_details(Code::ResourceExhausted, "the node has more calls than it takes on", details)
}

/// The store is not there yet.
pub(super) fn starting() -> Status {
    let mut details = details("STARTING");
    details.set_retry_info(Some(RETRY_AFTER));
    Status::with_error_details(Code::Unavailable, "the node is starting", details)
}

/// The node stops.
pub(super) fn stopping() -> Status {
    Status::with_error_details(Code::Unavailable, "the node stops", details("STOPPING"))
}

/// Metadata that cannot be taken. `why` follows its name.
pub(crate) fn invalid_metadata(name: &str, why: &str) -> Status {
    let text = format!("{name} {why}");
    let mut details = details("INVALID_METADATA");
    details.add_bad_request_violation(name, text.as_str());
    Status::with_error_details(Code::InvalidArgument, text, details)
}

/// The message has more bytes than it may.
pub(super) fn too_large() -> Status {
    let text = "the message is larger than it may be";
    Status::with_error_details(Code::ResourceExhausted, text, details("MESSAGE_TOO_LARGE"))
}

/// A handler panicked.
pub(super) fn internal() -> Status {
    Status::with_error_details(Code::Internal, "something went wrong within Kith", details("INTERNAL"))
}

/// What to say in place of an answer of tonic's; `None`: the answer may stay.
pub(super) fn instead(code: Code, text: &str) -> Option<Status> {
    let begins = |with: &[&str]| with.iter().any(|with| text.starts_with(with));
    match code {
        Code::OutOfRange | Code::ResourceExhausted if begins(&TOO_LARGE) => Some(too_large()),
        Code::Internal if begins(&MALFORMED) => {
            let text = "the message cannot be decoded";
            Some(Status::with_error_details(Code::InvalidArgument, text, details("MALFORMED_MESSAGE")))
        }
        _ => None,
    }
}

/// The trailers of a stream that ends with `status`.
pub(super) fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("13"));
    }
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tonic_says_of_a_message_gets_the_code_that_callers_expect() {
        let large =
            instead(Code::OutOfRange, "Error, decoded message length too large: found 9 bytes").unwrap();
        assert_eq!(large.code(), Code::ResourceExhausted);
        let malformed = instead(Code::Internal, "failed to decode Protobuf message: User.name: bad").unwrap();
        assert_eq!(malformed.code(), Code::InvalidArgument);
        assert!(!malformed.message().contains("User.name"));
    }

    #[test]
    fn what_handlers_say_stays() {
        assert!(instead(Code::Internal, "something went wrong within Kith").is_none());
        assert!(instead(Code::OutOfRange, "read_seq is above the last message").is_none());
        assert!(instead(Code::ResourceExhausted, "too many tries").is_none());
    }
}
