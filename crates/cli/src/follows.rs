//! Reads follows: JSON Lines, and edge lists, which are the form of published graphs.

use crate::client::Channel;
use futures::StreamExt as _;
use kith_proto::{
    relation::v1::{ImportFollow, ImportFollowsRequest, relation_service_client::RelationServiceClient},
    r#type::v1::ImportResult,
};
use kith_server::json;
use prost_types::Timestamp;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    edge_list::{Columns, Edge},
    kind::{Entry, Import, MessageStream},
};

const NO_FOLLOW: &str = "neither JSON nor two user ids in its columns";
const WRONG_TIME: &str = "follow_time must be a time such as \"2026-01-31T12:00:00Z\"";

/// Imports follows. They have no id, and a follow that exists already is no error.
#[derive(Debug)]
pub(super) struct Follows {
    columns: Columns,
}

impl Default for Follows {
    fn default() -> Self {
        Self { columns: Columns::FIRST_TWO }
    }
}

impl Import for Follows {
    const NAME: &'static str = "follows";

    type Record = ImportFollow;

    fn examine(&mut self, beginning: &[u8]) -> Result<(), String> {
        self.columns = Columns::of(&record_lines(beginning))?;
        Ok(())
    }

    fn read_line(&self, line: &[u8]) -> Result<Option<ImportFollow>, String> {
        let line = line.trim_ascii();
        match line.first() {
            Some(b'#' | b'%') => return Ok(None),
            Some(b'{') => return json::record("kith.relation.v1.ImportFollow", line).map(Some),
            _ => {}
        }
        let text = std::str::from_utf8(line).map_err(|_| NO_FOLLOW.to_owned())?;
        if self.columns.is_header(text) {
            return Ok(None);
        }
        self.columns.edge(text).ok_or_else(|| NO_FOLLOW.to_owned()).and_then(follow).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<ImportFollow>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let requests = chunks.map(|chunk| ImportFollowsRequest { records: chunk.iter().map(wire).collect() });
        let answers = RelationServiceClient::new(channel).import_follows(requests).await?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.results)).boxed())
    }

    /// A follow has no id that could be taken already.
    async fn are_stored(&self, _: Channel, sent: &[&ImportFollow]) -> Result<Vec<bool>, Status> {
        Ok(vec![false; sent.len()])
    }
}

/// Returns the first lines that hold something, without a byte order mark and a cut line at the end.
fn record_lines(beginning: &[u8]) -> Vec<&str> {
    let text = beginning.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(beginning);
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(text, |end| &text[..end]);
    let lines =
        whole.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line.trim_ascii()).ok());
    lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '%'])).collect()
}

fn follow(edge: Edge) -> Result<ImportFollow, String> {
    let Edge { user_id, target_id, time } = edge;
    let time = time.map(|time| time.parse::<Timestamp>().map_err(|_| WRONG_TIME.to_owned())).transpose()?;
    Ok(ImportFollow { user_id, target_id, follow_time: time, ..ImportFollow::default() })
}

fn wire(entry: &Entry<ImportFollow>) -> ImportFollow {
    ImportFollow { record: entry.number(), ..entry.record }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(follows: &Follows, line: &str) -> Result<Option<(i64, i64, Option<i64>)>, String> {
        let follow = follows.read_line(line.as_bytes())?;
        Ok(follow
            .map(|follow| (follow.user_id, follow.target_id, follow.follow_time.map(|time| time.seconds))))
    }

    fn read(line: &str) -> Result<Option<(i64, i64, Option<i64>)>, String> {
        let mut follows = Follows::default();
        follows.examine(b"1 2\n").unwrap();
        read_as(&follows, line)
    }

    #[test]
    fn a_follow_is_read_from_json() {
        assert_eq!(
            read(r#"{"userId":"1","targetId":2.0,"followTime":"1970-01-01T01:00:05+01:00"}"#),
            Ok(Some((1, 2, Some(5))))
        );
        assert_eq!(read(r#" {"user_id":1,"target_id":2}"#), Ok(Some((1, 2, None))));
    }

    #[test]
    fn follow_is_read_from_a_list_without_comments() {
        assert_eq!(read(" 1\t2\r"), Ok(Some((1, 2, None))));
        for line in ["# Nodes: 7 Edges: 8", "#", "  # FromNodeId\tToNodeId", "% asym unweighted", "% 8 7 7"] {
            assert_eq!(read(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn a_header_is_found_behind_comments() {
        let beginning = b"\xEF\xBB\xBF# from a table\n\ntarget_id,user_id,follow_time\n2,1,\ncut o";
        let mut follows = Follows::default();
        follows.examine(beginning).unwrap();
        assert_eq!(read_as(&follows, "target_id,user_id,follow_time\r"), Ok(None));
        assert_eq!(read_as(&follows, "2,1,1970-01-01T00:00:05Z"), Ok(Some((1, 2, Some(5)))));
        assert_eq!(read_as(&follows, "2,1,soon"), Err(WRONG_TIME.to_owned()));
    }

    #[test]
    fn graph_with_two_lines_of_comments_is_read() {
        let lines = ["% asym unweighted", "% 8 7 7", "1 2"];
        let mut follows = Follows::default();
        follows.examine(lines.join("\n").as_bytes()).unwrap();
        let read = lines.map(|line| read_as(&follows, line));
        assert_eq!(read, [Ok(None), Ok(None), Ok(Some((1, 2, None)))]);
    }

    #[test]
    fn line_without_follow_is_refused_without_values() {
        for line in ["1", "a b", "1 99999999999999999999", ","] {
            assert_eq!(read(line).unwrap_err(), NO_FOLLOW, "{line:?}");
        }
        let why = read(r#"{"userId":1,"shoeSize":44}"#).unwrap_err();
        assert_eq!(why, "shoeSize is no field of ImportFollow");
        let why = read(r#"{"userId":1,"targetId":2,"followTime":"yesterday"}"#).unwrap_err();
        assert_eq!(why, WRONG_TIME);
    }
}
