//! The task that reads a change stream.

use std::{sync::Arc, time::Duration};

use kith_store::{FEED_BATCH_MAX, FeedError, Outcome, StoreError, Timestamp};
use mongodb::{
    bson::{RawDocument, RawDocumentBuf, deserialize_from_slice, doc, serialize_to_raw_document_buf},
    change_stream::{ChangeStream, event::ResumeToken},
    error::{Error, ErrorKind},
    options::ReadConcern,
};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::timeout,
};

use super::{
    super::{
        command::run_read,
        database::Mongo,
        error::{code, malformed, out_of_time, read_failed},
    },
    event::{self, EventMeaning},
};

/// How long the server waits for an event before it returns none. Limits how long the task outlives its
/// receiver.
const AWAIT: Duration = Duration::from_secs(1);
/// Seconds that a token may be ahead of the last write: it may be the time after it, or a time that was
/// assigned to a write that failed.
const AHEAD_MAX: u32 = 10;
/// The log does not reach back far enough; the stream cannot continue; an event is too large to be sent.
const LOST: [i32; 3] = [286, 280, 10334];

/// An event, or only the stream's position.
#[derive(Clone, Debug)]
pub(super) struct StreamItem {
    pub(super) meaning: EventMeaning,
    pub(super) mark: Vec<u8>,
    /// When the change was written, by the server's clock.
    pub(super) written: Option<Timestamp>,
}

pub(in crate::mongo) type Stream = ChangeStream<RawDocumentBuf>;

/// Opens a stream. Returns the mark at which it begins, and its events, which end with an error.
pub(super) async fn start(
    mongo: &Arc<Mongo>,
    after: Option<&[u8]>,
) -> Result<(Vec<u8>, Receiver<Result<StreamItem, FeedError>>), FeedError> {
    let after = after
        .map(|mark| deserialize_from_slice::<ResumeToken>(mark).map_err(|_| FeedError::Lost))
        .transpose()?;
    let limit = mongo.options.server_selection + mongo.options.command;
    let opening = tokio::spawn(open(Arc::clone(mongo), after.clone()));
    let opened = timeout(limit, opening).await.map_err(|_| timed_out())?;
    let stream = opened.map_err(|_| timed_out())??;
    let token =
        stream.resume_token().or(after).ok_or_else(|| FeedError::Unavailable(malformed("resume token")))?;
    let mark = mark_of(&token)?;
    // A batch waits here, and another at the reader.
    let (to, items) = mpsc::channel(FEED_BATCH_MAX);
    tokio::spawn(read(stream, token, AWAIT + mongo.options.command, to));
    Ok((mark, items))
}

async fn open(mongo: Arc<Mongo>, after: Option<ResumeToken>) -> Result<Stream, FeedError> {
    if let Some(after) = &after
        && is_ahead(&mongo, after).await?
    {
        return Err(FeedError::Lost);
    }
    let refused = match watch(&mongo, after.clone()).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    let error = read_failed(refused.clone());
    let is_away = matches!(error, StoreError::Unavailable { .. });
    // An invalid token is refused in many ways: if a stream without it is accepted, the token was the reason.
    if is_away || after.is_none() || !is_command(&refused) || watch(&mongo, None).await.is_err() {
        return Err(FeedError::Unavailable(error));
    }
    Err(FeedError::Lost)
}

/// Whether the token has a time that this server has not reached. The stream would wait for that time, and
/// omit all events until then.
async fn is_ahead(mongo: &Mongo, token: &ResumeToken) -> Result<bool, FeedError> {
    let Some(seconds) = seconds_of(token) else {
        // The server reports an invalid token.
        return Ok(false);
    };
    let pong = run_read(&mongo.database, doc! { "ping": 1 }).await;
    let pong = pong.map_err(|error| FeedError::Unavailable(read_failed(error)))?;
    let now = pong.get_timestamp("operationTime").ok();
    Ok(now.is_some_and(|now| seconds > now.time.saturating_add(AHEAD_MAX)))
}

/// A token begins with a moment's type, and the seconds since 1970.
fn seconds_of(token: &ResumeToken) -> Option<u32> {
    let token = serialize_to_raw_document_buf(token).ok()?;
    let seconds = token.get_str("_data").ok()?.strip_prefix("82")?.get(..8)?;
    u32::from_str_radix(seconds, 16).ok()
}

pub(in crate::mongo) async fn watch(mongo: &Mongo, after: Option<ResumeToken>) -> Result<Stream, Error> {
    let batch = u32::try_from(FEED_BATCH_MAX).unwrap_or(u32::MAX);
    let mut watch = mongo.database.watch().pipeline(event::pipeline(mongo.options.appends_in_feed));
    if let Some(after) = after {
        watch = watch.start_after(after);
    }
    let watch = watch.read_concern(ReadConcern::majority()).max_await_time(AWAIT).batch_size(batch);
    watch.await.map(ChangeStream::with_type)
}

/// Reads until the stream ends, an answer takes longer than `limit`, or the receiver is gone.
async fn read(
    mut stream: Stream,
    mut token: ResumeToken,
    limit: Duration,
    to: Sender<Result<StreamItem, FeedError>>,
) {
    while !to.is_closed() {
        let item = match timeout(limit, stream.next_if_any()).await {
            Err(_) => Err(timed_out()),
            Ok(Err(error)) => Err(failed(error)),
            Ok(Ok(Some(event))) => item(&event),
            Ok(Ok(None)) if !stream.is_alive() => Err(timed_out()),
            Ok(Ok(None)) => match stream.resume_token() {
                Some(later) if later != token => {
                    token = later;
                    mark_of(&token).map(|mark| StreamItem {
                        meaning: EventMeaning::Nothing,
                        mark,
                        written: None,
                    })
                }
                Some(_) | None => continue,
            },
        };
        let has_ended = item.is_err();
        if to.send(item).await.is_err() || has_ended {
            return;
        }
    }
}

fn item(event: &RawDocument) -> Result<StreamItem, FeedError> {
    match event::meaning(event) {
        EventMeaning::End => Err(FeedError::Lost),
        meaning => {
            let mark =
                event.get_document("_id").map_err(|_| FeedError::Unavailable(malformed("resume token")))?;
            let written = event.get_datetime("wallTime").ok().map(|at| Timestamp(at.timestamp_millis()));
            Ok(StreamItem { meaning, mark: mark.as_bytes().to_vec(), written })
        }
    }
}

/// The token is a document.
fn mark_of(token: &ResumeToken) -> Result<Vec<u8>, FeedError> {
    let document = serialize_to_raw_document_buf(token)
        .map_err(|_| FeedError::Unavailable(malformed("resume token")))?;
    Ok(document.into_bytes())
}

fn failed(error: Error) -> FeedError {
    match code(&error) {
        Some(code) if LOST.contains(&code) => FeedError::Lost,
        Some(_) | None => FeedError::Unavailable(read_failed(error)),
    }
}

fn is_command(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(_))
}

fn timed_out() -> FeedError {
    FeedError::Unavailable(out_of_time(Outcome::NotApplied))
}
