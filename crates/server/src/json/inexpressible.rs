//! Locates a value without a JSON form in an answer: protobuf can hold values that JSON cannot, such as a
//! timestamp after the year 9999. Handlers do not create such answers; if a handler does, the error names the
//! record.

use prost_reflect::{DynamicMessage, Value};

/// The path to the first value that has no JSON form, with the record ids around it; `None`: there is none.
/// Walks the whole message, so it is called only after the serialization failed.
pub(super) fn describe(message: &DynamicMessage) -> Option<String> {
    let found = find(message)?;
    let ids = found.ids.map_or(String::new(), |ids| format!(" ({ids})"));
    Some(format!("{}{ids}", found.path))
}

struct InexpressibleValue {
    path: String,
    /// The ids of the innermost record that has ids.
    ids: Option<String>,
}

fn find(message: &DynamicMessage) -> Option<InexpressibleValue> {
    let found = message.fields().find_map(|(field, value)| in_field(field.name(), value))?;
    Some(InexpressibleValue { ids: found.ids.or_else(|| ids(message)), ..found })
}

fn in_field(name: &str, value: &Value) -> Option<InexpressibleValue> {
    match value {
        Value::Message(inner) => in_message(name.to_owned(), inner),
        Value::List(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| in_message(format!("{name}[{at}]"), item.as_message()?)),
        // Map keys may be callers' texts and are not repeated.
        Value::Map(entries) => {
            entries.values().find_map(|entry| in_message(name.to_owned(), entry.as_message()?))
        }
        _ => None,
    }
}

fn in_message(path: String, message: &DynamicMessage) -> Option<InexpressibleValue> {
    if serde_json::to_vec(message).is_ok() {
        return None;
    }
    match find(message) {
        Some(found) => Some(InexpressibleValue { path: format!("{path}.{}", found.path), ..found }),
        None => Some(InexpressibleValue { path, ids: None }),
    }
}

fn ids(message: &DynamicMessage) -> Option<String> {
    let ids: Vec<String> = message
        .fields()
        .filter(|(field, _)| field.name().ends_with("_id"))
        .filter_map(|(field, value)| Some(format!("{} {}", field.name(), value.as_i64()?)))
        .collect();
    (!ids.is_empty()).then(|| ids.join(", "))
}

#[cfg(test)]
mod tests {
    use kith_proto::member::v1::{ListMembersResponse, Member};
    use prost::Message as _;
    use prost_types::Timestamp;

    use super::*;
    use crate::json::catalogue;

    fn listed(mute_times: [i64; 3]) -> DynamicMessage {
        let member = |(user_id, seconds): (i64, i64)| Member {
            group_id: 9,
            user_id,
            mute_time: Some(Timestamp { seconds, nanos: 0 }),
            ..Member::default()
        };
        let members = (1..).zip(mute_times).map(member).collect();
        let answer = ListMembersResponse { members, ..ListMembersResponse::default() };
        let descriptor = catalogue::message("kith.member.v1.ListMembersResponse").unwrap();
        DynamicMessage::decode(descriptor, &*answer.encode_to_vec()).unwrap()
    }

    #[test]
    fn record_at_fault_is_named() {
        let last = 253_402_300_799;
        assert_eq!(describe(&listed([1, last, 2])), None);
        let wrong = describe(&listed([1, last + 1, last + 1])).unwrap();
        assert_eq!(wrong, "members[1].mute_time (group_id 9, user_id 2)");
    }
}
