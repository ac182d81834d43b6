//! One thread owns the connection that writes. It takes all waiting changes, makes each in a savepoint within
//! one transaction, and answers after the commit: many writes share one wait for the disk.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use kith_store::{Outcome, StoreError};
use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::{
    change::Collecting,
    condition::{Condition, Probe, WriteObstacle},
    error::{Failure, closed, internal, write_error},
    metrics::{COMMIT_BATCH_SIZE, COMMIT_SECONDS, QUEUE_LENGTH},
};

/// How long a connection waits for another connection, which only recovery and checkpoints need.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Hands changes to the writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: RwLock<Option<Sender<Command>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    condition: Arc<Condition>,
}

impl Writer {
    /// Starts the thread. `closed_with` is dropped after the connection is closed.
    pub(crate) fn start(
        connection: Connection,
        queue: usize,
        batch_max: usize,
        condition: Condition,
        collecting: Collecting,
        closed_with: Box<dyn Any + Send>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = bounded(queue.max(1));
        let condition = Arc::new(condition);
        let noted = Arc::clone(&condition);
        let thread = thread::Builder::new().name("kith-sqlite-write".into()).spawn(move || {
            serve(&connection, &receiver, batch_max.max(1), &noted, &collecting);
            drop(connection);
            drop(closed_with);
        })?;
        Ok(Self { queue: RwLock::new(Some(sender)), thread: Mutex::new(Some(thread)), condition })
    }

    /// Reads the files' condition.
    pub(crate) fn probe(&self) -> Probe {
        Probe(Arc::clone(&self.condition))
    }

    /// Whether a write could begin now: begins a transaction without waiting for another process, and ends
    /// it. Writes nothing.
    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        let condition = Arc::clone(&self.condition);
        self.exclusively(move |connection| {
            condition.measure_room();
            connection.busy_timeout(Duration::ZERO)?;
            let begun = begin(connection, &condition);
            connection.busy_timeout(BUSY)?;
            begun?;
            Ok(run(connection, "ROLLBACK")?)
        })
        .await
    }

    /// Makes one change, and returns once it is on disk. The change is made whole or not at all, also when
    /// the future is dropped.
    pub(crate) async fn write<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Change(Box::new(PendingChange { change: Some(change), result: None, reply })))?;
        answer.await.unwrap_or_else(|_| Err(closed(Outcome::Unknown)))
    }

    /// Runs `work` between two transactions.
    pub(crate) async fn exclusively<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work =
            move |connection: &Connection| drop(reply.send(work(connection).map_err(StoreError::from)));
        self.send(Command::Exclusive(Box::new(work)))?;
        answer.await.unwrap_or_else(|_| Err(closed(Outcome::Unknown)))
    }

    /// Takes no more changes. Returns the thread, which ends when what was queued is done.
    pub(crate) fn close(&self) -> Option<JoinHandle<()>> {
        self.queue.write().take();
        self.thread.lock().take()
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        let queue = self.queue.read();
        let queue = queue.as_ref().ok_or_else(|| closed(Outcome::NotApplied))?;
        queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Overloaded,
            TrySendError::Disconnected(_) => closed(Outcome::NotApplied),
        })
    }
}

enum Command {
    Change(Box<dyn Change>),
    Exclusive(ExclusiveWork),
}

type ExclusiveWork = Box<dyn FnOnce(&Connection) + Send>;

