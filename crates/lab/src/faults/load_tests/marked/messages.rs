//! Callers who mark a group's messages, and what they know.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::{
    group::v1::Group,
    message::v1::{
        BatchSendRequest, MarkReadRequest, SendMessageRequest, message_service_client::MessageServiceClient,
        send_message_request::To,
    },
};
use rand::{Rng as _, rngs::SmallRng};
use tonic::transport::Channel;

use super::{CALLERS, Workload, acknowledge};
use crate::faults::answered::{call, make_group};

pub(super) const CONVERSATION: &str = "g1";
const GROUP: i64 = 1;
/// The group's members. The first member is its owner.
pub(super) const USERS: i64 = 96;
/// Messages in one BatchSend, and how many batches there are.
const BATCH: usize = 100;
const BATCHES: usize = 20;
/// A mark is above the previous mark by at most this, so that there are numbers for a whole run.
const STEP_MAX: i64 = 12;

/// Up to where each user has read.
pub(super) type MessageModel = BTreeMap<i64, i64>;

/// A caller with its own users.
#[derive(Debug)]
pub(super) struct MessageReaders {
    state: Arc<Workload>,
    random: SmallRng,
    /// The last message's number.
    last: i64,
    read: MessageModel,
}

/// Makes the group and its messages. Returns the last message's number.
pub(super) async fn send_all(node: &Channel) -> Result<i64> {
    fill_up_to(node.clone(), USERS).await?;
    let group = Group { group_id: GROUP, name: "talking".to_owned(), creator_id: 1, ..Group::default() };
    make_group(std::slice::from_ref(node), group, (2..=USERS).collect()).await?;
    let mut client = MessageServiceClient::new(node.clone());
    let message =
        SendMessageRequest { to: Some(To::GroupId(GROUP)), body: "hi".into(), ..Default::default() };
    for _ in 0..BATCHES {
        client.batch_send(BatchSendRequest { messages: vec![message.clone(); BATCH] }).await?;
    }
    Ok(client.send_message(message).await?.into_inner().seq)
}

impl MessageReaders {
    pub(super) fn new(state: &Arc<Workload>, caller: i64, last: i64) -> Self {
        let read = (1..=USERS).filter(|user| user % CALLERS == caller).map(|user| (user, 0)).collect();
        Self { state: Arc::clone(state), random: state.random(CALLERS + caller), last, read }
    }

    /// Marks, each user further, until it is over.
    pub(super) async fn work(mut self) -> Result<MessageModel> {
        let users: Vec<i64> = self.read.keys().copied().collect();
        for user_id in users.into_iter().cycle() {
            if self.state.progress.is_ended() {
                break;
            }
            let before = self.read.get(&user_id).copied().unwrap_or_default();
            let up_to = (before + self.random.random_range(1..=STEP_MAX)).min(self.last);
            self.mark(user_id, up_to).await?;
            self.read.insert(user_id, up_to);
        }
        Ok(self.read)
    }

    async fn mark(&mut self, user_id: i64, up_to: i64) -> Result<()> {
        let conversation_id = CONVERSATION.to_owned();
        let request = MarkReadRequest { user_id, conversation_id, up_to, ..Default::default() };
        let first = self.random.random_range(0..self.state.nodes.len());
        let (marked, sends) = self.state.call(first, request, call!(MessageServiceClient::mark_read)).await;
        marked.with_context(|| format!("the mark of user {user_id}"))?;
        acknowledge(&self.state, 1, sends);
        Ok(())
    }
}
