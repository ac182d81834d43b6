//! Sends chunks: a bounded number without an answer, recorded in file order, and retried if the node could
//! not accept them. A retry is safe: every record has a request id.

use std::{collections::VecDeque, io::BufRead, path::PathBuf, time::Duration};

use crate::client::{Channel, may_pass};
use anyhow::{Result, bail};
use futures::StreamExt as _;
use kith_proto::r#type::v1::{ImportResult, ResultError, import_result::Result as Outcome};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::super::output::one_line;
use super::{
    progress::{ImportCounts, Progress},
    reader::{BadLine, Chunk, ChunkReader},
    report::ImportReport,
};
use crate::kind::{Entry, Import, MessageStream};

/// The limits for unanswered chunks, and for retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunLimits {
    /// How many chunks may be sent and not answered.
    pub(super) window: usize,
    /// The time limit for an answer.
    pub(super) answer: Duration,
    /// The most consecutive attempts without progress.
    pub(super) tries: u32,
    /// The pause before the second attempt; doubles with each further attempt.
    pub(super) first_wait: Duration,
    /// The longest pause.
    pub(super) longest_wait: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            window: 4,
            answer: Duration::from_secs(60),
            tries: 10,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(5),
        }
    }
}

/// A chunk with its results so far. `chunk.entries`: the remaining records.
struct PendingChunk<R> {
    chunk: Chunk<R>,
    tally: ImportCounts,
}

/// A running import.
pub(super) struct RunningImport<K: Import, B> {
    pub(super) channel: Channel,
    pub(super) kind: K,
    pub(super) reader: ChunkReader<B>,
    pub(super) progress: Progress,
    /// The progress file; `None` for a pipe.
    pub(super) progress_file: Option<PathBuf>,
    pub(super) report: ImportReport,
    pub(super) limits: RunLimits,
    pending: VecDeque<PendingChunk<K::Record>>,
    failures: u32,
}

/// A stream on which chunks go out and answers come in.
struct ChunkStream<R> {
    chunks: mpsc::Sender<Vec<Entry<R>>>,
    answers: MessageStream<Vec<ImportResult>>,
    /// How many pending chunks were sent on it.
    sent: usize,
}

impl<K: Import, B: BufRead> RunningImport<K, B> {
    /// Makes an import that begins at the position of `progress` and `reader`.
    pub(super) fn new(
        channel: Channel,
        kind: K,
        reader: ChunkReader<B>,
        progress: Progress,
        progress_file: Option<PathBuf>,
        report: ImportReport,
    ) -> Self {
        let (pending, limits) = (VecDeque::new(), RunLimits::default());
        Self { channel, kind, reader, progress, progress_file, report, limits, pending, failures: 0 }
    }

    /// Sends the rest of the file and returns the results by line. Fails if the node refuses the import as a
    /// whole, or stops answering. Acknowledged chunks are recorded.
    pub(super) async fn run(&mut self) -> Result<ImportCounts> {
        loop {
            match self.run_stream().await? {
                Ok(()) => return Ok(self.progress.tally),
                Err(status) => self.wait_for_retry(&status).await?,
            }
        }
    }

    /// Sends the rest of the file (`Ok`), or stops when the stream or a record in it fails (`Err`).
    async fn run_stream(&mut self) -> Result<Result<(), Status>> {
        let mut stream = match self.open().await {
            Ok(stream) => stream,
            Err(status) => return Ok(Err(status)),
        };
        loop {
            self.send_chunks(&mut stream).await?;
            let Some(front) = self.pending.front() else { return Ok(Ok(())) };
            if !front.chunk.entries.is_empty() {
                let applied = match self.answer(&mut stream).await {
                    Ok(results) => self.apply_results(results).await?,
                    Err(status) => Err(status),
                };
                if let Err(status) = applied {
                    return Ok(Err(status));
                }
            }
            self.record_done()?;
            stream.sent = stream.sent.saturating_sub(1);
        }
    }

    async fn open(&self) -> Result<ChunkStream<K::Record>, Status> {
        let (chunks, outgoing) = mpsc::channel(self.limits.window);
        let answers = self.kind.import(self.channel.clone(), ReceiverStream::new(outgoing));
        let answers = timeout(self.limits.answer, answers).await.map_err(|_| no_answer())??;
        Ok(ChunkStream { chunks, answers, sent: 0 })
    }

    /// Reads and sends as many chunks as may be unanswered.
    async fn send_chunks(&mut self, stream: &mut ChunkStream<K::Record>) -> Result<()> {
        while self.pending.len() < self.limits.window {
            let Some(chunk) = self.reader.chunk(&self.kind)? else { break };
            self.pending.push_back(PendingChunk { chunk, tally: ImportCounts::default() });
        }
        for pending in self.pending.iter().skip(stream.sent) {
            let entries = &pending.chunk.entries;
            if !entries.is_empty() && stream.chunks.send(entries.clone()).await.is_err() {
                // The stream has ended; its answers contain the reason.
                return Ok(());
            }
            stream.sent += 1;
        }
        Ok(())
    }

