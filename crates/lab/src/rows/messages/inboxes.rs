//! What a fan-out to 500 inboxes takes of Redis, over as many plain XADD.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike as _,
    types::{Builder, ClusterHash, CustomCommand, Value, config::Config},
};
use kith_cache::remote::redis::{RedisOptions, RedisScript, ScriptCall, ScriptRunner};
use kith_delivery::{EpochSource, FanOut, InboxKeeper as _, InboxLimits, RedisInboxes, SentMessages};
use kith_store::{ConversationId, Epoch, GroupId, NodeName, Seq, Timestamp, UserId};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{
    bench::{FAN_OUT_500, FAN_OUT_COALESCED, Plan},
    ratio::{Pair, Side, interleave},
    redis_server::RedisServer,
    results::Results,
};

const USERS: i64 = 500;
/// Messages that came during one fan-out, and go out as one range.
const COALESCED: Seq = 4;
/// How long the server may take to say who it is.
const NAMED_WITHIN: std::time::Duration = std::time::Duration::from_secs(20);
const POLL: std::time::Duration = std::time::Duration::from_millis(5);

/// Runs the row if it is asked for; nothing where there is no Redis.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !(plan.wants(&FAN_OUT_500) || plan.wants(&FAN_OUT_COALESCED)) || plan.redis.is_none() {
        return Ok(());
    }
    // One of its own: what others do there would be counted.
    let redis = RedisServer::start(&[]).await?;
    let stage = Stage::start(&redis).await?;
    if plan.wants(&FAN_OUT_500) {
        results.add(&FAN_OUT_500, &stage.measure(plan, 1).await?)?;
    }
    if plan.wants(&FAN_OUT_COALESCED) {
        results.add(&FAN_OUT_COALESCED, &stage.measure(plan, COALESCED).await?)?;
    }
    Ok(())
}

/// Both sides.
struct Stage<'a> {
    redis: &'a RedisServer,
    raw: Client,
    keeper: RedisInboxes,
    log: ConversationId,
    users: Vec<UserId>,
}

/// The only epoch.
#[derive(Debug)]
struct OneEpoch(Epoch);

#[async_trait]
impl EpochSource for OneEpoch {
    fn followed(&self) -> Option<Epoch> {
        Some(self.0.clone())
    }

    async fn settled(&self) -> Option<u64> {
        Some(self.0.number)
    }
}

impl<'a> Stage<'a> {
    /// Every user has a receiver on one node.
    async fn start(redis: &'a RedisServer) -> Result<Self> {
        let options = RedisOptions { url: redis.uri(), ..RedisOptions::default() };
        let runner = Arc::new(ScriptRunner::connect(options).await?);
        let epoch = Epoch { number: 1, server: server_of(&runner).await? };
        let keeper = RedisInboxes::over(runner, Arc::new(OneEpoch(epoch)), InboxLimits::default());
        let users = (1..=USERS).map(UserId::new).collect::<Result<Vec<_>, _>>()?;
        let node: NodeName = "node".parse()?;
        for opened in keeper.open(&node, &users).await {
            opened?;
        }
        let raw = Builder::from_config(Config::from_url(&redis.uri())?).build()?;
        raw.init().await?;
        Ok(Self { redis, raw, keeper, log: ConversationId::Group(GroupId::new(1)?), users })
    }

    /// Microseconds of Redis for a message and inbox. `at_once`: messages of one fan-out.
    async fn measure(&self, plan: &Plan, at_once: Seq) -> Result<Vec<Pair<f64>>> {
        let messages: Seq = plan.size(400, 8);
        let mut last = 0;
        interleave(plan.rounds, async |side| {
            let before = self.taken().await?;
            for _ in 0..messages / at_once {
                match side {
                    Side::Baseline => {
                        for seq in last + 1..=last + at_once {
                            self.add(seq).await?;
                        }
                    }
                    Side::Kith => self.fan_out(last + at_once).await?,
                }
                last += at_once;
            }
            let entries = i32::try_from(messages * USERS)?;
            Ok((self.taken().await? - before) * 1e6 / f64::from(entries))
        })
        .await
    }

    async fn fan_out(&self, last: Seq) -> Result<()> {
        let sent = SentMessages { conversation: self.log, last, sent: Timestamp::now(), entries: Vec::new() };
        let fanned = self.keeper.fan_out(&FanOut { sent, users: &self.users }).await;
        ensure!(fanned.failed.is_none() && fanned.without_receiver.is_empty(), "an inbox has no entry");
        Ok(())
    }

    /// The same entries, without marks.
    async fn add(&self, last: Seq) -> Result<()> {
        let pipeline = self.raw.pipeline();
        for user in &self.users {
            let (key, entry) = (format!("raw:inbox:{user}"), format!("m {} {last} {last}", self.log));
            let words = [key.as_str(), "MAXLEN", "~", "200", "*", "e", &entry].map(Value::from);
            let command = CustomCommand::new_static("XADD", ClusterHash::Random, false);
            // Only queued here.
            let _queued: Value = pipeline.custom(command, words.to_vec()).await?;
        }
        let answers: Vec<Result<Value, Error>> = pipeline.try_all().await;
        let are_added = answers.len() == self.users.len() && answers.iter().all(Result::is_ok);
        ensure!(are_added, "Redis refuses a command");
        Ok(())
    }

    /// Seconds of processor time that Redis has taken so far.
    async fn taken(&self) -> Result<f64> {
        let mut taken = 0.0;
        for part in ["used_cpu_user", "used_cpu_sys"] {
            taken += self.redis.info(part).await?.parse::<f64>().context("the time is no number")?;
        }
        Ok(taken)
    }
}

/// The name by which the server is accepted, once it has said it.
async fn server_of(runner: &ScriptRunner) -> Result<String> {
    let (seen, script) = (Mutex::new(String::new()), RedisScript::new("return 1"));
    let accept = |server: &str| {
        server.clone_into(&mut seen.lock());
        true
    };
    let until = Instant::now() + NAMED_WITHIN;
    loop {
        let none: [Bytes; 0] = [];
        let call = ScriptCall::new(&script, vec![format!("{{{}}}:name", runner.tag())], none);
        if let Some(Ok(_)) = runner.run_accepted(&[call], accept).await.pop() {
            break;
        }
        ensure!(Instant::now() < until, "the server does not say who it is");
        sleep(POLL).await;
    }
    Ok(seen.into_inner())
}
