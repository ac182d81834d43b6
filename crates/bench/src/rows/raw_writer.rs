//! A thread that writes to a SQLite file by hand: it takes all that waits, and answers after the commit.

use std::thread;

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, bounded};
use kith_store_sqlite::SqliteOptions;
use rusqlite::Connection;
use tokio::sync::oneshot;

/// Opens a file with the store's write settings.
pub(super) fn open_durable(options: &SqliteOptions) -> Result<Connection> {
    let connection = Connection::open(&options.path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", i64::try_from(options.journal_bytes)?)?;
    Ok(connection)
}

/// The queue for such a thread, which ends with the first failure.
#[derive(Debug)]
pub(super) struct RawWriter<T, R>(Sender<QueuedWrite<T, R>>);

#[derive(Debug)]
struct QueuedWrite<T, R> {
    write: T,
    reply: oneshot::Sender<R>,
}

impl<T: Send + 'static, R: Send + 'static> RawWriter<T, R> {
    /// Starts the thread. At most `queue` writes wait, and `batch_max` are in one transaction, in which
    /// `write_all` writes them. It returns an answer for each.
    pub(super) fn start(
        connection: Connection,
        queue: usize,
        batch_max: usize,
        write_all: impl FnMut(&Connection, &[T]) -> Result<Vec<R>> + Send + 'static,
    ) -> Self {
        let (sender, receiver) = bounded(queue);
        thread::spawn(move || {
            if let Err(error) = serve(&connection, &receiver, batch_max, write_all) {
                eprintln!("the bare side failed: {error:#}");
            }
        });
        Self(sender)
    }

    pub(super) async fn write(&self, write: T) -> Result<R> {
        let (reply, answer) = oneshot::channel();
        self.0
            .try_send(QueuedWrite { write, reply })
            .map_err(|_| anyhow::anyhow!("the queue is full, or its thread has ended"))?;
        Ok(answer.await?)
    }
}

fn serve<T, R>(
    connection: &Connection,
    queue: &Receiver<QueuedWrite<T, R>>,
    batch_max: usize,
    mut write_all: impl FnMut(&Connection, &[T]) -> Result<Vec<R>>,
) -> Result<()> {
    while let Ok(first) = queue.recv() {
        let batch = [first].into_iter().chain(queue.try_iter()).take(batch_max);
        let (writes, replies): (Vec<T>, Vec<_>) = batch.map(|queued| (queued.write, queued.reply)).unzip();
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let answers = write_all(connection, &writes)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        for (reply, answer) in replies.into_iter().zip(answers) {
            // The bench may have ended.
            reply.send(answer).ok();
        }
    }
    Ok(())
}
