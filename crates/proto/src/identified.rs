//! Requests that have their own id.

use prost::Message;

/// A request with a `request_id`: its effect is applied once, even if it is repeated.
pub trait IdentifiedRequest: Message {
    /// The path of the method that takes it.
    const METHOD: &'static str;

    /// Takes its `request_id`. The rest of the message is equal in each repetition.
    fn take_request_id(&mut self) -> String;

    /// Returns its `expected_version`; 0, any version, if it has no such field.
    fn expected_version(&self) -> i64;
}

include!(concat!(env!("OUT_DIR"), "/identified_requests.rs"));
