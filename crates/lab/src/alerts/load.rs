//! Callers that call throughout a case, whatever is answered.

use std::time::Duration;

use kith_proto::{
    message::v1::{
        SendMessageRequest, message_service_client::MessageServiceClient, send_message_request::To,
    },
    notice::v1::{
        Audience, MarkReadRequest, Notice, PublishNoticeRequest, RegisterAudienceRequest,
        notice_service_client::NoticeServiceClient,
    },
    user::v1::{GetUserRequest, user_service_client::UserServiceClient},
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{task::JoinSet, time::sleep};
use tonic::transport::Channel;

use crate::faults::{
    Site,
    calls::{renaming, with_deadline},
};

/// Ids from here on do not exist: no memory has them, and the store is asked.
const MISSING: i64 = 1 << 40;

/// The calls that callers make.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlertLoad {
    /// Callers, one call at a time each; each stays with a node, and they are shared out evenly.
    pub(super) callers: usize,
    /// The pause between an answer and the next call.
    pub(super) pause: Duration,
    /// The ids of the users that are read and written are 1 to this.
    pub(super) users: i64,
    /// How many in a hundred calls write.
    pub(super) writes: u32,
    /// How many in a hundred calls read a user who does not exist. All other calls are cached reads.
    pub(super) of_missing: u32,
    /// How many in a hundred calls send a message.
    pub(super) sends: u32,
    /// How many in a hundred calls mark a notice as read, each by another reader.
    pub(super) marks: u32,
}

/// Callers that stop when this is dropped.
#[derive(Debug)]
pub(super) struct AlertCallers {
    nodes: Vec<Channel>,
    callers: JoinSet<()>,
    seed: u64,
}

impl AlertCallers {
    /// Begins without callers.
    pub(super) fn new(site: &Site, seed: u64) -> Self {
        Self { nodes: site.channels(), callers: JoinSet::new(), seed }
    }

    /// Adds callers with this load.
    pub(super) fn add(&mut self, load: AlertLoad) {
        let nodes: Vec<Channel> = self.nodes.iter().cycle().take(load.callers).cloned().collect();
        for node in nodes {
            self.seed = self.seed.wrapping_add(1);
            self.callers.spawn(calls(load, node, SmallRng::seed_from_u64(self.seed)));
        }
    }

    /// Stops all callers.
    pub(super) async fn stop_all(&mut self) {
        self.callers.shutdown().await;
    }
}

async fn calls(load: AlertLoad, node: Channel, mut random: SmallRng) {
    let (mut users, mut messages) =
        (UserServiceClient::new(node.clone()), MessageServiceClient::new(node.clone()));
    let mut notices = NoticeServiceClient::new(node);
    if load.marks > 0 {
        publish(&mut notices).await;
    }
    for number in 0_u64.. {
        let user_id = random.random_range(1..=load.users);
        let kind = random.random_range(0..100);
        // The result does not matter: the nodes' metrics count it.
        if kind < load.writes {
            drop(
                users.update_user(with_deadline(renaming(user_id, number.to_string(), String::new()))).await,
            );
        } else if kind < load.writes + load.sends {
            drop(messages.send_message(with_deadline(note(user_id, number))).await);
        } else if kind < load.writes + load.sends + load.marks {
            let reader_id = random.random_range(1..=MISSING);
            let mark = MarkReadRequest { audience_id: 1, reader_id, all: true, ..MarkReadRequest::default() };
            drop(notices.mark_read(with_deadline(mark)).await);
        } else {
            let is_missing = kind < load.writes + load.sends + load.marks + load.of_missing;
            let user_id = if is_missing { random.random_range(MISSING..MISSING * 2) } else { user_id };
            drop(users.get_user(with_deadline(GetUserRequest { user_id, consistency: None })).await);
        }
        sleep(load.pause).await;
    }
}

/// One notice in one audience, which another caller may have published already.
async fn publish(notices: &mut NoticeServiceClient<Channel>) {
    let audience = Audience { audience_id: 1, name: "readers".to_owned(), ..Audience::default() };
    let request = RegisterAudienceRequest { audience: Some(audience), ..RegisterAudienceRequest::default() };
    drop(notices.register_audience(with_deadline(request)).await);
    let title = "news".to_owned();
    let notice = Notice { notice_id: 1, title, audience_ids: vec![1], ..Notice::default() };
    let request = PublishNoticeRequest { notice: Some(notice), ..PublishNoticeRequest::default() };
    drop(notices.publish_notice(with_deadline(request)).await);
}

/// A note that a user sends to itself.
fn note(user_id: i64, number: u64) -> SendMessageRequest {
    SendMessageRequest {
        to: Some(To::UserId(user_id)),
        sender_id: user_id,
        content_type: "text/plain".to_owned(),
        body: number.to_string().into(),
        ..SendMessageRequest::default()
    }
}