    async fn answer(&self, stream: &mut ChunkStream<K::Record>) -> Result<Vec<ImportResult>, Status> {
        match timeout(self.limits.answer, stream.answers.next()).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(Status::unavailable("the node ended the import early")),
            Err(_) => Err(no_answer()),
        }
    }

    /// Applies the first pending chunk's results. `Err` if some records must be sent again.
    async fn apply_results(&mut self, results: Vec<ImportResult>) -> Result<Result<(), Status>> {
        let Some(pending) = self.pending.front_mut() else { return Ok(Ok(())) };
        let answers = answers(&pending.chunk.entries, results)?;
        let (mut taken, mut again, mut why, all) = (Vec::new(), Vec::new(), None, answers.len());
        for (entry, error) in pending.chunk.entries.drain(..).zip(answers) {
            match error {
                None => pending.tally.imported += 1,
                Some(error) if error.reason == "ID_TAKEN" => taken.push((entry, error)),
                Some(error) if may_pass(Code::from(error.code)) => {
                    why = Some(Status::new(Code::from(error.code), error.message));
                    again.push(entry);
                }
                Some(error) => {
                    pending.chunk.bad.push(BadLine { line: entry.line, why: one_line(&error.message) })
                }
            }
        }
        if again.len() + taken.len() < all {
            self.failures = 0;
        }
        let compared = compare(&self.kind, self.channel.clone(), taken, pending).await;
        pending.chunk.entries.extend(again);
        Ok(compared.and(why.map_or(Ok(()), Err)))
    }

    /// Records the first pending chunk as done.
    fn record_done(&mut self) -> Result<()> {
        let Some(PendingChunk { mut chunk, mut tally }) = self.pending.pop_front() else { return Ok(()) };
        chunk.bad.sort_by_key(|bad| bad.line);
        tally.bad = u64::try_from(chunk.bad.len()).unwrap_or(u64::MAX);
        self.progress.record(chunk.end, tally, &chunk.bad);
        if let Some(progress_file) = &self.progress_file {
            self.progress.save(progress_file)?;
        }
        self.report.bad(&chunk.bad);
        self.report.update(chunk.end, self.progress.tally);
        self.failures = 0;
        Ok(())
    }

    /// Waits before another attempt.
    async fn wait_for_retry(&mut self, status: &Status) -> Result<()> {
        let why = one_line(status.message());
        if !may_pass(status.code()) {
            bail!("the node refuses the import: {why}");
        }
        self.failures += 1;
        if self.failures >= self.limits.tries {
            let again = if self.progress_file.is_some() {
                "run it again to go on"
            } else {
                "run it again from the start"
            };
            bail!("{why}; gave up after {} tries, {again}", self.failures);
        }
        let doubled = self.limits.first_wait.saturating_mul(1 << (self.failures - 1).min(16));
        let wait = doubled.min(self.limits.longest_wait);
        self.report.waits(&why, wait);
        sleep(wait).await;
        Ok(())
    }
}

/// Compares existing records with the sent records.
async fn compare<K: Import>(
    kind: &K,
    channel: Channel,
    taken: Vec<(Entry<K::Record>, ResultError)>,
    pending: &mut PendingChunk<K::Record>,
) -> Result<(), Status> {
    if taken.is_empty() {
        return Ok(());
    }
    let records: Vec<_> = taken.iter().map(|(entry, _)| &entry.record).collect();
    let are_stored = match kind.are_stored(channel, &records).await {
        Ok(are_stored) => are_stored,
        Err(status) => {
            pending.chunk.entries.extend(taken.into_iter().map(|(entry, _)| entry));
            return Err(status);
        }
    };
    for ((entry, error), is_stored) in taken.into_iter().zip(are_stored) {
        match is_stored {
            true => pending.tally.already_there += 1,
            false => pending.chunk.bad.push(BadLine { line: entry.line, why: one_line(&error.message) }),
        }
    }
    Ok(())
}

/// Returns the entries' errors, in their order.
fn answers<R>(entries: &[Entry<R>], results: Vec<ImportResult>) -> Result<Vec<Option<ResultError>>> {
    let fits = |(entry, result): (&Entry<R>, &ImportResult)| u64::try_from(result.record) == Ok(entry.line);
    if entries.len() != results.len() || !entries.iter().zip(&results).all(fits) {
        bail!("the node answered other records than were sent");
    }
    let errors = results.into_iter().map(|result| match result.result {
        Some(Outcome::Id(_)) => Ok(None),
        Some(Outcome::Error(error)) => Ok(Some(error)),
        None => bail!("the node left a record unanswered"),
    });
    errors.collect()
}

fn no_answer() -> Status {
    Status::unavailable("the node does not answer")
}
