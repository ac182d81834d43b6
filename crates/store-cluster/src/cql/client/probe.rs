//! The relation store's health check.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{error::is_missing_table, session::Client};

/// Why the relation store cannot serve calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlUnfit {
    /// Too few servers answer, or none.
    Unreachable,
    /// The server refuses the user or the password, or requires them.
    Credentials,
    /// The tables do not exist: the migrations were not applied.
    NotMigrated,
}

/// Checks whether the relation store can serve calls. Cheap to clone.
#[derive(Clone)]
pub struct CqlProbe {
    client: Weak<Client>,
}

impl CqlProbe {
    pub(crate) fn new(client: &Arc<Client>) -> Self {
        Self { client: Arc::downgrade(client) }
    }

    /// Returns why the store cannot serve calls, or `None` if it can. Makes one small read, within `limit`.
    /// While no server answers it, calls are refused at once.
    pub async fn unfit(&self, limit: Duration) -> Option<CqlUnfit> {
        let Some(client) = self.client.upgrade() else { return Some(CqlUnfit::Unreachable) };
        let unfit = unfit(&client, limit).await;
        // Before the first connection, calls are refused anyway. A failed check must not count then: it would
        // still refuse calls for a while after the connection is made.
        client.reachability.record_ping(unfit != Some(CqlUnfit::Unreachable) || client.session().is_err());
        unfit
    }
}

async fn unfit(client: &Client, limit: Duration) -> Option<CqlUnfit> {
    if client.is_refused() {
        return Some(CqlUnfit::Credentials);
    }
    let Ok(session) = client.session() else { return Some(CqlUnfit::Unreachable) };
    let table = client.text("SELECT bucket FROM %k.follow_buckets WHERE owner = 1 LIMIT 1");
    match tokio::time::timeout(limit, session.query_unpaged(table, ())).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) if is_missing_table(&error) => Some(CqlUnfit::NotMigrated),
        Ok(Err(_)) | Err(_) => Some(CqlUnfit::Unreachable),
    }
}

impl fmt::Debug for CqlProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqlProbe").finish_non_exhaustive()
    }
}
