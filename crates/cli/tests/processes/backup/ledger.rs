//! Records the writes that were sent and acknowledged, in one order.

use std::sync::atomic::{AtomicU64, Ordering};

use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use prost_types::FieldMask;
use tonic::{Status, transport::Channel};

/// A clock that all writers share, so that their times can be compared.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A write: creates a group (odd step), or raises the writer's step (even step).
#[derive(Clone, Debug)]
pub(crate) struct LoggedWrite {
    pub(crate) at: u64,
    /// The time when it was acknowledged.
    pub(crate) acknowledged: Option<u64>,
    /// The group that an acknowledged write created.
    pub(crate) group_id: i64,
}

/// A user who creates groups in sequence, and counts them in its own parameter.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) id: i64,
    pub(crate) sent: Vec<LoggedWrite>,
}

impl Writer {
    /// Creates the user.
    pub(crate) async fn new(id: i64, channel: &Channel) -> Self {
        let user = users::User { user_id: id, user_name: format!("writer {id}"), ..Default::default() };
        let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
        UserServiceClient::new(channel.clone()).create_user(request).await.unwrap();
        Self { id, sent: Vec::new() }
    }

    /// Writes until the node is gone, or `enough` returns true.
    pub(crate) async fn write(mut self, channel: Channel, clock: &Clock, enough: impl Fn() -> bool) -> Self {
        for step in 1.. {
            if enough() {
                break;
            }
            self.sent.push(LoggedWrite { at: clock.tick(), acknowledged: None, group_id: 0 });
            let Ok(group_id) = make_group(self.id, step, channel.clone()).await else { break };
            self.acknowledge(clock, group_id);
            self.sent.push(LoggedWrite { at: clock.tick(), acknowledged: None, group_id: 0 });
            if self.raise(step, channel.clone()).await.is_err() {
                break;
            }
            self.acknowledge(clock, 0);
        }
        self
    }

    fn acknowledge(&mut self, clock: &Clock, group_id: i64) {
        let last = self.sent.last_mut().unwrap();
        (last.acknowledged, last.group_id) = (Some(clock.tick()), group_id);
    }

    async fn raise(&self, step: usize, channel: Channel) -> Result<(), Status> {
        let user = users::User {
            user_id: self.id,
            params: [("step".to_owned(), step.to_string())].into(),
            ..Default::default()
        };
        let request = users::UpdateUserRequest {
            user: Some(user),
            update_mask: Some(FieldMask { paths: vec!["params.step".into()] }),
            ..Default::default()
        };
        UserServiceClient::new(channel).update_user(request).await.map(|_| ())
    }
}

/// Creates this step's private group, with an allocated id and an invite code. Repeating a step repeats its
/// request.
pub(crate) async fn make_group(writer: i64, step: usize, channel: Channel) -> Result<i64, Status> {
    let request = groups::CreateGroupRequest {
        group: Some(groups::Group { name: format!("{writer}/{step}"), ..Default::default() }),
        request_id: format!("{writer}-{step}"),
    };
    let answer = GroupServiceClient::new(channel).create_group(request).await?;
    Ok(answer.into_inner().group.unwrap_or_default().group_id)
}
