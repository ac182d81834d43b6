//! Batches, imports and exports: their limits, and how one message's records run side by side.

use std::{borrow::Cow, future::Future, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use kith_cache::Node;
use kith_proto::{
    Records,
    r#type::v1::{ImportResult, import_result},
};
use prost::Message;
use tokio::time::Instant;
use tonic::{Request, Status, Streaming};

use crate::{
    error::Error,
    rpc::{
        answer_size::split,
        audit_notes::AuditNotes,
        call::Call,
        page_token::PageSizes,
        record_quota::{PageQuota, RecordQuota},
    },
};

/// Records that an export reads from the store at a time.
pub const EXPORT_PAGE: usize = 200;

/// A request's limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most ids in a batch.
    pub batch_ids: usize,
    /// The most records in one import message.
    pub import_records: usize,
    /// How many of a message's records are written side by side.
    pub import_at_once: usize,
    /// How long one import record may take.
    pub import_patience: Duration,
    /// The most consistency tokens in a read.
    pub tokens: usize,
    /// The node that issues and accepts them.
    pub node: Node,
    /// A page's sizes.
    pub pages: PageSizes,
    /// Records that a user who itself calls may read.
    pub records: RecordQuota,
}

/// The most ids in a batch by a user who itself calls: enough for a device's page.
pub const USER_BATCH_IDS: usize = 100;

impl Limits {
    /// How many ids a batch in this call may have.
    #[must_use]
    pub fn batch_ids_of(&self, call: Call) -> usize {
        if call.is_user() { self.batch_ids.min(USER_BATCH_IDS) } else { self.batch_ids }
    }

    /// The list page that this call asks for.
    ///
    /// # Errors
    /// If the size is below 0; QUOTA_EXCEEDED if the caller is a user who may not read as many now.
    pub fn page(&self, call: Call, asked: i32) -> Result<PageQuota, Error> {
        self.records.page(call, self.pages.of(asked)?)
    }

    /// The deadline for an import record that begins now.
    #[must_use]
    pub fn import_deadline(&self) -> Instant {
        Instant::now() + self.import_patience
    }
}

/// The error for a message that a request needs and does not have.
#[must_use]
pub fn missing(field: &'static str) -> Error {
    Error::invalid(field, "must be given")
}

/// Checks how many items a field has.
///
/// # Errors
/// If there are more than `max`.
pub fn check_count(field: impl Into<Cow<'static, str>>, count: usize, max: usize) -> Result<(), Error> {
    if count > max {
        return Err(Error::invalid(field, &format!("must hold at most {max}")));
    }
    Ok(())
}

/// The answer for one import record: its id, or its error.
#[must_use]
pub fn import_result(record: i64, created: Result<i64, Error>) -> ImportResult {
    let result = match created {
        Ok(id) => import_result::Result::Id(id),
        Err(error) => import_result::Result::Error(error.to_result()),
    };
    ImportResult { record, result: Some(result) }
}

/// Runs `one` on every record of every message, some records in a message concurrently; otherwise like
/// [`import_together`].
pub fn import<R, A, F>(
    messages: Request<Streaming<Records<R>>>,
    limits: &Limits,
    one: impl Fn(R) -> F + Clone + Send + 'static,
    answer: fn(Vec<ImportResult>) -> A,
) -> BoxStream<'static, Result<A, Status>>
where
    R: Send + 'static,
    A: Send + 'static,
    F: Future<Output = ImportResult> + Send + 'static,
{
    let at_once = limits.import_at_once.max(1);
    let all = move |records: Vec<R>| {
        let results = stream::iter(records).map(one.clone()).buffered(at_once);
        results.collect()
    };
    import_together(messages, limits, all, answer)
}

/// Runs `all` on every message's records, one message after the other. Answers each message with the results
/// in its records' order. Ends with the first message that cannot be taken. The call's security event counts
/// the records that were answered.
pub fn import_together<R, A, F>(
    messages: Request<Streaming<Records<R>>>,
    limits: &Limits,
    all: impl Fn(Vec<R>) -> F + Clone + Send + 'static,
    answer: fn(Vec<ImportResult>) -> A,
) -> BoxStream<'static, Result<A, Status>>
where
    R: Send + 'static,
    A: Send + 'static,
    F: Future<Output = Vec<ImportResult>> + Send + 'static,
{
    let (notes, most) = (AuditNotes::of(&messages), limits.import_records);
    let answers = messages.into_inner().then(move |message| {
        let (all, notes) = (all.clone(), notes.clone());
        async move {
            let records = message?.records;
            check_count("records", records.len(), most)?;
            let results = all(records).await;
            notes.add_records(results.len());
            Ok(answer(results))
        }
    });
    let ended = answers.scan(false, |failed, result: Result<A, Status>| {
        let item = (!*failed).then_some(result);
        *failed = matches!(item, Some(Err(_)));
        futures::future::ready(item)
    });
    Box::pin(ended)
}

/// Streams all records above `after`, by rising id. Reads a page of [`EXPORT_PAGE`] when the page before was
/// sent, and sends it in messages of at most
/// [`STREAM_MESSAGE_BYTES`](crate::rpc::answer_size::STREAM_MESSAGE_BYTES). `notes`, from the request, count
/// what was read.
pub fn export<R, I, W, A, F>(
    notes: AuditNotes,
    after: Option<I>,
    page: impl Fn(Option<I>) -> F + Send + 'static,
    id: fn(&R) -> I,
    to_wire: impl Fn(&R) -> W + Clone + Send + 'static,
    answer: fn(Vec<W>) -> A,
) -> BoxStream<'static, Result<A, Status>>
where
    R: Send + 'static,
    I: Send + 'static,
    W: Message + 'static,
    A: Send + 'static,
    F: Future<Output = Result<Vec<R>, Error>> + Send + 'static,
{
    let pages = stream::try_unfold(Some(after), move |after| {
        let (page, to_wire, notes) = (after.map(&page), to_wire.clone(), notes.clone());
        async move {
            let Some(page) = page else { return Ok::<_, Status>(None) };
            let records = page.await?;
            notes.add_records(records.len());
            let next = records.last().filter(|_| records.len() == EXPORT_PAGE).map(|last| Some(id(last)));
            let messages = split(records.iter().map(to_wire)).into_iter().map(answer).map(Ok);
            Ok(Some((stream::iter(messages.collect::<Vec<_>>()), next)))
        }
    });
    Box::pin(pages.try_flatten())
}
