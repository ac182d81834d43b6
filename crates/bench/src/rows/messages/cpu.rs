//! Processor time that a node takes for messages, over another call to the same node, or over what a service
//! would do by hand.

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use fred::prelude::{KeysInterface as _, ListInterface as _};
use kith_lab_servers::{imported::fill_up_to, usage};
use kith_proto::{
    message::v1::{
        GetMaxSeqsRequest, ListConversationsRequest, Message, PullMessagesRequest, ReactRequest,
        message_service_client::MessageServiceClient,
    },
    relation::v1::SetDoNotDisturbRequest,
    user::v1::GetUserRequest,
};
use prost::Message as _;
use tonic::transport::Channel;

use super::stage::{GROUP, MessageStage, USER, fill_through, text};
use crate::{
    claims::{LIST_20_CPU, MAX_SEQS_CPU, PULL_20_CPU, PULL_50_REACTIONS, Plan, SEND_CPU},
    echo,
    load::{Callers, compare_cpu},
    ratio::Pair,
    results::Results,
    rows::{
        groups::make_group,
        loaded::{CONNECTIONS, IN_FLIGHT},
        methods::{
            GET_MAX_SEQS, GET_USER, LIST_CONVERSATIONS, PULL_MESSAGES, SEND_MESSAGE, SET_DO_NOT_DISTURB,
        },
        redis::RawRedis,
    },
    served::ServerProcess,
};

/// Sends, or other writes, at the same time.
const WRITERS: usize = 50;
/// Conversations in the list, and messages on a page.
const LISTED: i64 = 20;
/// Messages on the page with reactions.
const PAGE: i64 = 50;
/// Messages in each conversation.
const MESSAGES: usize = 60;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants_any(&[&SEND_CPU, &LIST_20_CPU, &PULL_50_REACTIONS]) {
        Box::pin(embedded(plan, results)).await?;
    }
    if plan.wants_any(&[&PULL_20_CPU, &MAX_SEQS_CPU]) {
        Box::pin(cluster(plan, results)).await?;
    }
    Ok(())
}

/// Compares sends with another small durable write, a list of conversations with a user, and a page with
/// reactions with the same page without.
async fn embedded(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let kith = ServerProcess::kith(plan)?;
    let channel = kith.connect().await?;
    fill_up_to(channel.clone(), LISTED + 1).await?;
    make_group(&channel, 1, &[USER]).await?;
    results.row(&SEND_CPU, sends(plan, &kith)).await?;
    results.row(&LIST_20_CPU, lists(plan, &kith, channel.clone())).await?;
    results.row(&PULL_50_REACTIONS, reactions(plan, &kith, channel)).await
}

async fn sends(plan: &Plan, kith: &ServerProcess) -> Result<Vec<Pair<f64>>> {
    let settings: Vec<_> =
        [true, false].into_iter().flat_map(|on| (2..=LISTED).map(move |to| quiet(to, on))).collect();
    let write = Callers::connect(kith.address, 1, SET_DO_NOT_DISTURB, settings).await?;
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

async fn lists(plan: &Plan, kith: &ServerProcess, channel: Channel) -> Result<Vec<Pair<f64>>> {
    fill_through(channel, &direct_logs(), MESSAGES).await?;
    let users = (1..=LISTED + 1).map(|user_id| GetUserRequest { user_id, consistency: None }).collect();
    let get_user = Callers::connect(kith.address, CONNECTIONS, GET_USER, users).await?;
    let request = ListConversationsRequest { user_id: USER, page_size: 20, ..Default::default() };
    let list = Callers::connect(kith.address, CONNECTIONS, LIST_CONVERSATIONS, vec![request]).await?;
    let calls = plan.size(20_000, 1_000);
    compare_cpu(
        plan.rounds,
        calls,
        calls,
        async |calls| get_user.cpu_micros(kith, calls, IN_FLIGHT).await,
        async |calls| list.cpu_micros(kith, calls, IN_FLIGHT).await,
    )
    .await
}

/// Compares a page of messages, half of which have two kinds of reactions, with and without the counts.
async fn reactions(plan: &Plan, kith: &ServerProcess, channel: Channel) -> Result<Vec<Pair<f64>>> {
    let conversation_id = direct_logs().remove(0);
    // The row of lists may have filled it.
    fill_through(channel.clone(), std::slice::from_ref(&conversation_id), MESSAGES).await?;
    let page = PullMessagesRequest {
        conversation_id: conversation_id.clone(),
        user_id: USER,
        from_seq: i64::try_from(MESSAGES)? - PAGE + 1,
        limit: i32::try_from(PAGE)?,
        ..Default::default()
    };
    let mut messages = MessageServiceClient::new(channel);
    for seq in (page.from_seq..page.from_seq + PAGE).step_by(2) {
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

/// The direct conversations in the list.
fn direct_logs() -> Vec<String> {
    (2..=LISTED + 1).map(|other| format!("d{USER}-{other}")).collect()
}

/// Compares a page out of a window, and the ends of conversations, with an echo of the same answers.
async fn cluster(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(stage) = MessageStage::start(plan, "cpu", 1, LISTED + 1).await? else { return Ok(()) };
    stage.fill(&direct_logs(), MESSAGES).await?;
    let bare = ServerProcess::echo(None)?;
    results.row(&MAX_SEQS_CPU, ends(plan, &stage, &bare)).await?;
    results.row(&PULL_20_CPU, pages(plan, &stage, &bare)).await?;
    stage.remove(plan).await
}

async fn ends(plan: &Plan, stage: &MessageStage, bare: &ServerProcess) -> Result<Vec<Pair<f64>>> {
    let node = &stage.nodes[0].served;
    let request = GetMaxSeqsRequest { user_id: USER, conversation_ids: direct_logs(), ..Default::default() };
    let answer = stage.client(0).get_max_seqs(request.clone()).await?.into_inner();
    let echo = Callers::connect(bare.address, CONNECTIONS, GET_MAX_SEQS.at(echo::ENDS), vec![answer]).await?;
    let ends = Callers::connect(node.address, CONNECTIONS, GET_MAX_SEQS, vec![request]).await?;
    let calls = plan.size(50_000, 1_000);
    compare_cpu(
        plan.rounds,
        calls,
        calls,
        async |calls| echo.cpu_micros(bare, calls, IN_FLIGHT).await,
        async |calls| ends.cpu_micros(node, calls, IN_FLIGHT).await,
    )
    .await
}

/// The bare side also reads the page from Redis, in this process.
async fn pages(plan: &Plan, stage: &MessageStage, bare: &ServerProcess) -> Result<Vec<Pair<f64>>> {
    let redis = plan.redis.as_deref().context("these rows need a Redis")?;
    let node = &stage.nodes[0].served;
    let request = PullMessagesRequest {
        conversation_id: direct_logs().remove(0),
        user_id: USER,
        from_seq: i64::try_from(MESSAGES)? - LISTED + 1,
        limit: 20,
        ..Default::default()
    };
    let answer = stage.client(0).pull_messages(request.clone()).await?.into_inner();
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

fn quiet(target_id: i64, do_not_disturb: bool) -> SetDoNotDisturbRequest {
    SetDoNotDisturbRequest { user_id: USER, target_id, do_not_disturb, ..Default::default() }
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
