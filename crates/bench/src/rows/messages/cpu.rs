//! Processor time of a node for messages, over another call of the same node, or over what one would do by hand.

use std::{hint::black_box, time::Duration};

use anyhow::{Context as _, Result, ensure};
use fred::prelude::{
    Builder, Client as Redis, ClientLike as _, Config, KeysInterface as _, ListInterface as _,
};
use kith_lab_servers::{imported::fill, usage};
use kith_proto::{
    message::v1::{
        GetMaxSeqsRequest, GetMaxSeqsResponse, ListConversationsRequest, ListConversationsResponse, Message,
        PullMessagesRequest, PullMessagesResponse, SendMessageRequest, SendMessageResponse,
    },
    relation::v1::{SetDoNotDisturbRequest, SetDoNotDisturbResponse},
    user::v1::{GetUserRequest, user_service_client::UserServiceClient},
};
use prost::Message as _;
use tonic::transport::Endpoint;

use super::stage::{GROUP, MessageStage, USER, fill_through, make_group, text};
use crate::{
    claims::{LIST_20_CPU, MAX_SEQS_CPU, PULL_20_CPU, Plan, SEND_CPU},
    echo,
    load::{Answer, Callers},
    ratio::{Claim, Side, interleave},
    results::Results,
    rows::rpc::{CONNECTIONS, GET_USER, IN_FLIGHT},
    served::Served,
};

const SEND: &str = "/kith.message.v1.MessageService/SendMessage";
const LIST: &str = "/kith.message.v1.MessageService/ListConversations";
const PULL: &str = "/kith.message.v1.MessageService/PullMessages";
const MAX_SEQS: &str = "/kith.message.v1.MessageService/GetMaxSeqs";
const DO_NOT_DISTURB: &str = "/kith.relation.v1.RelationService/SetDoNotDisturb";
/// Sends, or other writes, at the same time.
const WRITERS: usize = 50;
/// Conversations of the list, and messages of a page.
const LISTED: i64 = 20;
/// Messages of each conversation.
const MESSAGES: usize = 60;
const ANSWER: Duration = Duration::from_secs(1);

/// Runs what is asked for.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants(&SEND_CPU) || plan.wants(&LIST_20_CPU) {
        Box::pin(embedded(plan, results)).await?;
    }
    if plan.wants(&PULL_20_CPU) || plan.wants(&MAX_SEQS_CPU) {
        Box::pin(cluster(plan, results)).await?;
    }
    Ok(())
}

/// Sends over another small durable write; a list of conversations over a user.
async fn embedded(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let kith = Served::kith(&plan.kith)?;
    let users: Vec<i64> = (1..=LISTED + 1).collect();
    let asked = users.iter().map(|user| GetUserRequest { user_id: *user, consistency: None }).collect();
    // Waits for the node.
    let get_user = Callers::<GetUserRequest>::connect(kith.address, CONNECTIONS, GET_USER, asked).await?;
    let channel = Endpoint::from_shared(format!("http://{}", kith.address))?.connect().await?;
    fill(&mut UserServiceClient::new(channel.clone()), &users).await?;
    make_group(channel.clone()).await?;
    if plan.wants(&SEND_CPU) {
        let settings: Vec<_> =
            [true, false].into_iter().flat_map(|on| (2..=LISTED).map(move |to| quiet(to, on))).collect();
        let write =
            Callers::<_, SetDoNotDisturbResponse>::connect(kith.address, 1, DO_NOT_DISTURB, settings).await?;
        let send = Callers::<SendMessageRequest, SendMessageResponse>::connect(
            kith.address,
            1,
            SEND,
            vec![text(GROUP)],
        );
        let sides = Sides {
            bare: Asked { server: &kith, callers: write },
            kith: Asked { server: &kith, callers: send.await? },
        };
        sides
            .compare(plan, &SEND_CPU, Load { calls: plan.size(20_000, 1_000), in_flight: WRITERS }, results)
            .await?;
    }
    if plan.wants(&LIST_20_CPU) {
        let logs: Vec<String> = (2..=LISTED + 1).map(|other| format!("d{USER}-{other}")).collect();
        fill_through(channel, &logs, MESSAGES).await?;
        let request = ListConversationsRequest { user_id: USER, page_size: 20, ..Default::default() };
        let list =
            Callers::<_, ListConversationsResponse>::connect(kith.address, CONNECTIONS, LIST, vec![request]);
        let sides = Sides {
            bare: Asked { server: &kith, callers: get_user },
            kith: Asked { server: &kith, callers: list.await? },
        };
        sides
            .compare(
                plan,
                &LIST_20_CPU,
                Load { calls: plan.size(20_000, 1_000), in_flight: IN_FLIGHT },
                results,
            )
            .await?;
    }
    Ok(())
}

