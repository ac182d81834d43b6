//! Imports follows so that all lists keep their order: those of one user are in one request only if their
//! places there follow from their ids.

use std::collections::HashMap;

use futures::StreamExt as _;
use kith_proto::{
    relation::v1::{
        BatchGetRelationsRequest, ImportFollow, ImportFollowsRequest, relation_result::Result as Found,
        relation_service_client::RelationServiceClient,
    },
    r#type::v1::{ImportResult, import_result::Result as Outcome},
};
use kith_server::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{
    client::Channel,
    kind::{Entry, Import, MessageStream, stored_already, strong, with_long_deadline},
};

/// Follows in the order in which they began.
#[derive(Debug)]
pub(super) struct OrderedFollows;

impl OrderedFollows {
    /// The message in a line.
    pub(super) const MESSAGE: &'static str = "kith.relation.v1.ImportFollow";
}

/// The open stream of an import.
struct FollowStream {
    channel: Channel,
    requests: mpsc::Sender<ImportFollowsRequest>,
    answers: Streaming<kith_proto::relation::v1::ImportFollowsResponse>,
}

impl Import for OrderedFollows {
    const NAME: &'static str = "follows";

    type Record = ImportFollow;

    fn read_line(&self, line: &[u8]) -> Result<Option<ImportFollow>, String> {
        json::record(Self::MESSAGE, line).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<ImportFollow>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let (requests, outgoing) = mpsc::channel(1);
        let outgoing = ReceiverStream::new(outgoing);
        let answers =
            RelationServiceClient::new(channel.clone()).import_follows(outgoing).await?.into_inner();
        let stream = FollowStream { channel, requests, answers };
        let answered = futures::stream::unfold((stream, chunks), |(mut stream, mut chunks)| async move {
            let chunk = chunks.next().await?;
            Some((stream.import(chunk).await, (stream, chunks)))
        });
        Ok(answered.boxed())
    }

    async fn are_stored(&self, _: Channel, sent: &[&ImportFollow]) -> Result<Vec<bool>, Status> {
        Ok(vec![true; sent.len()])
    }
}

impl FollowStream {
    async fn import(&mut self, chunk: Vec<Entry<ImportFollow>>) -> Result<Vec<ImportResult>, Status> {
        let stored = stored(&self.channel, &chunk).await?;
        let mut results: HashMap<i64, ImportResult> = HashMap::new();
        let mut new = Vec::new();
        for (entry, stored) in chunk.iter().zip(stored) {
            match stored {
                true => drop(results.insert(entry.number(), taken(entry.number()))),
                false => new.push(ImportFollow { record: entry.number(), ..entry.record }),
            }
        }
        for records in in_order(new) {
            let gone = || Status::unavailable("the node ended the import early");
            self.requests.send(ImportFollowsRequest { records }).await.map_err(|_| gone())?;
            let answer = self.answers.message().await?.ok_or_else(gone)?;
            results.extend(answer.results.into_iter().map(|result| (result.record, result)));
        }
        Ok(chunk.iter().filter_map(|entry| results.remove(&entry.number())).collect())
    }
}

/// Whether each follow exists. If the first one does not, none does: an import has not come so far yet.
async fn stored(channel: &Channel, chunk: &[Entry<ImportFollow>]) -> Result<Vec<bool>, Status> {
    let mut stored = vec![false; chunk.len()];
    for (at, entry) in chunk.iter().enumerate() {
        stored[at] = exists(channel, &entry.record).await?;
        if at == 0 && !stored[0] {
            break;
        }
    }
    Ok(stored)
}

async fn exists(channel: &Channel, follow: &ImportFollow) -> Result<bool, Status> {
    let request = BatchGetRelationsRequest {
        user_id: follow.user_id,
        target_ids: vec![follow.target_id],
        consistency: strong(),
    };
    let mut relations = RelationServiceClient::new(channel.clone());
    let answer = match relations.batch_get_relations(with_long_deadline(request)).await {
        Ok(answer) => answer.into_inner(),
        // The import says what is wrong with the record.
        Err(status) if status.code() == Code::InvalidArgument => return Ok(false),
        Err(status) => return Err(status),
    };
    let found = answer.results.into_iter().next().and_then(|result| result.result);
    Ok(matches!(found, Some(Found::Relation(relation)) if relation.follow.is_some()))
}

fn taken(record: i64) -> ImportResult {
    ImportResult { record, result: Some(Outcome::Error(stored_already())) }
}

/// Splits follows into requests. Follows of one request get one place in lists, where the higher id is first.
fn in_order(follows: Vec<ImportFollow>) -> Vec<Vec<ImportFollow>> {
    let mut requests: Vec<Vec<ImportFollow>> = Vec::new();
    let (mut followed, mut fans) = (HashMap::new(), HashMap::new());
    for follow in follows {
        let (user, target) = (follow.user_id, follow.target_id);
        let is_later = followed.get(&user).is_none_or(|last| *last < target)
            && fans.get(&target).is_none_or(|last| *last < user);
        if !is_later || requests.is_empty() {
            requests.push(Vec::new());
            followed.clear();
            fans.clear();
        }
        followed.insert(user, target);
        fans.insert(target, user);
        if let Some(request) = requests.last_mut() {
            request.push(follow);
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pairs: &[(i64, i64)]) -> Vec<usize> {
        let follow = |(user_id, target_id): &(i64, i64)| ImportFollow {
            user_id: *user_id,
            target_id: *target_id,
            ..ImportFollow::default()
        };
        in_order(pairs.iter().map(follow).collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn requests_keep_the_order_of_lists() {
        assert_eq!(split(&[]), [0; 0]);
        assert_eq!(split(&[(1, 2), (1, 3), (2, 3), (9, 1)]), [4]);
        assert_eq!(split(&[(1, 3), (1, 2), (5, 2), (4, 2)]), [1, 2, 1]);
    }
}
