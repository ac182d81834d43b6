//! The body of an event.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{Change, ChangeRecord};

/// The most bytes of a body. A larger record is left out.
const BYTES_MAX: usize = 256 << 10;

/// Returns the body for a change, such as `{"type": "user.changed", "timestamp": "...", "position": "...",
/// "data": {"key": {...}, "record": {...}}}`. The record is null if it was removed, and absent if it is not
/// sent.
pub(crate) fn of_change(change: &Change, record: &ChangeRecord, timestamp: &str) -> Bytes {
    let event = |record, too_large| {
        let data = Data { key: &change.key, record, too_large };
        bytes(&Event {
            r#type: &format!("{}.changed", change.kind),
            timestamp,
            position: &change.position,
            data,
        })
    };
    let whole = match record {
        ChangeRecord::Present(record) => event(Some(&**record), false),
        ChangeRecord::Removed => event(Some(RawValue::NULL), false),
        ChangeRecord::KeyAlone => event(None, false),
        ChangeRecord::TooLarge => event(None, true),
    };
    if whole.len() <= BYTES_MAX { whole } else { event(None, true) }
}

/// Returns the body of an event that says nothing: `forward.test`.
pub(crate) fn of_test(timestamp: &str) -> Bytes {
    let data = Data { key: &Map::new(), record: None, too_large: false };
    bytes(&Event { r#type: "forward.test", timestamp, position: "test", data })
}

#[derive(Serialize)]
struct Event<'a> {
    r#type: &'a str,
    timestamp: &'a str,
    position: &'a str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    key: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    too_large: bool,
}

/// Texts, numbers and JSON can always be written.
fn bytes(event: &Event<'_>) -> Bytes {
    serde_json::to_vec(event).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(record: &ChangeRecord) -> String {
        let key = Map::from_iter([("userId".to_owned(), "7".into())]);
        let (kind, record_name) = ("user".to_owned(), "user/7".to_owned());
        let change =
            Change { position: "1.a.2.0".into(), kind, lane: record_name.clone(), record: record_name, key };
        String::from_utf8(of_change(&change, record, "T").to_vec()).unwrap()
    }

    #[test]
    fn body_has_key_and_record() {
        let head =
            r#"{"type":"user.changed","timestamp":"T","position":"1.a.2.0","data":{"key":{"userId":"7"}"#;
        let present = |text: &str| ChangeRecord::Present(RawValue::from_string(text.to_owned()).unwrap());
        for (record, rest) in [
            (present(r#"{"nickName":"Kim"}"#), r#","record":{"nickName":"Kim"}}}"#),
            (ChangeRecord::Removed, r#","record":null}}"#),
            (ChangeRecord::KeyAlone, "}}"),
            (ChangeRecord::TooLarge, r#","too_large":true}}"#),
            (present(&format!("\"{}\"", "a".repeat(BYTES_MAX))), r#","too_large":true}}"#),
        ] {
            assert_eq!(body(&record), format!("{head}{rest}"));
        }
    }
}