/// A page out of a window, and ends of conversations, over an echo of the same answers.
async fn cluster(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(stage) = MessageStage::start(plan, "cpu", 1, LISTED + 1).await? else { return Ok(()) };
    let redis = plan.redis.as_deref().context("these rows need a Redis")?;
    let mut logs: Vec<String> = (2..=LISTED + 1).map(|other| format!("d{USER}-{other}")).collect();
    stage.fill(&logs, MESSAGES).await?;
    let bare = Served::echo()?;
    let node = &stage.nodes[0].served;
    let load = Load { calls: plan.size(50_000, 1_000), in_flight: IN_FLIGHT };
    if plan.wants(&MAX_SEQS_CPU) {
        let request =
            GetMaxSeqsRequest { user_id: USER, conversation_ids: logs.clone(), ..Default::default() };
        let answer = stage.client(0).get_max_seqs(request.clone()).await?.into_inner();
        let echo =
            Callers::<_, GetMaxSeqsResponse>::connect(bare.address, CONNECTIONS, echo::ENDS, vec![answer]);
        let ends =
            Callers::<_, GetMaxSeqsResponse>::connect(node.address, CONNECTIONS, MAX_SEQS, vec![request]);
        let sides = Sides {
            bare: Asked { server: &bare, callers: echo.await? },
            kith: Asked { server: node, callers: ends.await? },
        };
        sides.compare(plan, &MAX_SEQS_CPU, load, results).await?;
    }
    if plan.wants(&PULL_20_CPU) {
        let conversation_id = logs.remove(0);
        let request = PullMessagesRequest {
            conversation_id,
            user_id: USER,
            from_seq: i64::try_from(MESSAGES)? - LISTED + 1,
            limit: 20,
            ..Default::default()
        };
        let answer = stage.client(0).pull_messages(request.clone()).await?.into_inner();
        ensure!(answer.messages.len() == 20, "a page has {} messages", answer.messages.len());
        let list = RawList::fill(redis, &answer.messages).await?;
        let echo = Callers::<_, PullMessagesResponse>::connect(
            bare.address,
            CONNECTIONS,
            echo::MESSAGES,
            vec![answer],
        );
        let pull =
            Callers::<_, PullMessagesResponse>::connect(node.address, CONNECTIONS, PULL, vec![request]);
        let sides = Sides {
            bare: Asked { server: &bare, callers: echo.await? },
            kith: Asked { server: node, callers: pull.await? },
        };
        sides.compare_with(plan, &PULL_20_CPU, load, Some(&list), results).await?;
        list.remove().await?;
    }
    stage.remove(plan).await
}

fn quiet(target_id: i64, do_not_disturb: bool) -> SetDoNotDisturbRequest {
    SetDoNotDisturbRequest { user_id: USER, target_id, do_not_disturb, ..Default::default() }
}

/// How much both sides get.
#[derive(Clone, Copy, Debug)]
struct Load {
    calls: u32,
    in_flight: usize,
}

/// A server and its callers.
struct Asked<'a, Q, A> {
    server: &'a Served,
    callers: Callers<Q, A>,
}

/// Two servers, which may be one.
struct Sides<'a, B, A, Q, K> {
    bare: Asked<'a, B, A>,
    kith: Asked<'a, Q, K>,
}

impl<Q: prost::Message + Clone + Default + 'static, A: Answer> Asked<'_, Q, A> {
    async fn take(&self, load: Load) -> Result<f64> {
        self.callers.cpu_micros(self.server, load.calls, load.in_flight).await
    }
}

impl<B, A, Q, K> Sides<'_, B, A, Q, K>
where
    B: prost::Message + Clone + Default + 'static,
    A: Answer,
    Q: prost::Message + Clone + Default + 'static,
    K: Answer,
{
    async fn compare(&self, plan: &Plan, claim: &Claim, load: Load, results: &mut Results<'_>) -> Result<()> {
        self.compare_with(plan, claim, load, None, results).await
    }

    /// Microseconds of processor time of a call. `list`: what the bare side also reads, in this process.
    async fn compare_with(
        &self,
        plan: &Plan,
        claim: &Claim,
        load: Load,
        list: Option<&RawList>,
        results: &mut Results<'_>,
    ) -> Result<()> {
        self.bare.take(load).await?;
        self.kith.take(load).await?;
        let rounds = interleave(plan.rounds, async |side| match (side, list) {
            (Side::Kith, _) => self.kith.take(load).await,
            (Side::Baseline, None) => self.bare.take(load).await,
            (Side::Baseline, Some(list)) => {
                Ok(self.bare.take(load).await? + list.cpu_micros(load.calls).await?)
            }
        });
        results.add(claim, &rounds.await?)
    }
}

/// The messages of a page as a plain list of Redis.
struct RawList {
    client: Redis,
    key: String,
}

impl RawList {
    async fn fill(url: &str, messages: &[Message]) -> Result<Self> {
        let client = Builder::from_config(Config::from_url(url)?)
            .with_performance_config(|performance| performance.default_command_timeout = ANSWER)
            .build()?;
        client.init().await?;
        let key = format!("kith_bench_{}:page", std::process::id());
        let entries: Vec<Vec<u8>> = messages.iter().map(prost::Message::encode_to_vec).collect();
        let _: i64 = client.rpush(&key, entries).await?;
        Ok(Self { client, key })
    }

    /// Of this process, for a read and its decoding.
    async fn cpu_micros(&self, reads: u32) -> Result<f64> {
        let own = std::process::id();
        let before = usage::cpu_seconds(own)?;
        for _ in 0..reads {
            let entries: Vec<bytes::Bytes> = self.client.lrange(&self.key, 0, -1).await?;
            for entry in entries {
                black_box(Message::decode(entry)?);
            }
        }
        Ok((usage::cpu_seconds(own)? - before) * 1e6 / f64::from(reads))
    }

    async fn remove(&self) -> Result<()> {
        let _: i64 = self.client.del(&self.key).await?;
        Ok(())
    }
}
