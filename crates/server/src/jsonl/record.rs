//! A line with a user, a group or a message: as an export writes it; in a seed also wrapped in its kind.

use std::collections::BTreeMap;

use kith_proto::{
    group::v1::{Group, ImportGroup},
    message::v1::{ImportMessage, Message},
    user::v1::{ImportUser, User},
};
use serde::de::IgnoredAny;

use crate::json;

/// A user record or a group record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The line holds a user.
    User(User),
    /// The line holds a group.
    Group(Group),
}

/// Reads a line: `{"user": {...}}`, `{"group": {...}}`, or the record alone, which is a user when it has a
/// `userName` and a group when it has a `name`.
///
/// # Errors
/// Why it is neither, without values.
pub fn parse(line: &[u8]) -> Result<Record, String> {
    let names = FieldNames::of(line);
    if names.are_only("user") {
        let whole: ImportUser = json::record("kith.user.v1.ImportUser", line)?;
        return Ok(Record::User(importable_user(whole.user.unwrap_or_default())));
    }
    if names.are_only("group") {
        let whole: ImportGroup = json::record("kith.group.v1.ImportGroup", line)?;
        return Ok(Record::Group(importable_group(whole.group.unwrap_or_default())));
    }
    match (names.have("userName") || names.have("user_name"), names.have("name")) {
        (false, false) if names.is_object() => Err("neither a user (userName) nor a group (name)".to_owned()),
        (false, true) => group(line).map(Record::Group),
        (true, _) | (false, false) => user(line).map(Record::User),
    }
}

/// Reads a user.
///
/// # Errors
/// Why the line is invalid, without values.
pub fn user(line: &[u8]) -> Result<User, String> {
    json::record("kith.user.v1.User", line).map(importable_user)
}

/// Reads a group.
///
/// # Errors
/// Why the line is invalid, without values.
pub fn group(line: &[u8]) -> Result<Group, String> {
    json::record("kith.group.v1.Group", line).map(importable_group)
}

/// The user without answer fields: an export contains them, an import ignores them.
#[must_use]
pub fn importable_user(user: User) -> User {
    User { version: 0, create_time: None, update_time: None, ..user }
}

/// The group without answer fields.
#[must_use]
pub fn importable_group(group: Group) -> Group {
    Group { version: 0, create_time: None, update_time: None, ..group }
}

/// Reads a message.
///
/// # Errors
/// Why the line is invalid, without values.
pub fn message(line: &[u8]) -> Result<Message, String> {
    json::record("kith.message.v1.Message", line).map(importable_message)
}

/// Reads a message, `{"mark": {...}}`: what a user had read, or `{"reaction": {...}}`.
///
/// # Errors
/// Why the line is invalid, without values.
pub fn message_or_mark(line: &[u8]) -> Result<ImportMessage, String> {
    let names = FieldNames::of(line);
    if names.are_only("mark") || names.are_only("reaction") {
        return json::record("kith.message.v1.ImportMessage", line);
    }
    message(line).map(|message| ImportMessage { message: Some(message), ..ImportMessage::default() })
}

/// The message for an import, without later changes. A recalled message becomes an empty, silent message.
#[must_use]
pub fn importable_message(message: Message) -> Message {
    let silent = message.silent || message.recall.is_some();
    let send_time = message.send_time.map(|time| prost_types::Timestamp {
        // The store has milliseconds.
        nanos: time.nanos / 1_000_000 * 1_000_000,
        ..time
    });
    let reactions = Vec::new();
    Message { silent, send_time, edit_time: None, edits: 0, recall: None, reactions, ..message }
}

/// The field names in a line. None if the line is not a JSON object.
struct FieldNames(Option<BTreeMap<String, IgnoredAny>>);

impl FieldNames {
    fn of(line: &[u8]) -> Self {
        Self(serde_json::from_slice(line).ok())
    }

    const fn is_object(&self) -> bool {
        self.0.is_some()
    }

    fn have(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|names| names.contains_key(name))
    }

    /// Whether this is the only name.
    fn are_only(&self, name: &str) -> bool {
        self.have(name) && self.0.as_ref().is_some_and(|names| names.len() == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(line: &str) -> Result<String, String> {
        parse(line.as_bytes()).map(|record| match record {
            Record::User(user) => format!("user {}", user.user_name),
            Record::Group(group) => format!("group {}", group.name),
        })
    }

    #[test]
    fn a_record_alone_is_known_by_its_name() {
        assert_eq!(name(r#"{"userName":"ann"}"#).unwrap(), "user ann");
        assert_eq!(name(r#"{"user_name":"ann"}"#).unwrap(), "user ann");
        assert_eq!(name(r#"{"groupId":"7","name":"chess"}"#).unwrap(), "group chess");
    }

    #[test]
    fn a_kind_around_it_says_what_it_is() {
        assert_eq!(name(r#"{"user":{"userName":"ann"}}"#).unwrap(), "user ann");
        assert_eq!(name(r#"{"group":{"name":"chess"}}"#).unwrap(), "group chess");
    }

    #[test]
    fn what_is_neither_is_refused() {
        assert_eq!(name(r#"{"age":7}"#).unwrap_err(), "neither a user (userName) nor a group (name)");
        assert_eq!(name(r#"{"userName":"ann","name":"x"}"#).unwrap_err(), "name is no field of User");
        assert_eq!(
            name(r#"{"user":{"userName":"ann"},"group":{"name":"x"}}"#).unwrap_err(),
            "neither a user (userName) nor a group (name)"
        );
        assert_eq!(name("[]").unwrap_err(), "not a JSON object");
    }
}
