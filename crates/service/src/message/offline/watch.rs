//! Streams users without a receiver: a position in each log.

use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use kith_proto::message::v1 as wire;
use kith_store::{ConversationId, LogEnd, Seq, SeqRange, document_parts};
use prost::Message as _;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{sleep, timeout},
};
use tonic::{Code, Status};

use super::{OfflineLogs, before, entry};
use crate::{error::Error, message::store_error, rpc::page_token::PageTokens};

/// How often the logs are read for other nodes' entries.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause before the next attempt after an error.
const PAUSE: Duration = Duration::from_millis(500);
/// Attempts; then the stream ends with the error.
const TRIES: u32 = 10;
/// Bytes after which a response is full. The last entry may exceed it.
const FULL: usize = 256 << 10;
/// Longest cursor, in characters.
const CURSOR_CHARS_MAX: usize = 4_096;
/// The query that cursors are bound to.
const QUERY: &[u8] = b"WatchOffline";

const LOGS: usize = ConversationId::OFFLINE.len();

/// The stream to the service.
pub(super) type OfflineStream = BoxStream<'static, Result<wire::WatchOfflineResponse, Status>>;

/// For each log, the number up to which everything was sent.
pub(super) type OfflinePosition = [Seq; LOGS];

struct OfflineWatcher {
    logs: OfflineLogs,
    tokens: PageTokens,
    after: OfflinePosition,
    entered: watch::Receiver<()>,
    /// How often the logs were read: each read begins with another log.
    rounds: usize,
    has_begun: bool,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

/// The next response.
#[derive(Debug, Default)]
struct NextResponse {
    messages: Vec<wire::OfflineMessage>,
    bytes: usize,
    missed: bool,
}

/// A cursor's position; `None`: there is no cursor.
///
/// # Errors
/// INVALID_ARGUMENT if it was not made by this call.
pub(super) fn position(tokens: &PageTokens, cursor: &str) -> Result<Option<OfflinePosition>, Error> {
    let refused = || Error::invalid("cursor", "must be one that WatchOffline returned");
    if cursor.len() > CURSOR_CHARS_MAX {
        return Err(refused());
    }
    tokens.verify_numbers(&[QUERY], cursor).map_err(|_| refused())
}

impl OfflineLogs {
    /// The entries after a position, or from now on, as a stream.
    pub(super) async fn watch(
        &self,
        position: Option<OfflinePosition>,
        tokens: PageTokens,
        permit: OwnedSemaphorePermit,
    ) -> Result<OfflineStream, Error> {
        let after = match position {
            Some(position) => position,
            None => self.ends().await?.map(|end| end.seq),
        };
        let watcher = OfflineWatcher {
            logs: self.clone(),
            tokens,
            after,
            entered: self.0.entered.subscribe(),
            rounds: 0,
            has_begun: false,
            ended: false,
            _permit: permit,
        };
        Ok(stream::unfold(watcher, OfflineWatcher::next).boxed())
    }

    async fn ends(&self) -> Result<[LogEnd; LOGS], Error> {
        let ends = self.0.store.ends(&ConversationId::OFFLINE).await.map_err(store_error)?;
        ends.try_into().map_err(|_| Error::internal())
    }
}

impl OfflineWatcher {
    async fn next(mut self) -> Option<(Result<wire::WatchOfflineResponse, Status>, Self)> {
        let mut tries = 0;
        while !self.ended {
            // This precedes the read: an entry during the read makes the next read begin at once.
            self.entered.mark_unchanged();
            match self.read().await {
                Ok(next) if !self.has_begun || next.is_some() => {
                    self.has_begun = true;
                    return Some((Ok(self.response(next)), self));
                }
                Ok(_) => {
                    tries = 0;
                    drop(timeout(PERIOD, self.entered.changed()).await);
                }
                Err(error) if tries < TRIES && error.reason().entry().code == Code::Unavailable => {
                    tries += 1;
                    sleep(PAUSE.mul_f64(rand::random_range(0.5..1.0))).await;
                }
                Err(error) => {
                    self.ended = true;
                    return Some((Err(error.into()), self));
                }
            }
        }
        None
    }

    fn response(&self, next: NextResponse) -> wire::WatchOfflineResponse {
        let cursor = self.tokens.issue_numbers(&[QUERY], self.after);
        wire::WatchOfflineResponse { messages: next.messages, cursor, missed: next.missed }
    }

    /// Reads the entries after the position, as many as fit into a response, and advances the position.
    async fn read(&mut self) -> Result<NextResponse, Error> {
        let (ends, mut next) = (self.logs.ends().await?, NextResponse::default());
        self.rounds += 1;
        for at in 0..LOGS {
            let log = (self.rounds + at) % LOGS;
            if self.read_log(log, ends[log].seq, &mut next).await? {
                break;
            }
        }
        Ok(next)
    }

    /// True: the response is full.
    async fn read_log(&mut self, log: usize, end: Seq, next: &mut NextResponse) -> Result<bool, Error> {
        let after = self.after[log];
        if after > end {
            // The store was set back to a backup.
            (self.after[log], next.missed) = (end, true);
        }
        let Some((first, last)) = document_parts(after + 1, end).next() else { return Ok(false) };
        let found = self.logs.stored(ConversationId::OFFLINE[log], SeqRange { first, last }).await?;
        let begins = match found.first() {
            Some(begins) => begins.seq,
            None => self.kept_from(log, last).await?.min(end + 1),
        };
        if begins > first {
            (self.after[log], next.missed) = (begins - 1, true);
        }
        for entry in found {
            self.after[log] = entry.seq;
            if next.is_full_with(entry::read(&entry)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A log's first number after a document that ended with this number was removed.
    async fn kept_from(&self, log: usize, removed: Seq) -> Result<Seq, Error> {
        let Self { logs, .. } = self;
        let kept = logs.0.store.seq_at(ConversationId::OFFLINE[log], before(logs.0.kept)).await;
        Ok(kept.map_err(store_error)?.max(removed + 1))
    }
}

impl NextResponse {
    fn is_some(&self) -> bool {
        self.missed || !self.messages.is_empty()
    }

    fn is_full_with(&mut self, message: Option<wire::OfflineMessage>) -> bool {
        self.bytes += message.as_ref().map_or(0, wire::OfflineMessage::encoded_len);
        self.messages.extend(message);
        self.bytes >= FULL
    }
}
