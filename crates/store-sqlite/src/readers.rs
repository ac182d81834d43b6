//! Threads that read, each with its own read-only connection, fed by one queue.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use kith_store::{Outcome, StoreError};
use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::{Failure, closed, internal};

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// Passes reads to the reader threads.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: RwLock<Option<Sender<Read>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    /// Starts one thread for each connection.
    pub(crate) fn start(connections: Vec<Connection>, queue: usize) -> std::io::Result<Self> {
        let (sender, receiver) = bounded::<Read>(queue.max(1));
        let mut threads = Vec::with_capacity(connections.len());
        for connection in connections {
            let receiver = receiver.clone();
            let thread = thread::Builder::new().name("kith-sqlite-read".into());
            threads.push(thread.spawn(move || serve(&connection, &receiver))?);
        }
        Ok(Self { queue: RwLock::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Runs a read. One statement sees one snapshot; two statements may see different snapshots.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(move |connection| {
            // The caller may be gone.
            if !reply.is_closed() {
                drop(reply.send(read(connection).map_err(StoreError::from)));
            }
        }))?;
        answer.await.unwrap_or_else(|_| Err(internal("a read panicked")))
    }

    /// Accepts no more reads. Returns the threads, which end after the queued reads.
    pub(crate) fn close(&self) -> Vec<JoinHandle<()>> {
        self.queue.write().take();
        std::mem::take(&mut *self.threads.lock())
    }

    fn send(&self, read: Read) -> Result<(), StoreError> {
        let queue = self.queue.read();
        let queue = queue.as_ref().ok_or_else(|| closed(Outcome::NotApplied))?;
        queue.try_send(read).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Overloaded,
            TrySendError::Disconnected(_) => closed(Outcome::NotApplied),
        })
    }
}

fn serve(connection: &Connection, queue: &Receiver<Read>) {
    while let Ok(read) = queue.recv() {
        // A panic ends this read, but not the thread; its caller gets a closed channel.
        drop(catch_unwind(AssertUnwindSafe(|| read(connection))));
    }
}
