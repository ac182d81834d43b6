//! A line that is a user or a group: as an export writes either, or with its kind around it.

use kith_proto::{group::v1::Group, user::v1::User};

use super::{fields::Fields, groups::Groups, kind::Kind as _, users::Users};

/// A record of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A user.
    User(User),
    /// A group.
    Group(Group),
}

/// Takes a line: `{"user": {...}}`, `{"group": {...}}`, or the record alone, which is a user when it has a
/// `userName` and a group when it has a `name`.
///
/// # Errors
/// Why it is neither, without its values.
pub(crate) fn parse(line: &[u8]) -> Result<Record, String> {
    let mut fields = Fields::parse(line)?;
    if let Some(inner) = fields.only("user") {
        return Users::parse(inner).map(Record::User);
    }
    if let Some(inner) = fields.only("group") {
        return Groups::parse(inner).map(Record::Group);
    }
    match (fields.has("user_name"), fields.has("name")) {
        (true, _) => Users::parse(fields).map(Record::User),
        (false, true) => Groups::parse(fields).map(Record::Group),
        (false, false) => Err("neither a user (userName) nor a group (name)".to_owned()),
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
        assert_eq!(name(r#"{"userName":"ann","name":"x"}"#).unwrap_err(), r#"unknown field "name""#);
        assert_eq!(
            name(r#"{"user":{"userName":"ann"},"group":{"name":"x"}}"#).unwrap_err(),
            "neither a user (userName) nor a group (name)"
        );
        assert_eq!(name("[]").unwrap_err(), "not a JSON object");
    }
}
