//! Answers that the edge gives by itself, and replacements for tonic's own answers.
//!
//! tonic answers OUT_OF_RANGE to a message that is too large and INTERNAL to a message that cannot be
//! decoded, and repeats its decoder's text. gRPC callers expect RESOURCE_EXHAUSTED and INVALID_ARGUMENT, and
//! no such text.

use http::HeaderMap;
use tonic::{Code, Status, metadata::MetadataValue};

use kith_service::{
    error::{Error, Reason},
    rpc::answer_size,
};

/// Texts that distinguish tonic's answers about a message from handlers' answers.
const TOO_LARGE: [&str; 2] = ["Error, decoded message length too large", "Error decompressing: size limit"];
/// The text for an answer that is larger than the services may send, see [`kith_service::rpc::answer_size`].
const ANSWER_TOO_LARGE: &str = "Error, encoded message length too large";
const MALFORMED: [&str; 6] = [
    "failed to decode Protobuf message",
    "Unexpected EOF decoding stream",
    "Missing request message",
    "protocol error: received message",
    "Error decompressing:",
    // Base64 from gRPC-Web, or a body that ended early.
    "tonic-web:",
];

/// How tonic begins its answer to a compression that it does not know.
const COMPRESSED: &str = "Content is compressed with";
/// The encodings that the services accept, as [`crate::node::services`] sets them. The protocol wants them in
/// that answer.
const ENCODINGS: &str = "identity,gzip,zstd";

/// The deadline passed.
pub(super) fn deadline_exceeded() -> Status {
    Error::deadline().into()
}

/// Too many calls are in flight; nothing was begun.
pub(super) fn overloaded() -> Status {
    Error::new(Reason::Overloaded, "the node has more calls than it takes on").into()
}

/// The node, or the connection, has as many health and reflection streams as it may have.
pub(super) fn too_many_watches() -> Status {
    let text = "as many streams of health and reflection are open on the node, or on this connection, as may";
    Error::new(Reason::Overloaded, text).into()
}

/// The stream gave way to another peer's stream.
pub(super) fn displaced() -> Status {
    let text = "the node has nearly as many streams of health and reflection as may, and this one \
                is of a connection without a call that has a credential: it gives way to another one";
    Error::new(Reason::Overloaded, text).into()
}

/// The answer has no place among those that were not read.
pub(crate) fn too_much_unread() -> Status {
    let text = "answers on this connection, or of this node, are not read: they have as many bytes as \
                may wait";
    Error::new(Reason::Overloaded, text).into()
}

/// The store is not there yet.
pub(super) fn starting() -> Status {
    Error::new(Reason::Starting, "the node is starting").into()
}

/// The node stops.
pub(super) fn stopping() -> Status {
    Error::new(Reason::Stopping, "the node stops").into()
}

/// The answer if nothing is served under this path.
pub(super) fn method_unknown() -> Status {
    Error::new(Reason::MethodUnknown, "the node serves no method of this name").into()
}

/// Metadata that cannot be taken. `why` follows its name.
pub(crate) fn invalid_metadata(name: &'static str, why: &str) -> Status {
    Error::metadata(name, why).into()
}

/// The message has more bytes than it may.
pub(super) fn too_large() -> Status {
    Error::new(Reason::MessageTooLarge, "the message is larger than it may be").into()
}

/// The message has another form than its method has, or cannot be unpacked.
pub(super) fn malformed() -> Status {
    Error::new(Reason::MalformedMessage, "the message cannot be decoded").into()
}

/// A handler panicked.
pub(super) fn internal() -> Status {
    Error::internal().into()
}

/// The answer in place of tonic's. `None`: tonic's answer may stay.
pub(super) fn replacement(code: Code, text: &str) -> Option<Status> {
    let begins = |with: &[&str]| with.iter().any(|with| text.starts_with(with));
    match code {
        Code::OutOfRange | Code::ResourceExhausted if begins(&TOO_LARGE) => Some(too_large()),
        Code::OutOfRange | Code::ResourceExhausted if begins(&[ANSWER_TOO_LARGE]) => {
            Some(answer_size::too_large().into())
        }
        Code::Internal if begins(&MALFORMED) => Some(malformed()),
        Code::Unimplemented if begins(&[COMPRESSED]) => Some(encoding_unknown()),
        _ => None,
    }
}

fn encoding_unknown() -> Status {
    let error = Error::new(Reason::EncodingUnknown, "the node does not read this compression of messages");
    let mut status = Status::from(error);
    status.metadata_mut().insert("grpc-accept-encoding", MetadataValue::from_static(ENCODINGS));
    status
}

/// The trailers for a stream that ends with `status`.
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
    fn tonic_errors_get_the_documented_code() {
        let large =
            replacement(Code::OutOfRange, "Error, decoded message length too large: found 9 bytes").unwrap();
        assert_eq!(large.code(), Code::ResourceExhausted);
        let answer =
            replacement(Code::OutOfRange, "Error, encoded message length too large: found 9 bytes").unwrap();
        assert_eq!(answer.code(), Code::ResourceExhausted);
        let malformed =
            replacement(Code::Internal, "failed to decode Protobuf message: User.name: bad").unwrap();
        assert_eq!(malformed.code(), Code::InvalidArgument);
        assert!(!malformed.message().contains("User.name"));
    }

    #[test]
    fn answers_of_handlers_are_unchanged() {
        assert!(replacement(Code::Internal, "something went wrong within Kith").is_none());
        assert!(replacement(Code::OutOfRange, "read_seq is above the last message").is_none());
        assert!(replacement(Code::ResourceExhausted, "too many tries").is_none());
    }
}
