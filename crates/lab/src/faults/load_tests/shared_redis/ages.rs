//! Measures how old nodes' answers are.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use kith_proto::user::v1::{GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient};
use prost_types::FieldMask;
use tokio::time::{Instant, sleep};
use tonic::{Code, transport::Channel};

/// How long a new value is awaited.
const LOOKED_FOR: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// A cluster's nodes.
#[derive(Debug)]
pub(super) struct AgeReaders {
    nodes: Vec<Channel>,
    /// Values that were written so far.
    written: AtomicI64,
}

impl AgeReaders {
    pub(super) const fn new(nodes: Vec<Channel>) -> Self {
        Self { nodes, written: AtomicI64::new(0) }
    }

    /// The user as each node has it, by a cached read; `None`: not found.
    ///
    /// # Errors
    /// When a node answers otherwise.
    pub(super) async fn read(&self, user_id: i64) -> Result<Vec<Option<User>>> {
        try_join_all(self.nodes.iter().map(|node| cached(node, user_id))).await
    }

    /// Updates the user through each node in turn and reads it through all. Returns the oldest answer's age.
    ///
    /// # Errors
    /// If a call fails, or a node does not answer with the new value in time.
    pub(super) async fn oldest(&self, user_id: i64) -> Result<Duration> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let at = usize::try_from(number)? % self.nodes.len();
        let user = User { user_id, nick_name: format!("{number}"), ..User::default() };
        let update_mask = Some(FieldMask { paths: vec!["nick_name".to_owned()] });
        let request = UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
        let updated = UserServiceClient::new(self.nodes[at].clone()).update_user(request).await?;
        let version = updated.into_inner().user.unwrap_or_default().version;
        let acknowledged = Instant::now();
        let ages = self.nodes.iter().map(|node| until_new(node, user_id, version, acknowledged));
        Ok(try_join_all(ages).await?.into_iter().max().unwrap_or_default())
    }
}

/// The time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

async fn cached(node: &Channel, user_id: i64) -> Result<Option<User>> {
    let request = GetUserRequest { user_id, ..GetUserRequest::default() };
    match UserServiceClient::new(node.clone()).get_user(request).await {
        Ok(answer) => Ok(answer.into_inner().user),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(status.into()),
    }
}

/// How long after the acknowledgement the last call began that returned the previous value.
async fn until_new(node: &Channel, user_id: i64, version: i64, acknowledged: Instant) -> Result<Duration> {
    let mut oldest = Duration::ZERO;
    loop {
        let began = acknowledged.elapsed();
        if cached(node, user_id).await?.is_some_and(|user| user.version >= version) {
            return Ok(oldest);
        }
        oldest = began;
        ensure!(began < LOOKED_FOR, "a node does not come to answer with version {version}");
        sleep(LOOK).await;
    }
}
