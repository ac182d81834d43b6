//! Frames, as text.

use std::{borrow::Cow, fmt};

use serde::Deserialize;
use serde_json::{
    Value,
    error::Category,
    value::{RawValue, to_raw_value},
};
use tonic::Status;

use super::close::Close;
use crate::json;

/// The node's texts have fewer bytes: usual clients take no message with 1 MiB.
pub(super) const SENT_BYTES: usize = 1 << 20;
/// A call without a body.
const NOTHING: &str = "{}";

/// A frame that a peer sends.
#[derive(Debug)]
pub(super) enum IncomingFrame<'a> {
    /// The hello's text.
    Hello(&'a str),
    /// The renewal's text.
    Renewal(&'a str),
    Call {
        id: CallId,
        name: Cow<'a, str>,
        /// The message's text.
        body: &'a str,
    },
}

/// The id by which a peer knows the answer to its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId(u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All kinds at once: the reader refuses a field that is given twice or unknown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameFields<'a> {
    #[serde(borrow)]
    hello: Option<&'a RawValue>,
    #[serde(borrow)]
    renew: Option<&'a RawValue>,
    id: Option<u64>,
    #[serde(borrow)]
    call: Option<Cow<'a, str>>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

impl<'a> IncomingFrame<'a> {
    /// Reads one frame. A call's body is read later, by the called method.
    pub(super) fn read(text: &'a str) -> Result<Self, Close> {
        let form: FrameFields<'a> = serde_json::from_str(text).map_err(|error| match error.classify() {
            Category::Data => Close::Form,
            Category::Io | Category::Syntax | Category::Eof => Close::NotJson,
        })?;
        // A list would be taken for the fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err(Close::Form);
        }
        match form {
            FrameFields { hello: Some(hello), renew: None, id: None, call: None, body: None } => {
                Ok(Self::Hello(hello.get()))
            }
            FrameFields { hello: None, renew: Some(renewal), id: None, call: None, body: None } => {
                Ok(Self::Renewal(renewal.get()))
            }
            FrameFields { hello: None, renew: None, id: Some(id), call: Some(name), body } => {
                Ok(Self::Call { id: CallId(id), name, body: body.map_or(NOTHING, RawValue::get) })
            }
            _ => Err(Close::Form),
        }
    }
}

/// The answer to a call; `message` is JSON.
pub(super) fn answer(id: CallId, message: &str) -> String {
    format!(r#"{{"id":{id},"answer":{}}}"#, message.trim_end())
}

/// The frame with the session that covers it. The text of a session has nothing that JSON escapes.
pub(super) fn in_session(mut frame: String, session: &str) -> String {
    frame.pop();
    frame.push_str(&format!(r#","session":"{session}"}}"#));
    frame
}

/// A call's error, as in JSON over HTTP, with its reason in front.
pub(super) fn call_failed(id: CallId, failure: &[u8]) -> String {
    format!(r#"{{"id":{id},"error":{}}}"#, with_reason(failure))
}

/// The socket's own error.
pub(super) fn failed(status: &Status) -> String {
    format!(r#"{{"error":{}}}"#, with_reason(&json::failure_text(status)))
}

/// A value that the node sends by itself, under its name.
pub(super) fn named(name: &str, value: &impl serde::Serialize) -> String {
    // It has only names, numbers and texts: writing cannot fail.
    let value = to_raw_value(value).map_or_else(|_| "{}".to_owned(), |value| value.get().to_owned());
    format!(r#"{{"{name}":{value}}}"#)
}

fn with_reason(failure: &[u8]) -> Value {
    let mut failure: Value = serde_json::from_slice(failure).unwrap_or_default();
    let details = failure["details"].as_array().into_iter().flatten();
    let reason = details.filter_map(|detail| detail["debug"]["reason"].as_str()).next().map(str::to_owned);
    if let (Some(reason), Some(failure)) = (reason, failure.as_object_mut()) {
        failure.insert("reason".to_owned(), reason.into());
    }
    failure
}

#[cfg(test)]
mod tests {
    use kith_service::error::{Error, Reason};

    use super::*;

    #[test]
    fn calls_keep_the_text_of_their_body() {
        let read = IncomingFrame::read(r#"{"body":{"a":1,"a":2},"call":"GetUser","id":7}"#).unwrap();
        let IncomingFrame::Call { id, name, body } = read else { panic!("it is a call") };
        assert_eq!((id, &*name, body), (CallId(7), "GetUser", r#"{"a":1,"a":2}"#));
        let bare = IncomingFrame::read(r#"{"id":0,"call":"CountUnread"}"#).unwrap();
        assert!(matches!(bare, IncomingFrame::Call { body: NOTHING, .. }));
    }

    #[test]
    fn other_frames_are_distinguished() {
        for text in ["", "{", "hello", "{\"id\":1,}", "{}{}"] {
            assert_eq!(IncomingFrame::read(text).unwrap_err(), Close::NotJson, "{text}");
        }
        for text in [
            "{}",
            "[]",
            "7",
            "null",
            r#"[null,1,"GetUser",{}]"#,
            r#"{"id":1}"#,
            r#"{"call":"GetUser"}"#,
            r#"{"id":-1,"call":"GetUser"}"#,
            r#"{"id":"1","call":"GetUser"}"#,
            r#"{"id":1,"id":1,"call":"GetUser"}"#,
            r#"{"id":1,"call":"GetUser","more":1}"#,
            r#"{"id":1,"call":"GetUser","hello":{}}"#,
            r#"{"renew":{},"hello":{}}"#,
            r#"{"renew":{},"id":1}"#,
        ] {
            assert_eq!(IncomingFrame::read(text).unwrap_err(), Close::Form, "{text}");
        }
    }

    #[test]
    fn session_is_beside_the_answer() {
        let frame = in_session(answer(CallId(7), "{\"a\":1}\n"), "x.y");
        assert_eq!(frame, r#"{"id":7,"answer":{"a":1},"session":"x.y"}"#);
    }

    #[test]
    fn errors_have_their_reason_in_front() {
        let text = failed(&Error::new(Reason::NotFound, "no such user").into());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["error"]["code"], "not_found");
        assert_eq!(value["error"]["reason"], "NOT_FOUND");
        assert_eq!(value["error"]["message"], "no such user");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"\{("(hello|renew|id|call|body|x)":|[{}\[\],":0-9enul. \\]){0,30}\}"#) {
            drop(IncomingFrame::read(&text));
        }
    }
}
