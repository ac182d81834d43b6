//! Registers readers in audiences from the command line.

use crate::client::Channel;
use futures::StreamExt as _;
use kith_proto::{
    notice::v1::{RegisterReadersRequest, notice_service_client::NoticeServiceClient},
    r#type::v1::{ImportResult, ResultError, import_result::Result as Outcome},
};
use kith_server::json;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::kind::{Entry, Import, MessageStream, with_long_deadline};

/// The most readers that one call registers.
const AT_ONCE: usize = 1_000;

/// Readers in audiences: a line registers one or several. A reader that is registered already is no error.
#[derive(Debug)]
pub(super) struct Readers;

type ReaderEntry = Entry<RegisterReadersRequest>;

impl Import for Readers {
    const NAME: &'static str = "readers";

    type Record = RegisterReadersRequest;

    fn read_line(&self, line: &[u8]) -> Result<Option<RegisterReadersRequest>, String> {
        json::record("kith.notice.v1.RegisterReadersRequest", line).map(Some)
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<ReaderEntry>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let answers = chunks.then(move |chunk| register(channel.clone(), chunk));
        Ok(answers.boxed())
    }

    /// A reader has no id that could be taken already.
    async fn are_stored(&self, _: Channel, sent: &[&RegisterReadersRequest]) -> Result<Vec<bool>, Status> {
        Ok(vec![false; sent.len()])
    }
}

/// Registers a chunk's readers, with one call for each run of lines.
async fn register(channel: Channel, chunk: Vec<ReaderEntry>) -> Result<Vec<ImportResult>, Status> {
    let mut results = Vec::with_capacity(chunk.len());
    for lines in group_lines(&chunk) {
        let readers = lines.iter().flat_map(|line| line.record.readers.iter().cloned()).collect();
        let request = RegisterReadersRequest { audience_id: lines[0].record.audience_id, readers };
        let of_lines: Vec<ImportResult> = match call(&channel, request).await {
            Ok(()) => lines.iter().map(|line| result(line, Ok(()))).collect(),
            Err(failed) if is_retryable(&failed) => return Err(failed),
            // At least one reader in the call is invalid.
            Err(_) => register_each(&channel, lines).await?,
        };
        results.extend(of_lines);
    }
    Ok(results)
}

async fn register_each(channel: &Channel, lines: &[ReaderEntry]) -> Result<Vec<ImportResult>, Status> {
    let mut results = Vec::with_capacity(lines.len());
    for line in lines {
        match call(channel, line.record.clone()).await {
            Err(failed) if is_retryable(&failed) => return Err(failed),
            registered => results.push(result(line, registered)),
        }
    }
    Ok(results)
}

async fn call(channel: &Channel, request: RegisterReadersRequest) -> Result<(), Status> {
    NoticeServiceClient::new(channel.clone()).register_readers(with_long_deadline(request)).await.map(drop)
}

/// Groups successive lines with the same audience, which one call can register.
fn group_lines(chunk: &[ReaderEntry]) -> Vec<&[ReaderEntry]> {
    let (mut runs, mut first, mut readers) = (Vec::new(), 0, 0);
    for (at, line) in chunk.iter().enumerate() {
        let more = line.record.readers.len();
        let is_other = line.record.audience_id != chunk[first].record.audience_id;
        if at > first && (is_other || readers + more > AT_ONCE) {
            runs.push(&chunk[first..at]);
            (first, readers) = (at, 0);
        }
        readers += more;
    }
    if first < chunk.len() {
        runs.push(&chunk[first..]);
    }
    runs
}

/// Returns whether the same may be registered a while later.
fn is_retryable(failed: &Status) -> bool {
    matches!(failed.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown)
}

fn result(line: &ReaderEntry, registered: Result<(), Status>) -> ImportResult {
    let first = line.record.readers.first().map_or(0, |reader| reader.reader_id);
    let outcome = match registered {
        Ok(()) => Outcome::Id(first),
        Err(failed) => Outcome::Error(ResultError {
            code: failed.code().into(),
            reason: failed
                .get_error_details()
                .error_info()
                .map(|info| info.reason.clone())
                .unwrap_or_default(),
            message: failed.message().to_owned(),
            ..ResultError::default()
        }),
    };
    ImportResult { record: line.number(), result: Some(outcome) }
}

#[cfg(test)]
mod tests {
    use kith_proto::notice::v1::Reader;

    use super::*;

    fn line(number: u64, audience_id: i32, readers: usize) -> ReaderEntry {
        let readers = vec![Reader { reader_id: 7, since: None }; readers];
        let record = RegisterReadersRequest { audience_id, readers };
        Entry { line: number, request_id: String::new(), record }
    }

    #[test]
    fn line_is_a_request_in_json() {
        let read = |line: &str| Readers.read_line(line.as_bytes());
        let request =
            read(r#"{"audienceId":1,"readers":[{"readerId":"7"},{"readerId":8}]}"#).unwrap().unwrap();
        assert_eq!((request.audience_id, request.readers.len()), (1, 2));
        let wrong = read(r#"{"audience":1}"#).unwrap_err();
        assert_eq!(wrong, "audience is no field of RegisterReadersRequest; did you mean audienceId?");
    }

    #[test]
    fn lines_of_one_audience_are_registered_together() {
        let sizes =
            |lines: &[ReaderEntry]| group_lines(lines).iter().map(|run| run.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0_usize; 0]);
        assert_eq!(sizes(&[line(1, 1, 1), line(2, 1, 1), line(3, 2, 1), line(4, 1, 1)]), [2, 1, 1]);
        assert_eq!(sizes(&[line(1, 1, 600), line(2, 1, 400), line(3, 1, 1)]), [2, 1]);
        assert_eq!(sizes(&[line(1, 1, 1_001), line(2, 1, 1)]), [1, 1], "the first is refused by the node");
    }
}
