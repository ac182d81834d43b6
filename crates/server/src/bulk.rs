//! Batches, imports and exports: their limits, and how the records of one message run side by side.

use std::{borrow::Cow, future::Future, time::Duration};

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use kith_store::Invalid;
use tonic::Status;

use crate::{call::Acting, error::Error, page::PageSizes};

/// Records of one message of an export.
pub const EXPORT_PAGE: usize = 200;

/// What one request may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ids of a batch.
    pub batch_ids: usize,
    /// Records of one message of an import.
    pub import_records: usize,
    /// Records of one message that are written side by side.
    pub import_at_once: usize,
    /// How long one record of an import may take.
    pub import_patience: Duration,
    /// Consistency tokens of a read.
    pub tokens: usize,
    /// Sizes of a page.
    pub pages: PageSizes,
}

/// The error for a message that a request needs and does not have.
#[must_use]
pub fn missing(field: &'static str) -> Error {
    Error::invalid(field, &Invalid::new("must be given"))
}

/// Checks how many items a field holds.
///
/// # Errors
/// When they are more than `max`.
pub fn check_count(field: impl Into<Cow<'static, str>>, count: usize, max: usize) -> Result<(), Error> {
    if count > max {
        return Err(Error::invalid(field, &Invalid::new(format!("must hold at most {max}"))));
    }
    Ok(())
}

/// # Errors
/// PERMISSION_DENIED for users.
pub fn only_services(acting: Acting) -> Result<(), Error> {
    match acting {
        Acting::Service => Ok(()),
        Acting::User(_) => Err(Error::not_allowed("only services may do this")),
    }
}

/// Runs `one` on every record, at most `at_once` at a time, and returns the results in the order of the records.
pub async fn each<R, T, F: Future<Output = T> + Send>(
    records: Vec<R>,
    at_once: usize,
    one: impl FnMut(R) -> F,
) -> Vec<T> {
    stream::iter(records).map(one).buffered(at_once.max(1)).collect().await
}

/// The results of a stream up to and with its first error.
pub fn until_first_error<T: Send + 'static>(
    results: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> BoxStream<'static, Result<T, Status>> {
    let ended = results.scan(false, |failed, result| {
        let item = (!*failed).then_some(result);
        *failed = matches!(item, Some(Err(_)));
        futures::future::ready(item)
    });
    Box::pin(ended)
}
