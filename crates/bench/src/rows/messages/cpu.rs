//! Processor time that a node takes for messages, over another call to the same node, or over what a service
//! would do by hand.

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use fred::prelude::{KeysInterface as _, ListInterface as _};
use kith_lab_servers::{imported::fill_up_to, usage};
use kith_proto::message::v1::{Message, PullMessagesRequest, ReactRequest};
use prost::Message as _;
use tonic::transport::Channel;

use super::stage::{GROUP, MessageClient, MessageStage, USER, fill_from, quiet, text};
use crate::{
    claims::{PULL_20_CPU, PULL_50_REACTIONS, Plan, SEND_CPU},
    echo,
    load::{Callers, compare_cpu},
    ratio::Pair,
    results::Results,
    rows::{
        groups::make_group,
        loaded::{CONNECTIONS, IN_FLIGHT},
        methods::{PULL_MESSAGES, SEND_MESSAGE, SET_DO_NOT_DISTURB},
        redis::RawRedis,
    },
    served::ServerProcess,
};

/// Sends, or other writes, at the same time.
const WRITERS: usize = 50;
/// Users whose notes are set, besides the caller.
const OTHERS: i64 = 20;
/// Messages in the conversation, and on a page.
const MESSAGES: i64 = 60;
const PAGE: i64 = 20;
/// Messages on the page with reactions.
const REACTED: i64 = 50;
const CONVERSATION: &str = "d1-2";

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants_any(&[&SEND_CPU, &PULL_50_REACTIONS]) {
        let kith = ServerProcess::kith(plan)?;
        let channel = kith.connect().await?;
        fill_up_to(channel.clone(), OTHERS + 1).await?;
        make_group(&channel, 1, &[USER]).await?;
        results.row(&SEND_CPU, sends(plan, &kith)).await?;
        results.row(&PULL_50_REACTIONS, reactions(plan, &kith, channel)).await?;
    }
    if plan.wants(&PULL_20_CPU)
        && let Some(stage) = MessageStage::start(plan, "cpu", 2).await?
    {
        stage.fill(CONVERSATION, MESSAGES).await?;
        let bare = ServerProcess::echo()?;
        results.add(&PULL_20_CPU, &pages(plan, &stage, &bare).await?)?;
        stage.remove(plan).await?;
    }
    Ok(())
}

/// Compares sends with another small durable write.
async fn sends(plan: &Plan, kith: &ServerProcess) -> Result<Vec<Pair<f64>>> {
    let write = Callers::connect(kith.address, 1, SET_DO_NOT_DISTURB, quiet(OTHERS)).await?;
    let send = Callers::connect(kith.address, 1, SEND_MESSAGE, vec![text(GROUP)]).await?;
    let calls = plan.size(20_000, 1_000);
    compare_cpu(
        plan.rounds,
        calls,
        calls,
        async |calls| write.cpu_micros(kith, calls, WRITERS).await,
        async |calls| send.cpu_micros(kith, calls, WRITERS).await,
    )
    .await
}

