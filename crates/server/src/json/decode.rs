//! Decodes JSON texts into messages.

use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use serde_json::Deserializer;
use tonic::Status;

use super::{
    catalogue,
    error::ReadError,
    path_deserializer::{PathDeserializer, PathTracker},
};

/// Reads a message from its proto3 JSON form, except masks, see `mask.rs`.
///
/// A field may be named as in JSON (`userId`) or as in the contract (`user_id`); null is an absent field.
/// Unknown and duplicate fields are errors.
///
/// # Errors
/// INVALID_ARGUMENT that names the field, or line and column if the text is not JSON. Never contains a value.
pub fn message(input: &MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, Box<Status>> {
    parsed(input, text).map_err(ReadError::status)
}

/// Reads a line as [`message`] reads a body: into the message with this full name.
///
/// # Errors
/// Says why it cannot be decoded, as a text that follows the line number. Never contains a value.
pub(super) fn record<M: prost::Message + Default>(name: &str, line: &[u8]) -> Result<M, String> {
    let Some(input) = catalogue::message(name) else { return Err(format!("{name} is not a message")) };
    let record = parsed(&input, line).map_err(ReadError::line)?;
    record.transcode_to().map_err(|_| format!("not of the form of {name}"))
}

fn parsed(input: &MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, ReadError> {
    let tracker = PathTracker::new(input.clone());
    let mut reader = Deserializer::from_slice(text);
    let read = DynamicMessage::deserialize(input.clone(), PathDeserializer::new(&mut reader, &tracker));
    let mut message = read
        .and_then(|message| reader.end().map(|()| message))
        .map_err(|error| ReadError::of(&tracker, &error, text.is_empty()))?;
    for (field, mask) in tracker.into_masks() {
        let mut value = match field.kind().as_message() {
            Some(descriptor) => DynamicMessage::new(descriptor.clone()),
            None => continue,
        };
        if value.transcode_from(&mask).is_ok() {
            message.set_field(&field, Value::Message(value));
        }
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use kith_proto::user::v1::UpdateUserRequest;
    use tonic::Code;
    use tonic_types::StatusExt as _;

    use super::*;
    use crate::json::catalogue;

    fn read(text: &str) -> Result<UpdateUserRequest, Box<Status>> {
        let input = catalogue::message("kith.user.v1.UpdateUserRequest").unwrap();
        Ok(message(&input, text.as_bytes())?.transcode_to().unwrap())
    }

    /// The field that the error names, and its text.
    #[track_caller]
    fn error_of(text: &str) -> (String, String) {
        let status = read(text).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let bad = status.get_details_bad_request().unwrap();
        (bad.field_violations[0].field.clone(), status.message().to_owned())
    }

    #[test]
    fn numbers_and_names_are_read_in_both_forms() {
        let texts = [
            r#"{"user":{"userId":7,"age":"30"},"expectedVersion":"5"}"#,
            r#"{"user":{"user_id":"7","age":30},"expected_version":5.0,"requestId":null}"#,
        ];
        let read = texts.map(|text| read(text).unwrap());
        assert_eq!(read[0], read[1]);
        assert_eq!(read[0].user.as_ref().unwrap().user_id, 7);
    }

    #[test]
    fn mask_is_read_as_string_and_as_object() {
        let paths = ["user_name", "nick_name", "params.theKey", "params.a_b", "*"];
        for mask in [
            r#"{"updateMask":"userName, nick_name,params.theKey,params.a_b,*"}"#,
            r#"{"update_mask":{"paths":["userName","nick_name","params.theKey","params.a_b","*"]}}"#,
        ] {
            assert_eq!(read(mask).unwrap().update_mask.unwrap().paths, paths, "{mask}");
        }
        for none in [r#"{"updateMask":{}}"#, r#"{"updateMask":{"paths":null}}"#, r#"{"updateMask":""}"#] {
            assert!(read(none).unwrap().update_mask.unwrap().paths.is_empty(), "{none}");
        }
        assert_eq!(read(r#"{"updateMask":null}"#).unwrap().update_mask, None);
    }

    #[test]
    fn mask_in_another_form_names_both_forms() {
        let form = r#"update_mask must be a string of fields with commas between, or {"paths": [...]}"#;
        for mask in
            ["7", "[]", r#"["user_name"]"#, r#"{"path":["age"]}"#, r#"{"paths":"age"}"#, r#"{"paths":[1]}"#]
        {
            let error = error_of(&format!(r#"{{"updateMask":{mask}}}"#));
            assert_eq!(error, ("update_mask".to_owned(), form.to_owned()), "{mask}");
        }
    }

    #[test]
    fn the_field_at_fault_is_named_where_it_stands() {
        assert_eq!(error_of(r#"{"user":{"usrName":"a"}}"#).0, "user.usrName");
        assert_eq!(
            error_of(r#"{"user":{"age":"old"}}"#),
            ("user.age".into(), "user.age must be a whole number of 32 bits".into())
        );
        assert_eq!(error_of(r#"{"user":{"params":{"color":{}}}}"#).0, "user.params.color");
        assert_eq!(error_of(r#"{"user":[]}"#), ("user".into(), "user must be an object".into()));
        assert_eq!(error_of(r#"{"updateMask":["user_name"]}"#).0, "update_mask");
        assert!(error_of(r#"{"user":{"gender":"MALE"}}"#).1.contains("GENDER_MALE"));
    }

    #[test]
    fn duplicates_are_refused_under_both_names() {
        assert_eq!(error_of(r#"{"requestId":"a","requestId":"a"}"#).1, "request_id is given twice");
        assert_eq!(error_of(r#"{"user":{"user_id":1,"userId":1}}"#).0, "user.user_id");
        let keys = read(r#"{"user":{"params":{"a_b":"1","aB":"2"}}}"#).unwrap();
        assert_eq!(keys.user.unwrap().params.len(), 2, "keys of a map are what they are");
    }

    #[test]
    fn no_value_is_repeated() {
        for text in
            [r#"{"user":{"age":"4929"}"#, r#"{"user":{"age":"49x29"}}"#, r#"{"user":{"userName":4929}}"#]
        {
            let message = read(text).unwrap_err().message().to_owned();
            assert!(!message.contains("29"), "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let input = catalogue::message("kith.user.v1.UpdateUserRequest").unwrap();
            drop(message(&input, &bytes));
        }

        #[test]
        fn what_looks_like_json_is_read_or_refused(
            text in r#"\{("(user|userId|user_id|params|updateMask|x)":|[{}\[\],":0-9enul. \\]){0,30}\}"#,
        ) {
            if let Err(status) = read(&text) {
                proptest::prop_assert_eq!(status.code(), Code::InvalidArgument);
                proptest::prop_assert!(status.get_details_error_info().is_some());
            }
        }
    }
}
