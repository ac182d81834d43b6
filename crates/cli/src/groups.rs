//! Imports and exports groups.

use std::collections::BTreeMap;

use crate::client::Channel;
use futures::StreamExt as _;
use kith_proto::{
    group::v1::{
        BatchGetGroupsRequest, ExportGroupsRequest, Group, GroupType, ImportGroup, ImportGroupsRequest,
        JoinPolicy, ReceiptVisibility, Visibility,
        group_result::Result::{Error as Failed, Group as Found, NotFound},
        group_service_client::GroupServiceClient,
    },
    r#type::v1::ImportResult,
};
use kith_server::jsonl::record;
use kith_store::GroupWords;
use serde::Serialize;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::kind::{
    Entry, Export, Import, MessageStream, StoredRecords, is_default, rfc3339, same_by_id, strong,
    with_long_deadline,
};

#[derive(Debug)]
pub(super) struct Groups;

impl Import for Groups {
    const NAME: &'static str = "groups";

    type Record = Group;

    fn read_line(&self, line: &[u8]) -> Result<Option<Group>, String> {
        record::group(line).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<Group>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let requests =
            chunks.map(|chunk| ImportGroupsRequest { records: chunk.into_iter().map(wire).collect() });
        let answers = GroupServiceClient::new(channel).import_groups(requests).await?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.results)).boxed())
    }

    async fn are_stored(&self, channel: Channel, sent: &[&Group]) -> Result<Vec<bool>, Status> {
        same_by_id(sent, Self::number, async |ids| read(channel.clone(), ids).await, same).await
    }
}

impl Export for Groups {
    type Record = Group;

    fn line(group: &Group) -> serde_json::Result<String> {
        serde_json::to_string(&GroupLine {
            group_id: group.group_id.to_string(),
            name: &group.name,
            icon: &group.icon,
            tags: &group.tags,
            r#type: group.r#type().as_str_name(),
            visibility: group.visibility().as_str_name(),
            join_policy: group.join_policy().as_str_name(),
            history_for_new_members: group.history_for_new_members,
            receipts: Some(group.receipts()).filter(is_set).map(|set| set.as_str_name()),
            params: &group.params,
            creator_id: Some(group.creator_id).filter(|id| *id != 0).map(|id| id.to_string()),
            version: group.version.to_string(),
            create_time: rfc3339(group.create_time),
            update_time: rfc3339(group.update_time),
        })
    }

    fn number(group: &Group) -> i64 {
        group.group_id
    }

    async fn export(
        &self,
        channel: Channel,
        after_group_id: i64,
    ) -> Result<MessageStream<Vec<Group>>, Status> {
        let answers = GroupServiceClient::new(channel)
            .export_groups(ExportGroupsRequest { after_group_id })
            .await?
            .into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.groups)).boxed())
    }
}

fn same(sent: &Group, stored: &Group) -> bool {
    as_created(sent.clone()) == record::importable_group(stored.clone())
}

async fn read(channel: Channel, group_ids: Vec<i64>) -> Result<StoredRecords<Group>, Status> {
    let request = BatchGetGroupsRequest { group_ids, consistency: strong() };
    let answer =
        GroupServiceClient::new(channel).batch_get_groups(with_long_deadline(request)).await?.into_inner();
    let mut stored = StoredRecords::default();
    for result in answer.results {
        match result.result {
            Some(Found(group)) => stored.records.push(group),
            Some(Failed(error)) => stored.fail(result.group_id, error)?,
            Some(NotFound(_)) | None => {}
        }
    }
    Ok(stored)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupLine<'a> {
    group_id: String,
    name: &'a str,
    #[serde(skip_serializing_if = "is_default")]
    icon: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    r#type: &'static str,
    visibility: &'static str,
    join_policy: &'static str,
    #[serde(skip_serializing_if = "is_default")]
    history_for_new_members: bool,
    #[serde(skip_serializing_if = "is_default")]
    receipts: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    params: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_default")]
    creator_id: Option<String>,
    version: String,
    #[serde(skip_serializing_if = "is_default")]
    create_time: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    update_time: Option<String>,
}

fn is_set(receipts: &ReceiptVisibility) -> bool {
    *receipts != ReceiptVisibility::Unspecified
}

/// Returns a group with the values that a node sets where none is given.
fn as_created(mut group: Group) -> Group {
    let given = |number: i32, default: i32| if number == 0 { default } else { number };
    group.r#type = given(group.r#type, GroupType::Chat.into());
    group.visibility = given(group.visibility, Visibility::Private.into());
    group.join_policy = given(group.join_policy, JoinPolicy::Approval.into());
    if let Ok(tags) = GroupWords::tags(&group.tags) {
        group.tags = tags.into_iter().map(String::from).collect();
    }
    group
}

fn wire(entry: Entry<Group>) -> ImportGroup {
    ImportGroup { record: entry.number(), group: Some(entry.record), request_id: entry.request_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Group, String> {
        Groups.read_line(line.as_bytes()).map(Option::unwrap)
    }

    #[test]
    fn a_line_of_an_export_can_be_imported() {
        let group = Group {
            group_id: 7,
            name: "将棋の会".to_owned(),
            icon: "https://example.org/将棋.png".to_owned(),
            tags: vec!["将棋".to_owned()],
            r#type: GroupType::Channel.into(),
            visibility: Visibility::Public.into(),
            join_policy: JoinPolicy::Open.into(),
            history_for_new_members: true,
            receipts: ReceiptVisibility::Members.into(),
            creator_id: 4,
            version: 2,
            ..Group::default()
        };
        assert!(same(&parse(&Groups::line(&group).unwrap()).unwrap(), &group));
    }

    #[test]
    fn defaults_of_the_node_do_not_differ_a_group() {
        let sent = parse(r#"{"groupId":"7","name":"a","tags":["x","X"]}"#).unwrap();
        let stored = Group { version: 1, tags: vec!["x".to_owned()], ..as_created(sent.clone()) };
        assert!(same(&sent, &stored));
        assert!(!same(&sent, &Group { creator_id: 1, ..stored }));
    }
}
