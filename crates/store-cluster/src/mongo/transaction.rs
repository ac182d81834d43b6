//! Writes that touch several documents: all in one commit, or nothing.

use std::time::Duration;

use kith_store::StoreError;
use mongodb::{
    ClientSession,
    bson::RawDocumentBuf,
    error::{Error, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    options::ReadConcern,
};
use tokio::time::timeout;

use super::{
    database::{Mongo, durable},
    error::{commit_failed, is_duplicate, read_failed},
    record::Record,
    write::{AppliedWrite, Change, Creation, Failure, Order, Refusal, backoff},
};

/// How often a commit with an unknown outcome is retried, besides the driver's own retry.
const COMMITS_AGAIN: u32 = 4;

/// How long an abort may take before the write is retried, or fails.
const ABORT: Duration = Duration::from_millis(250);

impl Mongo {
    /// Makes `order` in its own transaction. A failure before the commit changes nothing.
    pub(super) async fn in_transaction<R: Record>(
        &self,
        order: &Order,
        creation: Creation,
        nonce: i64,
    ) -> Result<AppliedWrite, Failure> {
        let mut session = self.begin_transaction().await?;
        let made = Box::pin(self.steps::<R>(order, creation, nonce, &mut session)).await;
        self.end_transaction(session, made).await
    }

    /// Begins a transaction. Nothing is sent yet.
    pub(super) async fn begin_transaction(&self) -> Result<ClientSession, Failure> {
        let mut session = self.client.start_session().await.map_err(before_commit)?;
        session
            .start_transaction()
            .read_concern(ReadConcern::snapshot())
            .write_concern(durable(self.options.write_majority))
            .max_commit_time(self.options.command)
            .await
            .map_err(before_commit)?;
        Ok(session)
    }

    /// Commits a transaction whose steps were made, and returns what they returned; aborts the others. A step
    /// that fails changes nothing.
    pub(super) async fn end_transaction<T>(
        &self,
        mut session: ClientSession,
        made: Result<T, Failure>,
    ) -> Result<T, Failure> {
        match made {
            // A replay's transaction is committed, too, although it wrote nothing: only then its read state
            // is on a majority, which a new primary could otherwise lose.
            Ok(done) => commit(&mut session).await.map(|()| done),
            // Nothing was written. The server forgets the transaction by itself; an acknowledged abort
            // releases documents with which the next attempt would collide. An unavailable server is not
            // waited for.
            failed => {
                let abort = tokio::spawn(async move { session.abort_transaction().await });
                drop(timeout(ABORT, abort).await);
                failed
            }
        }
    }

    async fn steps<R: Record>(
        &self,
        order: &Order,
        creation: Creation,
        nonce: i64,
        session: &mut ClientSession,
    ) -> Result<AppliedWrite, Failure> {
        if let Some(done) = self.find_answer_in(&order.write, session).await? {
            return Ok(done);
        }
        let document = self.apply_in::<R>(order, creation, nonce, session).await?;
        if matches!(order.change, Change::Delete { .. }) {
            self.forget_secrets(R::OWNER, order.id, session).await.map_err(before_commit)?;
        }
        for (name, secret) in &order.secrets {
            self.put_secret(R::OWNER, order.id, name, secret.as_ref(), session)
                .await
                .map_err(before_commit)?;
        }
        self.keep_answer_in(&order.write, document, session).await
    }

    async fn apply_in<R: Record>(
        &self,
        order: &Order,
        creation: Creation,
        nonce: i64,
        session: &mut ClientSession,
    ) -> Result<RawDocumentBuf, Failure> {
        self.apply::<R>(order, creation, nonce, Some(session)).await.map_err(|refusal| match refusal {
            Refusal::ByServer(error) if is_duplicate(&error) => Failure::Duplicate,
            Refusal::ByServer(error) => before_commit(*error),
            Refusal::Unmatched => Failure::Unmatched,
            Refusal::Malformed(error) => Failure::Final(error),
        })
    }
}

/// Reports that a step failed: the transaction never commits. Another transaction has just written a
/// duplicate secret or request.
pub(super) fn before_commit(error: Error) -> Failure {
    let collided = error.contains_label(TRANSIENT_TRANSACTION_ERROR) || is_duplicate(&error);
    let store_error = read_failed(error);
    if collided { Failure::Collision(store_error) } else { Failure::Final(store_error) }
}

async fn commit(session: &mut ClientSession) -> Result<(), Failure> {
    let mut tries = 0;
    loop {
        let Err(error) = session.commit_transaction().await else {
            return Ok(());
        };
        if !error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
            return Err(not_committed(error));
        }
        if tries == COMMITS_AGAIN {
            return Err(Failure::Final(commit_failed(&error)));
        }
        tries += 1;
        tokio::time::sleep(backoff(tries)).await;
    }
}

fn not_committed(error: Error) -> Failure {
    if error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
        return Failure::Collision(read_failed(error));
    }
    let store_error: StoreError = commit_failed(&error);
    Failure::Final(store_error)
}