/// Compares a page of messages, half of which have two kinds of reactions, with and without the counts.
async fn reactions(plan: &Plan, kith: &ServerProcess, channel: Channel) -> Result<Vec<Pair<f64>>> {
    let conversation_id = CONVERSATION.to_owned();
    fill_from(&channel, &[(USER, conversation_id.clone())], usize::try_from(MESSAGES)?).await?;
    let page = PullMessagesRequest {
        conversation_id: conversation_id.clone(),
        user_id: USER,
        from_seq: MESSAGES - REACTED + 1,
        limit: i32::try_from(REACTED)?,
        ..Default::default()
    };
    let mut messages = MessageClient::new(channel);
    for seq in (page.from_seq..page.from_seq + REACTED).step_by(2) {
        for (user_id, kind) in [(USER, "👍"), (USER, "❤️"), (2, "👍")] {
            let (conversation_id, kind) = (conversation_id.clone(), kind.to_owned());
            messages.react(ReactRequest { user_id, conversation_id, seq, kind }).await?;
        }
    }
    let with_reactions = PullMessagesRequest { with_reactions: true, ..page.clone() };
    let answer = messages.pull_messages(with_reactions.clone()).await?.into_inner();
    let counted = answer.messages.iter().filter(|message| !message.reactions.is_empty()).count();
    ensure!(counted == 25 && answer.messages.len() == 50, "{counted} messages have reactions");
    let without = Callers::connect(kith.address, CONNECTIONS, PULL_MESSAGES, vec![page]).await?;
    let with = Callers::connect(kith.address, CONNECTIONS, PULL_MESSAGES, vec![with_reactions]).await?;
    let calls = plan.size(20_000, 1_000);
    compare_cpu(
        plan.rounds,
        calls,
        calls,
        async |calls| without.cpu_micros(kith, calls, IN_FLIGHT).await,
        async |calls| with.cpu_micros(kith, calls, IN_FLIGHT).await,
    )
    .await
}

/// Compares a page out of a window with an echo of the same answer. The bare side also reads the page from
/// Redis, in this process.
async fn pages(plan: &Plan, stage: &MessageStage, bare: &ServerProcess) -> Result<Vec<Pair<f64>>> {
    let redis = plan.redis.as_deref().context("these rows need a Redis")?;
    let node = &stage.node.served;
    let request = PullMessagesRequest {
        conversation_id: CONVERSATION.to_owned(),
        user_id: USER,
        from_seq: MESSAGES - PAGE + 1,
        limit: i32::try_from(PAGE)?,
        ..Default::default()
    };
    let answer = stage.client().pull_messages(request.clone()).await?.into_inner();
    ensure!(answer.messages.len() == 20, "a page has {} messages", answer.messages.len());
    let list = RawList::fill(redis, &answer.messages).await?;
    let echo = PULL_MESSAGES.at(echo::MESSAGES);
    let echo = Callers::connect(bare.address, CONNECTIONS, echo, vec![answer]).await?;
    let pull = Callers::connect(node.address, CONNECTIONS, PULL_MESSAGES, vec![request]).await?;
    let calls = plan.size(50_000, 1_000);
    let pairs = compare_cpu(
        plan.rounds,
        calls,
        calls,
        async |calls| Ok(echo.cpu_micros(bare, calls, IN_FLIGHT).await? + list.cpu_micros(calls).await?),
        async |calls| pull.cpu_micros(node, calls, IN_FLIGHT).await,
    );
    let pairs = pairs.await?;
    list.remove().await?;
    Ok(pairs)
}

/// A page's messages as a plain Redis list.
struct RawList {
    raw: RawRedis,
    key: String,
}

impl RawList {
    async fn fill(url: &str, messages: &[Message]) -> Result<Self> {
        let raw = RawRedis::patient(url, &format!("kith_bench_{}", std::process::id())).await?;
        let key = raw.key("page");
        let entries: Vec<Vec<u8>> = messages.iter().map(prost::Message::encode_to_vec).collect();
        let _: i64 = raw.client.rpush(&key, entries).await?;
        Ok(Self { raw, key })
    }

    /// Processor time that this process takes for a read and its decoding.
    async fn cpu_micros(&self, reads: u32) -> Result<f64> {
        let own = std::process::id();
        let before = usage::cpu_seconds(own)?;
        for _ in 0..reads {
            let entries: Vec<bytes::Bytes> = self.raw.client.lrange(&self.key, 0, -1).await?;
            for entry in entries {
                black_box(Message::decode(entry)?);
            }
        }
        Ok((usage::cpu_seconds(own)? - before) * 1e6 / f64::from(reads))
    }

    async fn remove(&self) -> Result<()> {
        let _: i64 = self.raw.client.del(&self.key).await?;
        Ok(())
    }
}
