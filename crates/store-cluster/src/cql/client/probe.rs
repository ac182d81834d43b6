//! Whether the store of relations serves.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{error::names_what_is_not_there, session::Client};

/// Why the store of relations does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlUnfit {
    /// No node answers, or too few of them.
    Away,
    /// The user or the password is refused, or required.
    Credentials,
    /// The tables do not exist: the migrations were not applied.
    NotMigrated,
}

/// Asks the store of relations whether it serves. Cheap to clone.
#[derive(Clone)]
pub struct CqlProbe {
    client: Weak<Client>,
}

impl CqlProbe {
    pub(crate) fn new(client: &Arc<Client>) -> Self {
        Self { client: Arc::downgrade(client) }
    }

    /// Why it does not serve, found within twice the `limit`; `None`: it serves. Two small reads. While no server
    /// answers them, calls are refused at once.
    pub async fn unfit(&self, limit: Duration) -> Option<CqlUnfit> {
        let Some(client) = self.client.upgrade() else { return Some(CqlUnfit::Away) };
        let unfit = unfit(&client, limit).await;
        // Before the first connection calls are refused anyway; after it they must not be refused because of this.
        client.reach.pinged(unfit != Some(CqlUnfit::Away) || client.session().is_err());
        unfit
    }
}

async fn unfit(client: &Client, limit: Duration) -> Option<CqlUnfit> {
    if client.is_refused() {
        return Some(CqlUnfit::Credentials);
    }
    let Ok(session) = client.session() else { return Some(CqlUnfit::Away) };
    let server = session.query_unpaged("SELECT key FROM system.local", ());
    match tokio::time::timeout(limit, server).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(_) => return Some(CqlUnfit::Away),
    }
    let table = client.text("SELECT bucket FROM %k.follow_buckets WHERE owner = 1 LIMIT 1");
    match tokio::time::timeout(limit, session.query_unpaged(table, ())).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) if names_what_is_not_there(&error) => Some(CqlUnfit::NotMigrated),
        Ok(Err(_)) | Err(_) => Some(CqlUnfit::Away),
    }
}

impl fmt::Debug for CqlProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqlProbe").finish_non_exhaustive()
    }
}
