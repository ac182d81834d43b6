//! Lists as streams over their elements, and batches of any size.

use std::{collections::HashMap, mem};

use futures::{Stream, TryStreamExt as _, stream};
use http::uri::PathAndQuery;
use kith_proto::{BatchRequest, CallRule, ExactCodec, ListRequest};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status, Streaming, client::Grpc};

use crate::{Client, retry::as_lost};

/// Most ids of a batch.
const BATCH_MAX: usize = 1_000;
/// Most tries in a row of an export.
const TRIES_MAX: u32 = 10;
const TOO_LARGE: &str = "ANSWER_TOO_LARGE";

impl Client {
    /// The elements of all pages of a list, or of an export, in their order. An export that is cut off goes
    /// on after the last id, after ten tries at most. An error ends the stream.
    pub fn pages<R: ListRequest>(&self, request: R) -> impl Stream<Item = Result<R::Item, Status>> + use<R> {
        let pages = stream::try_unfold(Some((self.clone(), request, Mutex::default())), |next| async move {
            let Some((client, mut request, stream)) = next else { return Ok::<_, Status>(None) };
            let answer = if CallRule::of(R::PATH).streams {
                client.next(&stream, TRIES_MAX, || client.open(request.clone())).await?
            } else {
                Some(client.answer(request.clone()).await?)
            };
            let Some(answer) = answer else { return Ok(None) };
            let (items, more) = request.advance(answer);
            let items = stream::iter(items.into_iter().map(Ok));
            Ok(Some((items, more.then_some((client, request, stream)))))
        });
        pages.try_flatten()
    }

    /// One result for each of any number of ids, in their order; a repeated id has one. What does not fit
    /// into an answer is asked for again.
    ///
    /// # Errors
    /// Those of the calls.
    pub async fn batch<R: BatchRequest>(&self, mut request: R) -> Result<Vec<R::Item>, Status> {
        let ids = mem::take(request.ids());
        let (mut waiting, mut found) = (ids.clone(), HashMap::new());
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(BATCH_MAX));
            *request.ids() = mem::replace(&mut waiting, rest);
            let (results, _) = request.advance(self.answer(request.clone()).await?);
            // A batch in which nothing fits is not asked for again: its results say so.
            let is_stuck = results.iter().all(|result| R::id_and_reason(result).1 == TOO_LARGE);
            for result in results {
                let (id, reason) = R::id_and_reason(&result);
                if reason == TOO_LARGE && !is_stuck {
                    waiting.push(id);
                }
                found.insert(id, result);
            }
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    async fn answer<R: ListRequest>(&self, request: R) -> Result<R::Response, Status> {
        let answer = self.open(request).await?.into_inner().message().await?;
        answer.ok_or_else(|| Status::unavailable("the answer has no message"))
    }

    async fn open<R: ListRequest>(&self, request: R) -> Result<Response<Streaming<R::Response>>, Status> {
        let (request, path) = (Request::new(request), PathAndQuery::from_static(R::PATH));
        Grpc::new(self.clone()).server_streaming(request, path, ExactCodec::default()).await
    }

    /// Returns the next answer of a stream, and `None` at its end. Opens the stream again after it was lost,
    /// at most `tries_max` times in a row, and after its end.
    pub(crate) async fn next<T, F: Future<Output = Result<Response<Streaming<T>>, Status>>>(
        &self,
        stream: &Mutex<Option<Streaming<T>>>,
        tries_max: u32,
        open: impl Fn() -> F,
    ) -> Result<Option<T>, Status> {
        let once = || async {
            let mut stream = stream.lock().await;
            let opened = match stream.take() {
                Some(opened) => Ok(opened),
                None => open().await.map(Response::into_inner),
            };
            let mut opened = opened.map_err(as_lost)?;
            let answer = opened.message().await.map_err(as_lost)?;
            *stream = answer.is_some().then_some(opened);
            Ok(answer)
        };
        self.repeat(once, |tries, _| tries < tries_max).await
    }
}
