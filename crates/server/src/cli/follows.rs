//! Follows on the command line: JSON Lines, and the lists of edges that graphs are published as.

use futures::StreamExt as _;
use kith_proto::{
    relation::v1::{ImportFollow, ImportFollowsRequest, relation_service_client::RelationServiceClient},
    r#type::v1::ImportResult,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, transport::Channel};

use super::{
    fields::Fields,
    kind::{Entry, Import, Messages},
};

/// Follows. They have no id of their own, and one that stands already is no error.
#[derive(Debug)]
pub(super) enum Follows {}

impl Import for Follows {
    type Record = ImportFollow;

    fn read_line(line: &[u8]) -> Result<Option<ImportFollow>, String> {
        let line = line.trim_ascii();
        match line.first() {
            Some(b'#') => Ok(None),
            Some(b'{') => in_json(Fields::parse(line)?).map(Some),
            _ => pair(line).map(Some),
        }
    }

    async fn import(
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<ImportFollow>>>,
    ) -> Result<Messages<Vec<ImportResult>>, Status> {
        let requests = chunks.map(|chunk| ImportFollowsRequest { records: chunk.iter().map(wire).collect() });
        let answers = RelationServiceClient::new(channel).import_follows(requests).await?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.results)).boxed())
    }

    /// No id of a follow is ever taken.
    async fn stand(_channel: Channel, records: &[&ImportFollow]) -> Result<Vec<bool>, Status> {
        Ok(vec![false; records.len()])
    }
}

fn in_json(mut fields: Fields) -> Result<ImportFollow, String> {
    let follow = ImportFollow {
        user_id: fields.integer("user_id")?,
        target_id: fields.integer("target_id")?,
        follow_time: fields.moment("follow_time")?,
        ..ImportFollow::default()
    };
    fields.finish()?;
    Ok(follow)
}

/// `1 2`, `1,2`, or with a tab between.
fn pair(line: &[u8]) -> Result<ImportFollow, String> {
    let wrong = || "neither JSON nor two user ids with a space, a tab or a comma between".to_owned();
    let text = std::str::from_utf8(line).map_err(|_| wrong())?;
    let mut parts = text
        .split(|between: char| between == ',' || between.is_ascii_whitespace())
        .filter(|part| !part.is_empty());
    let mut id = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong);
    let (user_id, target_id) = (id()?, id()?);
    match parts.next() {
        None => Ok(ImportFollow { user_id, target_id, ..ImportFollow::default() }),
        Some(_) => Err(wrong()),
    }
}

fn wire(entry: &Entry<ImportFollow>) -> ImportFollow {
    ImportFollow { record: i64::try_from(entry.line).unwrap_or(i64::MAX), ..entry.record }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<(i64, i64, Option<i64>)>, String> {
        let follow = Follows::read_line(line.as_bytes())?;
        Ok(follow
            .map(|follow| (follow.user_id, follow.target_id, follow.follow_time.map(|time| time.seconds))))
    }

    #[test]
    fn a_follow_is_read_from_json() {
        assert_eq!(
            read(r#"{"userId":"1","targetId":2,"followTime":"1970-01-01T01:00:05+01:00"}"#),
            Ok(Some((1, 2, Some(5))))
        );
        assert_eq!(read(r#" {"user_id":1,"target_id":2}"#), Ok(Some((1, 2, None))));
    }

    #[test]
    fn a_follow_is_read_from_a_list_of_edges_and_comments_are_passed_over() {
        for line in ["1 2", "1,2", "1\t2", " 1 , 2 ", "1 2\r"] {
            assert_eq!(read(line), Ok(Some((1, 2, None))), "{line:?}");
        }
        for line in ["# Nodes: 7 Edges: 8", "#", "  # FromNodeId\tToNodeId"] {
            assert_eq!(read(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_follow_is_told_without_its_values() {
        for line in ["1", "1 2 3", "1;2", "a b", "1 99999999999999999999", ","] {
            let why = read(line).unwrap_err();
            assert_eq!(
                why, "neither JSON nor two user ids with a space, a tab or a comma between",
                "{line:?}"
            );
        }
        assert_eq!(read(r#"{"userId":1,"shoeSize":44}"#).unwrap_err(), r#"unknown field "shoeSize""#);
        let why = read(r#"{"userId":1,"targetId":2,"followTime":"yesterday"}"#).unwrap_err();
        assert_eq!(why, "follow_time must be a moment like 2024-05-01T08:00:00Z");
    }
}