/// A change that waits, or waits for its commit.
trait Change: Send {
    /// Makes it inside the open transaction and keeps the result.
    fn make(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Answers the caller: the result if it was committed, else why not.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
    /// Whether it was made and found no room.
    fn found_no_room(&self) -> bool;
}

struct PendingChange<T, F> {
    change: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Change for PendingChange<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, Failure> + Send,
{
    fn make(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let Some(change) = self.change.take() else { return Ok(()) };
        // A panic ends this change and not the thread that all others wait for.
        let made = catch_unwind(AssertUnwindSafe(|| {
            change(connection).map_err(|failure| failure.of_write(connection))
        }));
        let result = made.unwrap_or_else(|_| Err(internal("a write panicked")));
        let outcome = result.as_ref().map(|_| ()).map_err(StoreError::clone);
        self.result = Some(result);
        outcome
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = self.result.unwrap_or_else(|| Err(internal("a write was not made")));
        // The caller may be gone.
        drop(self.reply.send(committed.and(result)));
    }

    fn found_no_room(&self) -> bool {
        self.result.as_ref().is_some_and(is_full)
    }
}

fn serve(
    connection: &Connection,
    queue: &Receiver<Command>,
    batch_max: usize,
    condition: &Condition,
    collecting: &Collecting,
) {
    let mut batch = Vec::with_capacity(batch_max);
    while let Ok(command) = queue.recv() {
        let mut exclusive = gather(Some(command), queue, batch_max, &mut batch);
        if !batch.is_empty() {
            metrics::gauge!(QUEUE_LENGTH.name).set(float(queue.len()));
            let start = Instant::now();
            let begun = begin(connection, condition);
            if begun.is_err() && exclusive.is_none() {
                // Waiting changes have waited for the same lock: each change waits for it once, not once a
                // batch.
                let waiting = batch.len() + queue.len();
                exclusive = gather(queue.try_recv().ok(), queue, waiting, &mut batch);
            }
            let committed = begun.and_then(|()| transaction(connection, &mut batch, collecting));
            if committed.is_err() && !connection.is_autocommit() {
                rollback(connection);
            }
            let full = is_full(&committed) || batch.iter().any(|change| change.found_no_room());
            condition.note_end(committed.is_ok(), full);
            answer(start, &committed, &mut batch);
        }
        if let Some(work) = exclusive {
            drop(catch_unwind(AssertUnwindSafe(|| work(connection))));
        }
    }
}

/// Takes what waits into the batch, until it has so many changes; exclusive work ends it, too.
fn gather(
    mut next: Option<Command>,
    queue: &Receiver<Command>,
    batch_max: usize,
    batch: &mut Vec<Box<dyn Change>>,
) -> Option<ExclusiveWork> {
    while let Some(command) = next.take() {
        match command {
            Command::Change(change) => batch.push(change),
            Command::Exclusive(work) => return Some(work),
        }
        if batch.len() < batch_max {
            next = queue.try_recv().ok();
        }
    }
    None
}

/// Begins a transaction, once no other process has the lock, or fails when that lasts too long. Fails at once
/// if the files are no longer those that are open.
fn begin(connection: &Connection, condition: &Condition) -> Result<(), StoreError> {
    condition.check_files()?;
    if !connection.is_autocommit() {
        // An earlier rollback failed; without this one no later transaction could begin.
        rollback(connection);
    }
    let begun = run(connection, "BEGIN IMMEDIATE");
    let is_locked =
        begun.as_ref().err().and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::DatabaseBusy);
    condition.note_obstacle(is_locked.then_some(WriteObstacle::Locked));
    begun.map_err(|error| write_error(connection, error, Outcome::NotApplied))
}

const fn is_full<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Full { .. }))
}

/// Makes the changes in the transaction that was begun, and commits it with its entries for other systems.
fn transaction(
    connection: &Connection,
    batch: &mut [Box<dyn Change>],
    collecting: &Collecting,
) -> Result<(), StoreError> {
    for change in batch {
        make(connection, change.as_mut())?;
    }
    collecting.keep(connection).map_err(|failure| failure.of_write(connection))?;
    // A disk error here may come after the commit record has reached it.
    run(connection, "COMMIT").map_err(|error| write_error(connection, error, Outcome::Unknown))
}

/// Answers each change in a commit that began then.
fn answer(start: Instant, committed: &Result<(), StoreError>, batch: &mut Vec<Box<dyn Change>>) {
    metrics::histogram!(COMMIT_BATCH_SIZE.name).record(float(batch.len()));
    metrics::histogram!(COMMIT_SECONDS.name).record(start.elapsed().as_secs_f64());
    for change in batch.drain(..) {
        change.answer(committed.clone());
    }
}

/// Makes one change in a savepoint. Fails when the transaction cannot go on, not when the change fails.
fn make(connection: &Connection, change: &mut dyn Change) -> Result<(), StoreError> {
    run(connection, "SAVEPOINT change")
        .map_err(|error| write_error(connection, error, Outcome::NotApplied))?;
    let made = change.make(connection);
    let ended = match made {
        Ok(()) => run(connection, "RELEASE change"),
        // SQLite may answer a full disk by rolling the whole transaction back.
        Err(error) if connection.is_autocommit() => return Err(error),
        Err(_) => run(connection, "ROLLBACK TO change").and_then(|()| run(connection, "RELEASE change")),
    };
    ended.map_err(|error| write_error(connection, error, Outcome::NotApplied))
}

fn rollback(connection: &Connection) {
    if let Err(error) = run(connection, "ROLLBACK") {
        tracing::error!(%error, "sqlite could not roll back");
    }
}

fn run(connection: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

#[expect(clippy::cast_precision_loss, reason = "lengths of queues are small")]
fn float(count: usize) -> f64 {
    count as f64
}
