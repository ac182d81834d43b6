//! A node with users and conversations.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::{
    message::v1::{
        BatchSendRequest, SendMessageRequest, message_service_client::MessageServiceClient,
        send_message_request::To, send_result,
    },
    relation::v1::SetDoNotDisturbRequest,
};
use kith_store_cluster::MongoOptions;
use tonic::{Code, Status, transport::Channel};

use super::{CONTENT_TYPE, body, raw::RawLogs};
use crate::{
    claims::Plan,
    rows::{
        groups::make_group,
        mongodb::durable_database,
        relations::{Keyspace, NodeProcess},
        until_done::until_done,
    },
};

/// The most messages in a BatchSend, and logs that are filled at the same time.
const BATCH: usize = 100;
const FILLED: usize = 8;
/// The group's owner, and the user for whom all messages are sent.
pub(in crate::rows) const USER: i64 = 1;
pub(in crate::rows) const GROUP: &str = "g1";

pub(in crate::rows) type MessageClient = MessageServiceClient<Channel>;

pub(super) struct MessageStage {
    pub(super) raw: RawLogs,
    pub(super) node: NodeProcess,
    keyspace: Keyspace,
}

impl MessageStage {
    /// Starts a node with the users up to an id, and one group with the first user. `None` if the plan names
    /// no servers.
    pub(super) async fn start(plan: &Plan, name: &str, users: i64) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let uri = plan.mongodb.as_deref().context("there was a MongoDB")?;
        let raw = RawLogs::over(&durable_database(&MongoOptions::new(uri, keyspace.name())).await?);
        let node = keyspace.served(plan, plan.redis.as_deref()).await?;
        fill_up_to(node.channel.clone(), users).await?;
        make_group(&node.channel, 1, &[USER]).await?;
        Ok(Some(Self { raw, node, keyspace }))
    }

    pub(super) fn client(&self) -> MessageClient {
        MessageServiceClient::new(self.node.channel.clone())
    }

    /// Fills a log with so many messages.
    pub(super) async fn fill(&self, log: &str, messages: i64) -> Result<()> {
        fill_from(&self.node.channel, &[(USER, log.to_owned())], usize::try_from(messages)?).await
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.node);
        self.keyspace.remove(plan).await
    }
}

/// Sends so many messages from one user to each of these conversations.
pub(in crate::rows) async fn fill_from(
    channel: &Channel,
    conversations: &[(i64, String)],
    messages: usize,
) -> Result<()> {
    let client = MessageClient::new(channel.clone());
    let filling = stream::iter(conversations).map(async |(sender_id, conversation)| {
        let mut left = messages;
        while left > 0 {
            let mut message = text(conversation);
            message.sender_id = *sender_id;
            let all = vec![message; left.min(BATCH)];
            until_done(async || send_batch(&mut client.clone(), all.clone()).await).await?;
            left -= all.len();
        }
        anyhow::Ok(())
    });
    filling.buffer_unordered(FILLED).try_collect().await
}

/// A message from [`USER`], sent by a service.
pub(in crate::rows) fn text(log: &str) -> SendMessageRequest {
    SendMessageRequest {
        to: Some(To::ConversationId(log.to_owned())),
        sender_id: USER,
        content_type: CONTENT_TYPE.to_owned(),
        body: body().into(),
        ..SendMessageRequest::default()
    }
}

/// Small durable writes that differ: [`USER`] mutes the users from 2 up to this one, then ends that.
pub(in crate::rows) fn quiet(last: i64) -> Vec<SetDoNotDisturbRequest> {
    let request = |target_id, do_not_disturb| SetDoNotDisturbRequest {
        user_id: USER,
        target_id,
        do_not_disturb,
        ..SetDoNotDisturbRequest::default()
    };
    [true, false].into_iter().flat_map(|on| (2..=last).map(move |target| request(target, on))).collect()
}

/// Sends messages by one call; each has to be stored.
async fn send_batch(client: &mut MessageClient, messages: Vec<SendMessageRequest>) -> Result<(), Status> {
    let count = messages.len();
    let answer = client.batch_send(BatchSendRequest { messages }).await?.into_inner();
    let mut stored = 0;
    for result in answer.results {
        match result.result {
            Some(send_result::Result::Sent(_)) => stored += 1,
            Some(send_result::Result::Error(error)) => {
                return Err(Status::new(Code::from(error.code), error.reason));
            }
            None => {}
        }
    }
    if stored == count { Ok(()) } else { Err(Status::internal(format!("{stored} of {count} are stored"))) }
}
