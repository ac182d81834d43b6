//! Copies of users and groups in this process, for a second.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use kith_proto::{
    group::v1::{GetGroupRequest, Group, group_service_client::GroupServiceClient},
    user::v1::{GetUserRequest, User, user_service_client::UserServiceClient},
};
use moka::future::Cache;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::Client;

/// How long a copy is used, from the sending of its read.
const USED_FOR: Duration = Duration::from_secs(1);

/// Users and groups that this process reads as a service, kept for a second from the sending of the read. So
/// an answer is at most a second older than a node's own. A write to users or groups by the same [`Client`]
/// drops all copies. Sessions do not use it: they read by the stubs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NearCache {
    client: Client,
    users: Cache<i64, Copied<User>>,
    groups: Cache<i64, Copied<Group>>,
}

/// What a read returned; `None`: there is no such record.
#[derive(Clone, Debug)]
struct Copied<T> {
    record: Option<Arc<T>>,
    sent: Instant,
    /// The client's writes before it.
    writes: u64,
}

impl NearCache {
    /// Copies of at most so many users, and as many groups, over a client without a session.
    #[must_use]
    pub fn new(client: Client, records: u64) -> Self {
        let client = Client { session: None, ..client };
        Self { client, users: Cache::new(records), groups: Cache::new(records) }
    }

    /// Returns a user; `None` if there is none. Callers that miss at the same time share one call.
    ///
    /// # Errors
    /// Those of `GetUser`, but `NOT_FOUND`.
    pub async fn user(&self, user_id: i64) -> Result<Option<Arc<User>>, Status> {
        let read = || async {
            let mut stub = UserServiceClient::new(self.client.clone());
            Ok(stub.get_user(GetUserRequest { user_id, consistency: None }).await?.into_inner().user)
        };
        self.copied(&self.users, user_id, read).await
    }

    /// Returns a group; `None` if there is none. Callers that miss at the same time share one call.
    ///
    /// # Errors
    /// Those of `GetGroup`, but `NOT_FOUND`.
    pub async fn group(&self, group_id: i64) -> Result<Option<Arc<Group>>, Status> {
        let read = || async {
            let mut stub = GroupServiceClient::new(self.client.clone());
            Ok(stub.get_group(GetGroupRequest { group_id, consistency: None }).await?.into_inner().group)
        };
        self.copied(&self.groups, group_id, read).await
    }

    async fn copied<T, F>(
        &self,
        copies: &Cache<i64, Copied<T>>,
        id: i64,
        read: impl Fn() -> F,
    ) -> Result<Option<Arc<T>>, Status>
    where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Result<Option<T>, Status>> + Send,
    {
        let (began, writes) = (Instant::now(), || self.client.options.writes.load(Ordering::Acquire));
        // A read that was sent after this call began answers it, however late it is.
        let answers =
            |copy: &Copied<T>| copy.sent > began || (copy.writes == writes() && began - copy.sent < USED_FOR);
        loop {
            if let Some(copy) = copies.get(&id).await {
                if answers(&copy) {
                    return Ok(copy.record);
                }
                copies.invalidate(&id).await;
            }
            let (read, writes) = (read(), writes());
            let load = async move {
                let sent = Instant::now();
                let record = match read.await {
                    Err(status) if status.code() == Code::NotFound => None,
                    found => found?,
                };
                Ok(Copied { record: record.map(Arc::new), sent, writes })
            };
            let copy = copies.try_get_with(id, load).await.map_err(|why: Arc<Status>| (*why).clone())?;
            if answers(&copy) {
                return Ok(copy.record);
            }
        }
    }
}
