//! Imports and exports users.

use std::collections::BTreeMap;

use crate::client::Channel;
use futures::StreamExt as _;
use kith_proto::{
    r#type::v1::ImportResult,
    user::v1::{
        BatchGetUsersRequest, ExportUsersRequest, ImportUser, ImportUsersRequest, User,
        user_result::Result::{Error as Failed, NotFound, User as Found},
        user_service_client::UserServiceClient,
    },
};
use kith_server::jsonl::record;
use serde::Serialize;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::kind::{
    Entry, Export, Import, MessageStream, StoredRecords, is_default, rfc3339, same_by_id, strong,
    with_long_deadline,
};

/// Parameters that no answer shows, so that they cannot be compared.
const SECRET_PARAMS: [&str; 2] = ["pwd", "sid"];

#[derive(Debug)]
pub(super) struct Users;

impl Import for Users {
    const NAME: &'static str = "users";

    type Record = User;

    fn read_line(&self, line: &[u8]) -> Result<Option<User>, String> {
        record::user(line).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<User>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let requests =
            chunks.map(|chunk| ImportUsersRequest { records: chunk.into_iter().map(wire).collect() });
        let answers = UserServiceClient::new(channel).import_users(requests).await?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.results)).boxed())
    }

    async fn are_stored(&self, channel: Channel, sent: &[&User]) -> Result<Vec<bool>, Status> {
        same_by_id(sent, Self::number, async |ids| read(channel.clone(), ids).await, same).await
    }
}

impl Export for Users {
    type Record = User;

    fn line(user: &User) -> serde_json::Result<String> {
        serde_json::to_string(&UserLine {
            user_id: user.user_id.to_string(),
            user_name: &user.user_name,
            nick_name: &user.nick_name,
            email: &user.email,
            phone: &user.phone,
            gender: Some(user.gender())
                .filter(|gender| !is_default(gender))
                .map(|gender| gender.as_str_name()),
            age: user.age,
            region: &user.region,
            icon: &user.icon,
            params: &user.params,
            version: user.version.to_string(),
            create_time: rfc3339(user.create_time),
            update_time: rfc3339(user.update_time),
        })
    }

    fn number(user: &User) -> i64 {
        user.user_id
    }

    async fn export(&self, channel: Channel, after_user_id: i64) -> Result<MessageStream<Vec<User>>, Status> {
        let answers = UserServiceClient::new(channel)
            .export_users(ExportUsersRequest { after_user_id })
            .await?
            .into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.users)).boxed())
    }
}

/// Returns whether the stored user equals the sent user, except for secrets.
pub(super) fn same(sent: &User, stored: &User) -> bool {
    let mut sent = sent.clone();
    sent.params.retain(|key, _| !SECRET_PARAMS.contains(&key.as_str()));
    sent == record::importable_user(stored.clone())
}

async fn read(channel: Channel, user_ids: Vec<i64>) -> Result<StoredRecords<User>, Status> {
    let request = BatchGetUsersRequest { user_ids, consistency: strong() };
    let answer =
        UserServiceClient::new(channel).batch_get_users(with_long_deadline(request)).await?.into_inner();
    let mut stored = StoredRecords::default();
    for result in answer.results {
        match result.result {
            Some(Found(user)) => stored.records.push(user),
            Some(Failed(error)) => stored.fail(result.user_id, error)?,
            Some(NotFound(_)) | None => {}
        }
    }
    Ok(stored)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserLine<'a> {
    user_id: String,
    user_name: &'a str,
    #[serde(skip_serializing_if = "is_default")]
    nick_name: &'a str,
    #[serde(skip_serializing_if = "is_default")]
    email: &'a str,
    #[serde(skip_serializing_if = "is_default")]
    phone: &'a str,
    #[serde(skip_serializing_if = "is_default")]
    gender: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    age: i32,
    #[serde(skip_serializing_if = "is_default")]
    region: &'a str,
    #[serde(skip_serializing_if = "is_default")]
    icon: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    params: &'a BTreeMap<String, String>,
    version: String,
    #[serde(skip_serializing_if = "is_default")]
    create_time: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    update_time: Option<String>,
}

fn wire(entry: Entry<User>) -> ImportUser {
    ImportUser { record: entry.number(), user: Some(entry.record), request_id: entry.request_id }
}

#[cfg(test)]
mod tests {
    use kith_proto::user::v1::Gender;

    use super::*;

    fn parse(line: &str) -> Result<User, String> {
        Users.read_line(line.as_bytes()).map(Option::unwrap)
    }

    #[test]
    fn a_line_of_an_export_can_be_imported() {
        let user = User {
            user_id: 7,
            user_name: "李娜".to_owned(),
            email: "li@example.org".to_owned(),
            gender: Gender::Female.into(),
            age: 30,
            params: BTreeMap::from([("title".to_owned(), "医生".to_owned())]),
            version: 3,
            create_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
            ..User::default()
        };
        let line = Users::line(&user).unwrap();
        assert!(line.contains(r#""createTime":"1970-01-01T00:00:01.000Z""#), "{line}");
        assert!(same(&parse(&line).unwrap(), &user));
    }

    #[test]
    fn users_are_compared_without_their_secrets() {
        let sent = parse(r#"{"userId":1,"userName":"a","params":{"pwd":"hush","lang":"en"}}"#).unwrap();
        let stored = parse(r#"{"userId":1,"userName":"a","params":{"lang":"en"}}"#).unwrap();
        assert!(same(&sent, &User { version: 4, ..stored.clone() }));
        assert!(!same(&sent, &User { age: 4, ..stored }));
    }

    #[test]
    fn an_unknown_gender_or_field_is_refused() {
        let why = parse(r#"{"gender":"X"}"#).unwrap_err();
        assert!(why.starts_with("gender must be one of GENDER_UNSPECIFIED, "), "{why}");
        let why = parse(r#"{"userName":"a","shoeSize":44}"#).unwrap_err();
        assert_eq!(why, "shoeSize is no field of User");
    }

    #[test]
    fn values_are_read_as_those_of_calls_are() {
        let expected = User { user_id: 12, age: 30, ..User::default() };
        for line in [
            r#"{"userId":12,"age":30}"#,
            r#"{"userId":"12","age":"30"}"#,
            r#"{"user_id":12.0,"age":30.0}"#,
            r#"{"userId":1.2e1,"age":3e1,"email":null}"#,
        ] {
            assert_eq!(parse(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn errors_do_not_contain_the_value() {
        for (line, expected) in [
            (r#"{"userId":1.5}"#, "user_id must be a whole number of 64 bits"),
            (r#"{"age":4294967296}"#, "age must be a whole number of 32 bits"),
            (r#"{"userName":1}"#, "user_name must be a string"),
            (r#"{"user_name":"a","userName":"a"}"#, "user_name is given twice"),
            ("[1]", "not a JSON object"),
            ("{", "not JSON: EOF while parsing an object at column 1"),
        ] {
            assert_eq!(parse(line).unwrap_err(), expected, "{line}");
        }
        assert!(Users.read_line(b"\"\xff\"").is_err());
    }
}
