//! Nodes over one database and keyspace, with users and conversations.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::message::v1::{
    BatchSendRequest, SendMessageRequest, message_service_client::MessageServiceClient,
    send_message_request::To, send_result,
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
pub(super) const BATCH: usize = 100;
const FILLED: usize = 8;
/// The group's owner, and the user for whom all messages are sent.
pub(in crate::rows) const USER: i64 = 1;
pub(in crate::rows) const GROUP: &str = "g1";

pub(in crate::rows) type MessageClient = MessageServiceClient<Channel>;

pub(super) struct MessageStage {
    pub(super) raw: RawLogs,
    pub(super) nodes: Vec<NodeProcess>,
    keyspace: Keyspace,
}

impl MessageStage {
    /// Starts `nodes` nodes with the users up to an id, and one group with the first users. `None` if the
    /// plan names no servers.
    pub(super) async fn start(plan: &Plan, name: &str, nodes: usize, users: i64) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let uri = plan.mongodb.as_deref().context("there was a MongoDB")?;
        let raw = RawLogs::over(durable_database(&MongoOptions::new(uri, keyspace.name())).await?);
        let mut stage = Self { raw, nodes: Vec::new(), keyspace };
        for _ in 0..nodes {
            stage.nodes.push(stage.keyspace.served(plan, plan.redis.as_deref()).await?);
        }
        fill_up_to(stage.channel(0), users).await?;
        make_group(&stage.channel(0), 1, &[USER]).await?;
        Ok(Some(stage))
    }

    pub(super) fn client(&self, node: usize) -> MessageClient {
        MessageServiceClient::new(self.channel(node))
    }

    /// Fills logs with so many messages each.
    pub(super) async fn fill(&self, logs: &[String], messages: usize) -> Result<()> {
        fill_through(self.channel(0), logs, messages).await
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.nodes);
        self.keyspace.remove(plan).await
    }

    fn channel(&self, node: usize) -> Channel {
        self.nodes[node].channel.clone()
    }
}

/// Fills logs with so many messages each.
pub(in crate::rows) async fn fill_through(channel: Channel, logs: &[String], messages: usize) -> Result<()> {
    let client = MessageClient::new(channel);
    let filling = stream::iter(logs).map(async |log| {
        let mut left = messages;
        while left > 0 {
            let count = left.min(BATCH);
            let all = vec![text(log); count];
            until_done(async || send_batch(&mut client.clone(), all.clone()).await).await?;
            left -= count;
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

/// Like `text`, but with an id.
pub(super) fn named(log: &str, number: u64) -> SendMessageRequest {
    SendMessageRequest { client_message_id: format!("c{number}"), ..text(log) }
}

/// Sends messages by one call; each has to be stored.
pub(in crate::rows) async fn send_batch(
    client: &mut MessageClient,
    messages: Vec<SendMessageRequest>,
) -> Result<(), Status> {
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
